"""Validated settings, remembered in the user's private cache, because validating costs more than most commands.

A result is found by the digest of all it was made from, so there is nothing to expire. A secret is never stored, only
where it came from. What could not be cached is slow, never wrong and never an error.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from json import dumps, loads
from typing import TYPE_CHECKING

from maestro_state.fs.opening import replace_file
from maestro_state.fs.private import cache_home, is_inside, open_private_folder, read_private
from maestro_state.local.settings import FRESH, VARIABLES, Given, Resolved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Results kept; one is under 4 kB.
_KEPT = 64


def recall(given: Given) -> Resolved | None:
    """Return the result that was kept for just this, without FRESH settings; None when there is none to be believed."""
    folder = _open(given, create=False)
    if folder is None:
        return None
    try:
        content = read_private(folder, _name(given)) or b""
    except OSError:
        return None
    finally:
        os.close(folder)
    _, _, body = content.partition(b"\n")
    if not body or _sealed(body) != content:
        return None  # cut short or damaged
    return Resolved(*loads(body))


def remember(given: Given, result: Resolved) -> None:
    """Keep a result for the next program; give up without a word where that is not possible."""
    folder = _open(given, create=True)
    if folder is None:
        return
    values = {name: value for name, value in result.values.items() if name not in FRESH}
    try:
        with suppress(OSError):
            replace_file(folder, _name(given), _sealed(dumps(result._replace(values=values)).encode()), durable=False)
            _prune(folder)
    finally:
        os.close(folder)


def _name(given: Given) -> str:
    """Return the digest of all that a result depends on; of secrets in variables, only that they are set."""
    code = os.path.dirname(__file__)
    variables = {name: given.env[variable] for variable, name in VARIABLES.items() if given.env.get(variable)}
    parts: list[Any] = [
        [sys.version, os.geteuid()],
        [_version(os.path.join(code, f"settings{part}.py")) for part in ("", "_cache", "_validation")],
        _without_secrets(variables),
        _without_secrets({name: [type(value).__name__, str(value)] for name, value in given.overrides.items()}),
        [[file.path, file.scope, sha256(file.content).hexdigest()] for file in given.files],
    ]
    return sha256(dumps(parts, sort_keys=True).encode()).hexdigest() + ".json"


def _without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: name in FRESH or value for name, value in values.items()}


def _version(path: str) -> list[int]:
    status = os.stat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _sealed(body: bytes) -> bytes:
    return sha256(body).hexdigest().encode() + b"\n" + body


def _open(given: Given, *, create: bool) -> int | None:
    home = cache_home(given.env)
    if home is None or is_inside(home, given.root):
        return None
    # Reading makes no folder, and writing makes none in the place of a home that is not there.
    if not os.path.isdir(os.path.dirname(home) if create else os.path.join(home, "maestro", "settings")):
        return None
    try:
        return open_private_folder(home, "maestro", "settings")
    except OSError:
        return None


def _prune(folder: int) -> None:
    names = os.listdir(folder)
    if len(names) <= _KEPT:
        return
    ages = sorted((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns, name) for name in names)
    for _, name in ages[: len(names) - _KEPT]:
        os.unlink(name, dir_fd=folder)
