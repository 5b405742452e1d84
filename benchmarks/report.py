"""Figures as people, machines and documents read them. Everything here is made from rows alone."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.row import Row

#: The run that docs/performance.md shows, and the plot made from it.
RECORDED = Path(__file__).parent / "results.json"
PLOT = Path(__file__).parent.parent / "docs" / "benchmarks.svg"

#: What took part, for whoever wants to know how old a figure is.
PACKAGES = (
    "redis", "hiredis", "rq", "openai-agents", "langchain-community", "google-adk", "langgraph-checkpoint-sqlite",
    "arq", "saq", "huey", "llm",
)  # fmt: skip


def line(row: Row) -> str:
    """Return one figure as a line."""
    spread = f"± {row.spread:.2f}" if row.spread else ""
    beside = f"{row.reference} ({row.note})" if row.note else row.reference
    return f"{row.question:<40} {row.ours:>11.1f} {row.unit:<3} {row.figure:>14} {spread:<7} {beside:<34} {row.verdict}"


def has_target(row: Row) -> bool:
    """Tell whether a row is one to be met."""
    return any(value is not None for value in (row.limit, row.aim, row.faster, row.least))


def targets(rows: Iterable[Row]) -> list[str]:
    """Return every target with its figure beside it, as lines."""
    wanted = [row for row in rows if has_target(row)]
    if not wanted:
        return ["these questions have no targets: their figures only inform"]
    lines = [f"{'what':<40} {'beside':<34} {'target':<16} {'measured':>14}  verdict"]
    lines += [
        f"{row.question:<40} {row.reference:<34} {row.target:<16} {row.figure:>14}  {row.verdict}" for row in wanted
    ]
    return lines


def closing(document: dict[str, object]) -> list[str]:
    """Return how many targets are met, and which are not."""
    rows = recorded_rows(document)
    wanted = [row for row in rows if has_target(row) and row.verdict != "not measured" and row.target[:3] != "aim"]
    missed = [row for row in wanted if row.verdict == "missed"]
    absent = [row for row in rows if row.verdict == "not measured" and has_target(row)]
    lines = [f"{len(wanted) - len(missed)} of {len(wanted)} targets met in {document['seconds']} s"]
    lines += [f"missed: {row.question}, {row.figure} {row.reference}, wanted {row.target}" for row in missed]
    lines += [f"not measured: {row.question}, {row.reference}: {row.note}" for row in absent]
    return lines


def document(rows: Iterable[Row], seconds: dict[str, int]) -> dict[str, object]:
    """Return a run as one JSON document."""
    return {
        "seconds": sum(seconds.values()),
        "seconds_by_question": seconds,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "rows": [{**asdict(row), "ratio": row.ratio, "target": row.target, "verdict": row.verdict} for row in rows],
    }


def recorded_rows(found: dict[str, object]) -> list[Row]:
    """Return the rows of a document."""
    rows: list[dict[str, object]] = found["rows"]  # type: ignore[assignment]
    said = ("ratio", "target", "verdict")  # what a row says of itself, written for machines
    return [Row(**{name: value for name, value in row.items() if name not in said}) for row in rows]  # type: ignore[arg-type]


def recorded() -> dict[str, object]:
    """Read the run that docs/performance.md shows."""
    found: dict[str, object] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def document_part(found: dict[str, object]) -> str:
    """Return what docs/performance.md says of a run: the plot, and every target with its figure."""
    rows = [row for row in recorded_rows(found) if has_target(row)]
    machine: dict[str, object] = found["machine"]  # type: ignore[assignment]
    where = f"{machine['cores']} cores, Python {machine['python']}"
    lines = [
        f"![Peers beside Maestro]({PLOT.name})",
        "",
        f"{closing(found)[0]} on {where}. Figures are ratios of medians, taken in turns in one run.",
        "",
        "<details><summary>Every target and what was measured</summary>",
        "",
        "| what | beside | target | measured | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = (row.question, row.reference, row.target, row.figure, row.verdict)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", "</details>"])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
