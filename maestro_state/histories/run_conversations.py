"""Which conversations of the tools' own were held by runs, and where: `.maestro/sessions/.ran/`, a file a conversation.

A run's prompt and answer are in its session: an import of the tool's history leaves them there.
"""

from __future__ import annotations

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.histories.followed_conversations import file_name
from maestro_state.local.project import Project
from maestro_state.models.undecodable import UNDECODABLE

_FOLDER = ".ran"
_LIMIT = 1 << 20


class _Held(msgspec.Struct):
    sessions: list[str]


class RunConversations:
    """The conversations that runs of a project held."""

    def __init__(self, project: Project) -> None:
        """Take the project."""
        self._project = project

    def sessions(self, tool: str, external_id: str) -> list[str]:
        """Return the sessions whose runs held one."""
        try:
            with self._project.sessions() as folder, folder.child(_FOLDER) as inner:
                content = inner.read(file_name(tool, external_id), limit=_LIMIT)
                return msgspec.json.decode(content, type=_Held).sessions if content else []
        except (MaestroError, OSError, *UNDECODABLE):
            return []

    def add(self, tool: str, external_id: str, session_id: str) -> None:
        """Note that a run of a session held one; what cannot be written is imported as a session of its own."""
        known = self.sessions(tool, external_id)
        if session_id in known:
            return
        try:
            with self._project.sessions(create=True) as folder, folder.child(_FOLDER, create=True) as inner:
                held = msgspec.json.encode(_Held([*known, session_id]))
                inner.replace(file_name(tool, external_id), held, durable=False)
        except (MaestroError, OSError):
            return
