"""The runner: `python -m benchmarks [QUESTION …] [--json]`."""

from __future__ import annotations

import json
import sys
from importlib import import_module

#: Every question, in the order it is asked.
QUESTIONS = ("append", "read", "listing", "follow", "memory", "commands", "context", "runs", "screen", "archive",
             "breadcrumbs", "capacity")  # fmt: skip


def main(arguments: list[str]) -> int:
    """Ask the questions; leave with 1 when a ratio is missed."""
    as_json = "--json" in arguments
    chosen = [word for word in arguments if not word.startswith("-")] or list(QUESTIONS)
    rows = []
    for question in chosen:
        for row in import_module(f"benchmarks.{question}").measure():
            rows.append(row)
            if not as_json:
                wanted = f"≤ {row.limit:g}" if row.limit else ""
                aim = f" (aim {row.aim:g})" if row.aim else ""
                print(
                    f"{row.question:<34} {row.ours:>11.1f} {row.unit:<3} {row.ratio:>6.2f} ± {row.spread:<5.2f}× "
                    f"{row.reference:<32} {wanted}{aim:<11} {row.verdict}",
                    flush=True,
                )
    if as_json:
        print(json.dumps({"rows": [{**vars(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows]}))
    return int(any(row.verdict == "missed" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
