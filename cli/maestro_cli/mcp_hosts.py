"""Registering `maestro mcp` with an AI tool: in the file where it lists its servers, or by its own command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from maestro_state import MaestroError, NotFound, Refused, WorkFailed
from maestro_state.mcp.hosts import HOSTS, NAME, SCOPES, Host, Listed

#: Largest list of servers that is read, in bytes.
_LARGEST = 8 << 20
#: Seconds that a tool may take for its own command.
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, and what of it is there already."""

    host: Host
    scope: str
    path: Path
    entry: dict[str, Any]
    status: str  #: installed, updated, removed or unchanged
    text: str  #: of the file afterwards; empty when there is none any more
    commands: list[list[str]]  #: of the tool itself, where it does it

    def document(self, *, done: bool) -> dict[str, Any]:
        """Return it as it is printed."""
        said = {"tool": self.host.name, "scope": self.scope, "status": self.status, "done": done}
        return said | {"path": str(self.path), "entry": self.entry, "commands": self.commands}

    def lines(self) -> list[str]:
        """Return what would be done, as people read it."""
        if self.commands:
            return [shlex.join(command) for command in self.commands]
        return [f"{self.path}:", *(self.text or "(removed)").splitlines()]

    def carry_out(self) -> None:
        """Do it."""
        for command in self.commands:
            _run(command)
        if not self.commands and self.status != "unchanged":
            _write(self.path, self.text)
            if not self.text and self.host.has_folder(self.scope):
                with suppress(OSError):  # something else is in it
                    self.path.resolve().parent.rmdir()


def plan(tool: str, scope: str, project: Path, *, remove: bool) -> Plan:
    """Find out what there is to do; changes nothing."""
    host = HOSTS[tool]
    path = host.file(scope, project, os.environ)
    if scope == "project":
        _check_inside(path, project)
    command = own_command()
    listed = host.form(str(path), host.key, _read(path))
    there, entry = listed.entry(), host.entry(command)
    if there == (None if remove else {**(there or {}), **entry}):
        return Plan(host, scope, path, entry, "unchanged", listed.text, [])
    status = "removed" if remove else "installed" if there is None else "updated"
    if host.own_command and scope == "user":
        commands = [] if there is None else [host.removing(scope)]
        commands += [] if remove else [host.adding(command, scope)]
        return Plan(host, scope, path, entry, status, "", commands)
    return Plan(host, scope, path, entry, status, _changed(listed, entry, remove=remove), [])


def is_registered(tool: str, project: Path) -> bool:
    """Tell whether a tool has been given the server for good."""
    host = HOSTS.get(tool)
    for path in {host.file(scope, project, os.environ) for scope in SCOPES} if host else ():
        with suppress(MaestroError, OSError):  # the tool cannot read it either
            if host and host.form(str(path), host.key, _read(path)).entry() is not None:
                return True
    return False


def _changed(listed: Listed, entry: dict[str, Any], *, remove: bool) -> str:
    return listed.drop() if remove else listed.put(entry)


def own_command() -> list[str]:
    """Return how a tool starts us: by the whole path, since it may have a short PATH."""
    beside = Path(sys.executable).with_name(NAME)
    found = str(beside) if beside.exists() else shutil.which(NAME)
    if found is None:
        from maestro_state.local.extras import install_command

        raise NotFound("there is no program maestro to register", hint=f"install it: {install_command('mcp')}")
    return [os.path.abspath(found), "mcp"]


def has_extra() -> bool:
    """Tell whether `maestro mcp` can run here: it needs packages that a plain installation does not bring."""
    return find_spec("mcp") is not None


def _check_inside(path: Path, project: Path) -> None:
    """Refuse a file of the project that leads out of it: a repository from elsewhere may have put it there."""
    if not path.resolve().is_relative_to(project.resolve()):
        raise Refused(f"{path} leads out of the project", hint="remove that link, or use --scope user")


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise Refused(f"{path} is not a file, so it was not changed", hint="move it out of the way first")
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return ""
    if len(content) > _LARGEST:
        raise WorkFailed(f"{path} has more than {_LARGEST} bytes: it was not changed")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise WorkFailed(f"{path} is not UTF-8: it was not changed") from None


def _write(path: Path, text: str) -> None:
    """Put the file in place whole, where a link leads to as well; with nothing left to say, remove it."""
    path = path.resolve()
    if not text:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _run(command: list[str]) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise NotFound(f"{command[0]} is not installed here", hint=f"install it, then: {shlex.join(command)}")
    done = subprocess.run([program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=_TIMEOUT_S, check=False)  # fmt: skip
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise WorkFailed(f"{shlex.join(command)} failed: {said}", hint="run it yourself")
