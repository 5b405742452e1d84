"""Generations of one small archive for the crash tests, in a module that is imported fast by their many children."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.view import open_view
from maestro_state.mirror.writer import Generation, replacing

SESSION_ID = "work--abcdef"


def home_of(project: Path) -> Home:
    return Home.of_project(Project(project))


def contents(number: int, runs: int = 0) -> dict[str, bytes]:
    """Return the files of a generation."""
    outputs = {f"runs/{run:04}/output.txt": b"%d of %d\n" % (run, number) * 400 for run in range(1, runs + 1)}
    return outputs | {
        "session.json": layout.pretty({"id": SESSION_ID, "state": "com_saida", "notes": f"generation {number}"}),
        "context/active.json": layout.pretty({"items": [], "generation": number}),
        "events.jsonl": b"".join(layout.json_line({"id": f"{n}-0", "type": "t", "data": {}}) for n in range(number)),
        "context/blobs/ctx-0001.txt": b"never changes\n",
    }


def write_generation(root: Path, number: int, *, in_place: bool = False, runs: int = 0) -> None:
    """Write one generation as the last flush of a session does, or in place, as the checkpoints before it do."""
    with replacing(home_of(root), SESSION_ID) as generation:
        if in_place and generation.old:
            generation.change_in_place()
            generation.keep_all()
        for path, content in contents(number, runs).items():
            _write(generation, path, content)
        generation.commit(last_id=f"{number}-0", written_at="2026-01-01T00:00:00.000+00:00")


def _write(generation: Generation, path: str, content: bytes) -> None:
    """Write one file; one that only grew is added to."""
    before = b"".join(generation.lines(path)) if path == layout.EVENTS else b""
    if before and before != content and content.startswith(before):
        generation.append(path, content[len(before) :])
    else:
        generation.put(path, content)


def folder_of(project: Path) -> Path:
    """Return where the archive is."""
    return project / ".maestro/sessions" / SESSION_ID


def write_naive(root: Path, number: int) -> None:
    """Replace each file atomically, one after the other."""
    folder = root / ".maestro/sessions" / SESSION_ID
    for path, content in contents(number).items():
        aside = folder / f"{path}.tmp"
        aside.write_bytes(content)
        os.replace(aside, folder / path)


def generation_of(root: Path, runs: int = 0) -> int | None:
    """Return which generation the archive's files are, for any program; None when they are a mixture."""
    with open_view(Home.of_project(Project(root)), SESSION_ID) as found:
        folder = Path(found.root.path)
    return _one_of(lambda path: (folder / path).read_bytes() if (folder / path).is_file() else None, runs)


def generation_read(root: Path, runs: int = 0) -> int | None:
    """Return which generation the archive is for Maestro's readers; None when it is a mixture."""
    with open_view(Home.of_project(Project(root)), SESSION_ID) as view:
        return _one_of(lambda path: b"".join(view.pieces(path) or ()), runs)


def _one_of(read: Callable[[str], bytes | None], runs: int) -> int | None:
    for number in (1, 2):
        if all(read(path) == content for path, content in contents(number, runs).items()):
            return number
    return None
