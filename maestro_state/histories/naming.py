"""Which session a conversation is: its suffix follows from the tool's own id, so that it is found again by its name."""

from __future__ import annotations

import hashlib

from maestro_state.errors import FileCorrupt, InvalidName, MaestroError
from maestro_state.histories.values import Conversation
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.models.names import SLUG_MAX, session_slug

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
#: How many suffixes are tried where others are in the way.
_TRIES = 32
#: Longest beginning of a title that becomes a name.
_SLUG_MAX = 40


class Names:
    """The sessions of a home, by what they were imported from."""

    def __init__(self, home: Home) -> None:
        """Read the names there are."""
        self._home = home
        self._by_suffix: dict[str, list[str]] = {}
        for session_id in home.ids():
            self._by_suffix.setdefault(session_id[-6:], []).append(session_id)

    def has(self, session_id: str) -> bool:
        """Tell whether there is such a session."""
        return session_id in self._by_suffix.get(session_id[-6:], ())

    def of(self, conversation: Conversation) -> tuple[str, bool]:
        """Return the id of a conversation's session, and whether it is there already."""
        tool, external_id = conversation.tool, conversation.external_id
        for attempt in range(_TRIES):
            suffix = _suffix(tool, external_id, attempt)
            there = self._by_suffix.get(suffix, [])
            if found := next((one for one in there if self._is(one, tool, external_id)), None):
                return found, True
            if not there:
                session_id = f"{_slug(conversation)}--{suffix}"
                self._by_suffix[suffix] = [session_id]
                return session_id, False
        raise FileCorrupt(f"no name is free for {tool} conversation {external_id[:80]}")

    def _is(self, session_id: str, tool: str, external_id: str) -> bool:
        try:
            known = ArchivedSession(self._home, session_id).record().project_context.get("import")
        except MaestroError:
            # Damaged, or in the making by another import: of the name that this one would give it, it is the same.
            return True
        return isinstance(known, dict) and known.get("source") == tool and known.get("external_id") == external_id


def _suffix(tool: str, external_id: str, attempt: int) -> str:
    text = f"{tool}\0{external_id}\0{attempt}".encode("utf-8", "surrogatepass")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    return "".join(_BASE36[number // 36**place % 36] for place in range(6))


def _slug(conversation: Conversation) -> str:
    title = "".join(char if char.isprintable() else " " for char in conversation.title or "")[:SLUG_MAX]
    try:
        slug = session_slug(title.replace("/", " ").replace("\\", " "))
    except InvalidName:
        return conversation.tool
    return slug if len(slug) <= _SLUG_MAX else slug[: _SLUG_MAX + 1].rpartition("-")[0] or conversation.tool
