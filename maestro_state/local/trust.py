"""Which files of which project the user has vouched for, by the digest of their content.

A project's files may come from an untrusted repository, so what names a program, an endpoint or a folder
outside the project counts only while the content is byte for byte what the user trusted. The record is the
user's own, outside every project.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from maestro_state.errors import ConfigError, FileCorrupt
from maestro_state.fs.opening import open_file, replace_file
from maestro_state.fs.private import (
    config_home,
    open_private_folder,
    read_private,
    read_project_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The project files that trust speaks of, relative to the project root.
SETTINGS_FILE = ".maestro/config/settings.toml"
TOOLS_FILE = ".maestro/config/tools.json"
TRUSTED_FILES = (SETTINGS_FILE, TOOLS_FILE)

_RECORD = "trust.json"
_LOCK = "trust.json.lock"
_FORMAT = 1
#: What to do where the folder of trust cannot be written.
_ELSEWHERE = "make it writable for you alone, or set XDG_CONFIG_HOME to a folder of your own"

Root = str | os.PathLike[str]
Record = dict[str, dict[str, str]]


class ProjectFile(NamedTuple):
    """A project file as it was at one moment: what was judged is exactly what is used."""

    content: bytes
    trusted: bool


def trust(project_root: Root, env: Mapping[str, str] | None = None) -> list[str]:
    """Vouch for the project's files as they are now and return which there are.

    Repeatable. Raises ConfigError when a file cannot be read safely or the record cannot be written.
    """
    digests = {}
    for relative in TRUSTED_FILES:
        content = _read(project_root, relative)
        if content is not None:
            digests[relative] = _digest(content)
    with _changing(env) as record:
        record[_name(project_root)] = digests
        if not digests:
            del record[_name(project_root)]
    return list(digests)


def keep_trust(project_root: Root, relative_file: str, content: bytes, env: Mapping[str, str] | None = None) -> None:
    """Go on trusting a file that Maestro itself is about to rewrite; only for one that was trusted until now."""
    with _changing(env) as record:
        record.setdefault(_name(project_root), {})[relative_file] = _digest(content)


def untrust(project_root: Root, env: Mapping[str, str] | None = None) -> list[str]:
    """Forget that the project's files were trusted and return which had been. Repeatable."""
    with _changing(env) as record:
        return list(record.pop(_name(project_root), {}))


def read_with_trust(project_root: Root, relative_file: str, env: Mapping[str, str] | None = None) -> ProjectFile | None:
    """Read a project file once and judge just those bytes; None when there is no such file."""
    content = _read(project_root, relative_file)
    if content is None:
        return None
    known = _recorded(env).get(_name(project_root), {}).get(relative_file)
    return ProjectFile(content, known is not None and known == _digest(content))


def _name(project_root: Root) -> str:
    # Resolved: the same project reached through a link is the same project.
    return os.path.realpath(project_root)


def _digest(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()


def _read(project_root: Root, relative: str) -> bytes | None:
    try:
        return read_project_file(os.fspath(project_root), relative)
    except OSError as error:
        raise ConfigError(
            f"{os.path.join(project_root, relative)} cannot be read: {error.strerror}",
            hint="it must be a regular file in regular folders, without symbolic links",
        ) from error


def _recorded(env: Mapping[str, str] | None) -> Record:
    """Return what is on record; one that is damaged or not the user's own vouches for nothing."""
    home = config_home(os.environ if env is None else env)
    if home is None:
        return {}
    folder_path = os.path.join(home, "maestro")
    if not os.path.isdir(folder_path):
        return {}  # asking must not make the folder
    try:
        folder = open_private_folder(folder_path)
    except OSError:
        return {}
    try:
        return _decode(read_private(folder, _RECORD))
    except (OSError, ValueError):
        return {}
    finally:
        os.close(folder)


@contextmanager
def _changing(env: Mapping[str, str] | None) -> Iterator[Record]:
    """Hand out the record for a change and store it, one process at a time."""
    import fcntl
    import json

    home = config_home(os.environ if env is None else env)
    if home is None:
        raise ConfigError("there is no home folder to keep trust in", hint="set XDG_CONFIG_HOME")
    path = os.path.join(home, "maestro")
    try:
        folder = open_private_folder(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be used: {error.strerror}", hint=_ELSEWHERE) from error
    try:
        # A file of its own: the record is replaced by renaming, which would leave a lock on the old one.
        lock = open_file(folder, _LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            record = _decode(read_private(folder, _RECORD))
            yield record
            text = json.dumps({"version": _FORMAT, "projects": record}, indent=2, sort_keys=True)
            replace_file(folder, _RECORD, text.encode() + b"\n")
        finally:
            os.close(lock)
    except OSError as error:
        raise ConfigError(f"{path}/{_RECORD} cannot be used: {error.strerror}", hint=_ELSEWHERE) from error
    except ValueError as error:
        # Overwriting it would forget every other project without a word.
        raise FileCorrupt(f"{path}/{_RECORD} is damaged", hint="remove it and trust again") from error
    finally:
        os.close(folder)


def _decode(content: bytes | None) -> Record:
    """Read the record's text; raises ValueError for anything that is not one."""
    import json

    if content is None:
        return {}
    document = json.loads(content)
    if not isinstance(document, dict) or document.get("version") != _FORMAT:
        raise ValueError("not a record of trust")
    projects = document.get("projects")
    if not isinstance(projects, dict) or not all(isinstance(files, dict) for files in projects.values()):
        raise ValueError("not a record of trust")
    return projects
