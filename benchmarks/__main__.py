"""The runner: `python -m benchmarks [QUESTION …] [--json] [--plot FILE] [--profile FILE] [--record] [--check]`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import flame, plot, report
from benchmarks.row import Row

#: Every question in the order it is asked, with the seconds it may take; all of them together take about five minutes.
QUESTIONS = {
    "append": 90, "read": 90, "listing": 60, "follow": 60, "terminals": 60, "memory": 30, "commands": 60, "context": 30,
    "runs": 60, "screen": 30, "queues": 60, "archive": 120, "fork": 60, "import": 60, "breadcrumbs": 60,
    "capacity": 60, "stall": 60, "adapters": 60, "search": 300, "mcp": 60, "serve": 60, "page": 120,
}  # fmt: skip
#: Seconds a question gets to put its server away when its time is over.
_LEAVE_S = 20


def main(arguments: list[str]) -> int:
    """Ask the questions; exit with 1 when one failed, and with --check also when a target is missed."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"some of: {', '.join(QUESTIONS)}")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the peers beside Maestro as SVG")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="draw where one question's time goes as SVG")
    parser.add_argument("--record", action="store_true", help="keep the figures as those docs/performance.md shows")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--rows", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if unknown := [one for one in chosen.questions if one not in QUESTIONS]:
        parser.error(f"there is no question {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
    if chosen.record and chosen.questions:
        parser.error("--record takes all questions: what docs/performance.md shows is one run")
    if chosen.profile and len(chosen.questions) != 1:
        parser.error("--profile takes one question")
    if chosen.rows:
        with suppress(KeyboardInterrupt):
            _measure_here(chosen.questions, chosen.profile)
            return 0
        return 130
    rows: list[Row] = []
    failures: list[str] = []
    seconds: dict[str, int] = {}
    for question in chosen.questions or QUESTIONS:
        begun = time.monotonic()
        for row in _asked(question, failures, chosen.profile):
            rows.append(row)
            if not chosen.json:
                print(report.line(row), flush=True)
        seconds[question] = round(time.monotonic() - begun)
    document = report.document(rows, seconds)
    if chosen.json:
        print(json.dumps({**document, "failures": failures}))
    else:
        print("\n".join(["", *report.targets(rows), "", *report.closing(document)]))
    for failure in failures:
        print(failure, file=sys.stderr)
    if chosen.plot:
        chosen.plot.write_text(plot.draw(rows), encoding="utf-8")
    if chosen.record and not failures:
        report.RECORDED.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        report.PLOT.write_text(plot.draw(rows), encoding="utf-8")
        print("recorded; `make generate` brings docs/performance.md up to date")
    return int(bool(failures) or (chosen.check and any(row.verdict == "missed" for row in rows)))


def _measure_here(questions: list[str], profile: Path | None) -> None:
    stacks: Counter[flame.Stack] = Counter()
    for question in questions:
        with flame.looking(stacks) if profile else nullcontext():
            for row in import_module(f"benchmarks.{question}").measure():
                print(json.dumps(asdict(row)), flush=True)
        if profile:
            profile.write_text(flame.draw(stacks, question), encoding="utf-8")
            for name, share in flame.own_shares(stacks):
                print(f"{share:6.1%}  {name}", file=sys.stderr)


def _asked(question: str, failures: list[str], profile: Path | None) -> Iterator[Row]:
    """Ask one question in a process of its own: no product's imports weigh on the next one's figures."""
    command = [sys.executable, "-m", "benchmarks", "--rows", question]
    if profile:
        command += ["--profile", str(profile)]
    limit = time.monotonic() + QUESTIONS[question]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:

        def time_is_over(*_: object) -> None:
            # An interrupt lets the question put its server away; one that does not leave then is ended.
            os.killpg(process.pid, signal.SIGKILL if time.monotonic() >= limit + _LEAVE_S else signal.SIGINT)
            signal.alarm(_LEAVE_S)

        alarm = signal.signal(signal.SIGALRM, time_is_over)
        signal.alarm(QUESTIONS[question])
        try:
            assert process.stdout
            for line in process.stdout:
                yield Row(**json.loads(line))
            process.wait()
        except KeyboardInterrupt:
            time_is_over()
            raise
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, alarm)
    if process.returncode:
        late = time.monotonic() >= limit
        failures.append(f"{question}: {'took longer than its time' if late else 'failed'}; its figures are incomplete")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
