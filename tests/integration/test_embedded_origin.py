"""A repository cannot bring the data a server starts from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.embedded import stop, vouch_for_data
from maestro_state.errors import ServerUnavailable


def test_data_from_elsewhere_is_not_loaded_before_it_is_trusted(project: Path, tmp_path: Path):
    """Copied server data is refused, untouched, and used once its owner says so."""
    with Maestro(project) as maestro:
        session = maestro.sessions.start("made-here")
        maestro.stack.stop()
    clone = project / "clone"
    # Sockets cannot be copied; the resident process leaves one if it had the time to make it.
    shutil.copytree(project / ".maestro", clone / ".maestro", ignore=shutil.ignore_patterns("*.sock"))
    try:
        with Maestro(clone) as maestro, pytest.raises(ServerUnavailable, match="not made here"):
            maestro.sessions.read(session.id)

        assert vouch_for_data(clone)
        with Maestro(clone) as maestro:
            assert maestro.sessions.read(session.id).slug == "made-here"
    finally:
        stop(clone)


def test_own_data_is_loaded_again_without_asking(project: Path):
    """The control: the same data in its own place needs no word."""
    for _ in range(2):
        with Maestro(project) as maestro:
            maestro.sessions.start("again")
            maestro.stack.stop()
    with Maestro(project) as maestro:
        assert len(maestro.sessions.list()) == 2
