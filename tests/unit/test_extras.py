"""What is said where an extra is missing: a command that works as it stands."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from maestro_state.local import extras


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///src/my%20clone", "dir_info": {}}, "pip install '/src/my clone[serve]'"),
        ({"url": "file:///src/clone", "dir_info": {"editable": True}}, "pip install -e '/src/clone[serve]'"),
        (None, "pip install 'maestro-state[serve]'"),
    ],
)
def test_an_extra_comes_from_where_the_rest_came_from(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
):
    """A checkout that was installed is on no index under its name, or somebody else's is."""
    noted = SimpleNamespace(read_text=lambda _: json.dumps(origin) if origin else None)
    monkeypatch.setattr(extras, "distribution", lambda _: noted)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert extras.install_command("serve") == command
    monkeypatch.setenv("PATH", "")
    assert extras.install_command("serve") == f"{os.path.dirname(sys.executable)}/{command}"
    monkeypatch.setattr(sys, "prefix", "/home/ana/.local/share/pipx/venvs/maestro-state")
    assert extras.install_command("serve").startswith("pipx install --force ")


def test_an_origin_that_cannot_be_read_is_an_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """What to do is said all the same."""
    monkeypatch.setattr(extras, "distribution", lambda _: SimpleNamespace(read_text=lambda _: "{torn"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert extras.install_command("mcp") == "pip install 'maestro-state[mcp]'"
