"""What was imported before, so that a file that did not change costs one stat: `.maestro/sessions/.imports.json`.

A cache and never the truth: damaged or missing, histories are read again, and the archives tell what is new.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.local.project import Project
from maestro_state.models.undecodable import UNDECODABLE

_NAME = ".imports.json"
_FORMAT = 1
_LIMIT = 64 << 20


class SeenConversation(msgspec.Struct):
    """What came of one conversation."""

    external_id: str
    row: dict[str, Any] | None  #: as it was reported; None when it was left out


class SeenFile(msgspec.Struct):
    """What came of one file."""

    stamp: list[int]
    conversations: list[SeenConversation]
    errors: list[tuple[str, str]] = []  #: paths and reasons


class _Stored(msgspec.Struct):
    format: int = _FORMAT
    files: dict[str, SeenFile] = {}


class ImportCache:
    """The files that were imported, by tool and path."""

    def __init__(self, project: Project) -> None:
        """Read what is known; nothing where it cannot be read."""
        self._project = project
        self._files: dict[str, SeenFile] = {}
        self._is_changed = False
        try:
            with project.sessions() as folder:
                content = folder.read(_NAME, limit=_LIMIT)
            stored = msgspec.json.decode(content or b"{}", type=_Stored)
        except (MaestroError, OSError, *UNDECODABLE):
            return
        if stored.format == _FORMAT:
            self._files = stored.files

    def get(self, tool: str, path: str, stamp: list[int]) -> SeenFile | None:
        """Return what came of a file, if it is as it was."""
        found = self._files.get(f"{tool}:{path}")
        return found if found and found.stamp == stamp else None

    def put(self, tool: str, path: str, seen: SeenFile) -> None:
        """Keep what came of a file."""
        self._files[f"{tool}:{path}"] = seen
        self._is_changed = True

    def save(self) -> None:
        """Write it down; what cannot be written is read again next time."""
        if not self._is_changed:
            return
        self._is_changed = False
        try:
            with self._project.sessions(create=True) as folder:
                folder.replace(_NAME, msgspec.json.encode(_Stored(files=self._files)), durable=False)
        except (MaestroError, OSError):
            return
