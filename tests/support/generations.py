"""Generations of one small archive for the crash tests, in a module that is imported fast by their many children."""

from __future__ import annotations

import os
from pathlib import Path

from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.spare import SPARES
from maestro_state.mirror.writer import replacing

SESSION_ID = "work--abcdef"


def contents(number: int, runs: int = 0) -> dict[str, bytes]:
    """Return the files of a generation."""
    outputs = {f"runs/{run:04}/output.txt": b"%d of %d\n" % (run, number) * 400 for run in range(1, runs + 1)}
    return outputs | {
        "session.json": layout.pretty({"id": SESSION_ID, "state": "com_saida", "notes": f"generation {number}"}),
        "context/active.json": layout.pretty({"items": [], "generation": number}),
        "events.jsonl": b"".join(layout.json_line({"id": f"{n}-0", "type": "t", "data": {}}) for n in range(number)),
        "context/blobs/ctx-0001.txt": b"never changes\n",
    }


def write_generation(root: Path, number: int, *, keep_spare: bool = False, runs: int = 0) -> None:
    """Write one generation as a flush does; of a live session the one before is kept to build the next on."""
    with replacing(Home.of_project(Project(root)), SESSION_ID) as generation:
        for path, content in contents(number, runs).items():
            generation.put(path, content)
        generation.commit(last_id=f"{number}-0", written_at="2026-01-01T00:00:00.000+00:00",
                          keep_spare=keep_spare)  # fmt: skip


def folder_of(project: Path) -> Path:
    """Return where the archive is."""
    return project / ".maestro/sessions" / SESSION_ID


def spare_of(project: Path) -> Path:
    """Return where its spare is."""
    return project / ".maestro/sessions" / SPARES / SESSION_ID


def write_naive(root: Path, number: int) -> None:
    """Replace each file atomically, one after the other."""
    folder = root / ".maestro/sessions" / SESSION_ID
    for path, content in contents(number).items():
        aside = folder / f"{path}.tmp"
        aside.write_bytes(content)
        os.replace(aside, folder / path)


def generation_of(root: Path, runs: int = 0) -> int | None:
    """Return which generation the archive is, None when it is a mixture."""
    home = Home.of_project(Project(root))
    found = home.open_session(SESSION_ID)
    assert found is not None, "there is no archive any more"
    with found:
        folder = Path(found.path)
    for number in (1, 2):
        if all((folder / path).is_file() and (folder / path).read_bytes() == content
               for path, content in contents(number, runs).items()):  # fmt: skip
            return number
    return None
