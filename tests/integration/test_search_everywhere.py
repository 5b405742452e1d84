"""Searching all projects of a user: those that are there, each by itself, no server started for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.errors import InvalidValue
from maestro_state.local.embedded import is_running, stop
from maestro_state.local.registry import projects
from tests.support.cli_runs import printed, refused
from tests.support.embedded_project import temporary_project


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    """Return three folders, each with a session that says something of a tapir."""
    with temporary_project() as one, temporary_project() as two, temporary_project() as three:
        for folder in (one, two, three):
            with Maestro(folder) as maestro:
                maestro.sessions.start(f"in-{folder.name.lower().replace('_', '')}")
                maestro.messages.add("user", f"a tapir in {folder.name}")
                if folder != one:
                    maestro.sessions.end()
        yield [one, two, three]


def test_all_projects_are_searched(folders: list[Path]):
    """Live ones on servers that run, archived ones of those that do not, newest first, each hit with its project."""
    one, two, three = folders
    stop(three)
    assert projects(os.environ) == sorted(map(str, folders))
    with Maestro(two) as maestro:
        assert maestro.search.find("tapir").total == 1
        found = maestro.search.find("tapir", everywhere=True)
        assert found.total == 3
        assert [hit.project for hit in found.results] == [str(three), str(two), str(one)]
        assert [hit.project for hit in maestro.search.find("tapir", everywhere=True, live=True).results] == [str(one)]
        assert len(maestro.search.find("tapir", everywhere=True, limit=2).results) == 2
        assert maestro.search.find("tapir", everywhere=True, rank=True).total == 3
        assert found.results[0].command.startswith(f"maestro --project {three} --session ")
        with pytest.raises(InvalidValue):
            maestro.search.find("tapir", everywhere=True, session="x")
    assert not is_running(three)  # searched on disk


def test_what_is_gone_is_passed_over_and_what_is_broken_named(folders: list[Path], tmp_path: Path):
    """Neither hides the others; a folder that is no project can ask too, and stays none."""
    one, two, three = folders
    moved = tmp_path / "moved"
    shutil.move(three / ".maestro", moved)
    config = two / ".maestro" / "config"
    config.mkdir(exist_ok=True)
    (config / "settings.toml").write_text("ttl_seconds = [broken")
    empty = tmp_path / "empty"
    empty.mkdir()
    with Maestro(empty) as maestro:
        found = maestro.search.find("tapir", everywhere=True)
    assert [hit.project for hit in found.results] == [str(one)]
    assert found.skipped == [str(two)]
    assert list(empty.iterdir()) == []
    shutil.move(moved, three / ".maestro")


def test_the_command(folders: list[Path]):
    """The same on the command line."""
    found = printed(folders[0], "search", "tapir", "--everywhere")
    assert {hit["project"] for hit in found["results"]} == set(map(str, folders))
    code, error = refused(folders[0], "search", "tapir", "--everywhere", "--session", "x")
    assert (code, error["code"]) == (2, "invalid_value")
