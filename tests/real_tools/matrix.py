"""The six real tools, through `maestro run`, against a model's API on loopback: one table of what was seen.

`python -m tests.real_tools.matrix [--write] [TOOL...]` with the tools on PATH, which `make test-tools` installs.
Exits with 1 when a cell is not as it should be; `--write` puts the table into docs/tools.md.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.real_tools.homes import environment
from tests.support.cli_runs import MAESTRO, maestro_command
from tests.support.embedded_project import temporary_project
from tests.support.model_api import ModelApi, model_api
from tests.support.waiting import wait_until

TOOLS = ("claude", "codex", "gemini", "qwen", "opencode", "llm")
PAGE = Path(__file__).parent.parent.parent / "docs" / "tools.md"
_PART = re.compile(r"<!-- tools-matrix -->\n.*?<!-- /tools-matrix -->", re.DOTALL)

#: A tool that goes on trying is ended after this long, in seconds.
TIMEOUT_S = "25"

#: What is not there, and is no fault: tool and column → why.
LACKS = {
    ("codex", "stream"): "whole parts", ("opencode", "stream"): "whole parts",
    ("codex", "cost"): "tells none", ("gemini", "cost"): "tells none", ("qwen", "cost"): "tells none",
    ("llm", "cost"): "tells none", ("llm", "activity"): "has no tools",
}  # fmt: skip


@dataclass
class Bench:
    """One tool in one project."""

    tool: str
    project: Path
    api: ModelApi
    env: dict[str, str]
    first: dict[str, Any] = field(default_factory=dict)

    def maestro(self, *words: str) -> Any:
        """Run a command and return its document, of a failure too."""
        import json

        at = words.index("--") if "--" in words else len(words)
        done = maestro_command(self.project, *words[:at], "--json", *words[at:], env=self.env)
        return json.loads(done.stdout or done.stderr)

    def run(self, prompt: str, *words: str) -> dict[str, Any]:
        """Ask the tool."""
        document: dict[str, Any] = self.maestro("run", prompt, *words)
        return document

    def events(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind of a run."""
        import json

        words = ("watch", "--json", "--from", "start", "--until-idle", "0")
        lines = maestro_command(self.project, *words, env=self.env).stdout.splitlines()
        events = [json.loads(line) for line in lines]
        return [one["data"] for one in events if one["type"] == kind and one["data"].get("run") == run_id]


class Unlike(Exception):
    """What was seen is not what should be."""


def expect(seen: object, what: object) -> None:
    """Stop this cell when something is not there."""
    if not seen:
        raise Unlike(str(what)[:200])


def answer(bench: Bench) -> str:
    """The answer, whole and once."""
    ran = bench.first = bench.run("hello MARK-first")
    expect(ran.get("status") == "success", ran)
    expect(ran["output"].count("Seen: MARK-first. Größe 日本 ✓ end.") == 1, ran["output"])
    return "✓"


def stream(bench: Bench) -> str:
    """Pieces of an answer before its end."""
    ran = bench.run("hello @slow@")
    pieces = len(bench.events(ran["id"], "run.output"))
    expect(pieces > 3, f"{pieces} pieces of {ran}")
    return f"✓ {pieces} pieces"


def tokens(bench: Bench) -> str:
    """Tokens in and out."""
    usage = bench.first.get("usage", {})
    expect(usage.get("tokens_input") and usage.get("tokens_output"), usage)
    return f"✓ {usage['tokens_input']} / {usage['tokens_output']}"


def cost(bench: Bench) -> str:
    """What it cost."""
    expect(bench.first.get("usage", {}).get("cost"), bench.first.get("usage"))
    return "✓"


def model(bench: Bench) -> str:
    """The model that answered."""
    expect(bench.first.get("usage", {}).get("model"), bench.first.get("usage"))
    return f"✓ {bench.first['usage']['model']}"


def activity(bench: Bench) -> str:
    """A call of the shell, in the tool's own words."""
    ran = bench.run("@shell=echo MARK-shell@", "--mode", "full")
    expect(ran.get("status") == "success", ran)
    calls = [one["name"] for one in bench.events(ran["id"], "run.activity") if one["kind"] == "tool_call"]
    expect(calls, ran)
    return f"✓ {calls[0]}"


def go_on(bench: Bench) -> str:
    """The second question in the first one's conversation, counted by itself."""
    ran = bench.run("and MARK-second", "--continue-from", bench.first["id"])
    expect(ran.get("continues") == bench.first["id"], ran)
    expect("MARK-first, MARK-second" in ran["output"], ran["output"])
    expect(ran["usage"]["tokens_output"] == bench.first["usage"]["tokens_output"], ran["usage"])
    return "✓"


def refused(status: str) -> Callable[[Bench], str]:
    """Return the check of an API that refuses."""

    def check(bench: Bench) -> str:
        began = time.monotonic()
        ran = bench.run(f"hello @{status}@", "--timeout", TIMEOUT_S)
        expect(ran.get("status") == "error", ran)
        took = time.monotonic() - began
        retries = sum(one["kind"] == "retry" for one in bench.events(ran["id"], "run.activity"))
        return f"✓ {took:.0f} s{f', {retries} retried' if retries else ''}"

    return check


def cancel(bench: Bench) -> str:
    """A model that never ends its answer; canceled, nothing of the tool is left."""
    asked = len(bench.api.asked)
    ran = bench.run("hello @hang@", "--detach")
    wait_until(lambda: len(bench.api.asked) > asked, "the tool asks")
    bench.maestro("cancel", ran["id"])
    wait_until(lambda: bench.maestro("show", ran["id"], "--meta")["run"]["status"] == "canceled", "it is canceled")
    return "✓"


def mode(bench: Bench) -> str:
    """With edit a file is written, with read it is not; a tool without the mode says so before it runs."""
    made = bench.project / "made.txt"
    if bench.tool == "llm":
        expect(bench.run("hello", "--mode", "edit")["error"]["code"] == "invalid_value", "not refused")
        return "✓ edit refused"
    for name in ("read", "edit"):
        made.unlink(missing_ok=True)
        ran = bench.run(f"@write={made}@", "--mode", name)
        expect(made.exists() == (name == "edit"), f"{name}: {ran}")
    return "✓"


COLUMNS: dict[str, Callable[[Bench], str]] = {
    "answer": answer, "stream": stream, "tokens": tokens, "cost": cost, "model": model, "activity": activity,
    "continue": go_on, "401": refused("401"), "404": refused("404"), "500": refused("500"), "hang + cancel": cancel,
    "mode": mode,
}  # fmt: skip


def row(tool: str) -> dict[str, str]:
    """Look at one tool."""
    cells: dict[str, str] = {}
    with temporary_project() as project, TemporaryDirectory() as home, model_api(answer=None) as api:
        env = environment(Path(home), api.origin, f"{Path(MAESTRO).parent}:{os.environ['PATH']}")
        # Words that steer the API in one prompt must not come back as history in the next.
        env |= {"MAESTRO_HISTORY_BYTES": "0", "XDG_CONFIG_HOME": "", "IS_SANDBOX": "1" if os.geteuid() == 0 else ""}
        bench = Bench(tool, project, api, env)
        started = bench.maestro("session", "start", tool, "--tool", tool)
        assert "id" in started, started
        for name, check in COLUMNS.items():
            if why := LACKS.get((tool, name)):
                cells[name] = f"– {why}"
                continue
            try:
                cells[name] = check(bench)
            except (Unlike, KeyError, AssertionError, TimeoutError) as error:
                cells[name] = f"✗ {type(error).__name__}: {error}"
            print(tool, name, cells[name], flush=True)
    return cells


def main(words: list[str]) -> int:
    """Look at the tools and print the table."""
    asked = [word for word in words if not word.startswith("-")] or TOOLS
    tools = [tool for tool in TOOLS if tool in asked]
    rows = {tool: row(tool) for tool in tools}
    versions = {tool: _version(tool) for tool in tools}
    header = ("", *(f"{tool} {versions[tool]}" for tool in tools))
    lines = [header, tuple("---" for _ in header)]
    lines += [(name, *(rows[tool][name] for tool in tools)) for name in COLUMNS]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(table)
    if "--write" in words:
        text = PAGE.read_text()
        PAGE.write_text(_PART.sub(lambda _: f"<!-- tools-matrix -->\n{table}\n<!-- /tools-matrix -->", text))
    return int("✗" in table)


def _version(tool: str) -> str:
    import subprocess

    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+[.\d]*", said)
    return found[0] if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
