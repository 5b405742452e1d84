"""Projects in folders with names that few programs expect."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from maestro_workers.stack.idleness import SERVICE_CLIENT, _foreign

from maestro_state.local.embedded.paths import socket_address
from maestro_state.local.embedded.probe import open_server
from tests.support.cli_runs import MAESTRO, maestro_command, printed
from tests.support.embedded_project import temporary_project


@pytest.mark.parametrize("name", ["a b'c\"d\u00fc", "two\nlines"])
def test_runs_are_carried_out_there(name: str):
    """Workers start, and who is connected to the server is told from its own services."""
    with temporary_project() as root:
        project = root / name
        project.mkdir()
        printed(project, "session", "start", "s", "--tool", "cat")
        assert printed(project, "run", "hello", "--no-history")["output"] == "hello"
        assert maestro_command(project, "session", "end").returncode == 0
        with closing(open_server(socket_address(project), name=SERVICE_CLIENT)) as own:
            with closing(open_server(socket_address(project), name="somebody")):
                assert _foreign(own)
            assert not _foreign(own)


def test_a_folder_that_is_gone_is_named(tmp_path: Path):
    """Somebody removed it under the shell."""
    place = tmp_path / "gone"
    place.mkdir()
    line = f"rmdir ../gone && exec {MAESTRO} status"
    done = subprocess.run(["sh", "-c", line], cwd=place, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "maestro: the folder you are in is not there any more → cd into one that is\n"
