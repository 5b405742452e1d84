"""The keys of AI tools in one file of NAME=value lines, read by workers for the tools that they start.

Read anew for every run, so that a key can be replaced without a restart. What is wrong with it is told by the line's
number, never by what the line says.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import NoReturn

from maestro_state.errors import ConfigError, WorkFailed
from maestro_state.fs.opening import open_path
from maestro_state.fs.private import read_regular

VARIABLE = "MAESTRO_SECRETS_FILE"
_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
#: A group may read it, since that is how containers are handed files of another owner; nobody else may do anything.
_TOO_OPEN = stat.S_IWGRP | stat.S_IRWXO


def read_secrets(path: str | None) -> dict[str, str]:
    """Return what the file says, nothing without one; ConfigError with one line that says what to do."""
    if path is None:
        return {}
    try:
        descriptor = open_path(path)
        mode = os.fstat(descriptor).st_mode
        content = read_regular(descriptor)
    except FileNotFoundError:
        _refuse(path, "is not there", f"write it, one NAME=value a line, or unset {VARIABLE}")
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}", f"make it a file that user id {os.getuid()} may read")
    if mode & _TOO_OPEN:
        _refuse(path, "can be read or changed by others", f"chmod 600 {path}")
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        _refuse(path, "is not text", "write one NAME=value a line, in UTF-8")
    return dict(_variable(path, number, line) for number, line in enumerate(lines, 1) if _says_something(line))


def with_secrets(environ: Mapping[str, str], path: str | None) -> dict[str, str]:
    """Return an environment and the file's variables, which count before it; WorkFailed says what to do."""
    try:
        return {**environ, **read_secrets(path)}
    except ConfigError as error:
        raise WorkFailed(f"{error} ({error.hint})") from None


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _variable(path: str, number: int, line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line.strip())
    if found is None or "\0" in line:
        _refuse(path, f"says something else than NAME=value in line {number}", "write one NAME=value a line")
    name, value = found[1], found[2]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return name, value


def _refuse(path: str, what: str, hint: str) -> NoReturn:
    raise ConfigError(f"the secrets file {path} {what}", hint=hint) from None
