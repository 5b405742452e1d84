"""Which conversations were followed into which sessions: `.maestro/sessions/.opened/`, a file a conversation.

So whoever comes next finds what a killed follower left, and an import finds what is in a session already.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.local.project import Project
from maestro_state.models.undecodable import UNDECODABLE

_FOLDER = ".opened"
_LIMIT = 1 << 20


class FollowedConversation(msgspec.Struct, kw_only=True):
    """One conversation that was followed."""

    tool: str
    external_id: str
    sessions: Annotated[list[str], msgspec.Meta(min_length=1)]  #: the last one is where it goes on
    since_ms: int  #: what was said from then on is followed,
    is_over: bool = False  #: and all of it is there
    follower: str | None = None  #: the process that follows it


class FollowedConversations:
    """The conversations of a project that were followed."""

    def __init__(self, project: Project) -> None:
        """Take the project."""
        self._project = project

    def get(self, tool: str, external_id: str) -> FollowedConversation | None:
        """Return what is known of one."""
        try:
            with self._project.sessions() as folder, folder.child(_FOLDER) as inner:
                return _read(inner.read(file_name(tool, external_id), limit=_LIMIT))
        except (MaestroError, OSError):
            return None

    def put(self, one: FollowedConversation) -> None:
        """Keep what is known of one; what cannot be written is read again another time."""
        try:
            with self._project.sessions(create=True) as folder, folder.child(_FOLDER, create=True) as inner:
                inner.replace(file_name(one.tool, one.external_id), msgspec.json.encode(one), durable=False)
        except (MaestroError, OSError):
            return

    def unfinished(self, tool: str | None = None) -> list[FollowedConversation]:
        """Return those of which a part may be missing."""
        try:
            with self._project.sessions() as folder, folder.child(_FOLDER) as inner:
                found = [_read(inner.read(name, limit=_LIMIT)) for name in inner.names()]
        except (MaestroError, OSError):
            return []
        return [one for one in found if one and not one.is_over and tool in (None, one.tool)]


def file_name(tool: str, external_id: str) -> str:
    """Return the name of the file about a conversation, whatever it calls itself."""
    from hashlib import sha256  # 5 ms that reading does without

    text = f"{tool}\0{external_id}".encode("utf-8", "surrogatepass")
    return f"{tool}-{sha256(text).hexdigest()[:24]}.json"


def _read(content: bytes | None) -> FollowedConversation | None:
    try:
        return msgspec.json.decode(content, type=FollowedConversation) if content else None
    except UNDECODABLE:
        return None
