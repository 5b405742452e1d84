"""What a run is sent besides the context: gathered when it is asked for, in at most one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maestro_state._sync.server import Server
from maestro_state.errors import InvalidValue
from maestro_state.local.settings import Settings
from maestro_state.models.run import SentItem
from maestro_state.models.session import Session
from maestro_state.state.calls import messages as message_ops
from maestro_state.state.calls import parts as ops
from maestro_state.state.calls import runs as run_ops
from maestro_state.state.calls.contents import read_items
from maestro_state.state.scripts import Query

PartList = list[ops.Part]
SentList = list[SentItem]


class Parts:
    """Gathers the parts of a run."""

    def __init__(self, server: Server, settings: Settings) -> None:
        self._server = server
        self._settings = settings

    def gather(
        self, session: Session, piped: bytes | None, history: int | None, seen: tuple[str, ...], *, continues: bool
    ) -> PartList:
        """Return the parts of a run asked for now; `history` is how many messages, None as many as fit.

        What goes on with a conversation has its history there, and what is set for the project if that is as it was.
        """
        if history is not None and history < 0:
            raise InvalidValue("the number of messages must be at least 0")
        found = [ops.project_part(session)]
        if not continues:
            found.append(self._history(session, history))
        found.append(ops.piped_part(self._server.terms, piped) if piped else None)
        return [part for part in found if part and not (part.item.id == ops.PROJECT and part.item.digest in seen)]

    def _history(self, session: Session, count: int | None) -> ops.Part | None:
        most = self._settings.history_bytes
        if count == 0 or (count is None and most == 0):
            return None
        most = most or ops.ASKED_BYTES
        after = "0-0"
        if session.context_summary:
            summary = self._server.fetch(message_ops.context_summary(self._server.terms, session.id))
            after = summary.id if summary else after
        wanted = ops.MESSAGES_MAX if count is None else count
        said = self._server.run(ops.read_history(self._server.terms, session.id, after, wanted, most))
        return ops.history_part(session.context_summary, said, most)

    def seen(self, session_id: str, sent_before: Sequence[str] = ()) -> tuple[int, SentList]:
        """Read the context, and the revision that what was read cannot be older than; without what was sent before."""
        return self.seen_with(session_id, sent_before, [])[0]

    def seen_with(
        self, session_id: str, sent_before: Sequence[str], also: list[Query]
    ) -> tuple[tuple[int, SentList], list[Any]]:
        """Read the context, and something else in the same round trip."""
        terms = self._server.terms
        queries = [run_ops.revision(terms, session_id), read_items(terms, session_id), *also]
        revision, items, *found = self._server.fetch_all(queries)
        sent = [item for item in run_ops.sent_items(items) if item.digest not in sent_before]
        return (revision, sent), found
