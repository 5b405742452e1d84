# Generated from maestro_state/live by `make generate`. Do not edit.
"""Messages of agents and people: append, last, since, and what is handed to a model."""

from __future__ import annotations

from typing import Any

from maestro_state._sync.full_messages import whole
from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.models.message import Message, id_order, with_retractions
from maestro_state.state.calls import messages as ops
from maestro_state.state.scripts import Query


class Messages:
    """The structured conversation of a session."""

    def __init__(self, server: Server, sessions: Records) -> None:
        self._server = server
        self._sessions = sessions

    def add(
        self,
        role: str,
        content: str,
        ref: str | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        tool_calls: list[dict[str, Any]] | None = None,
        tool_results: list[dict[str, Any]] | None = None,
        parent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Message:
        """Append a message, once: a repeat with the same `idempotency_key` returns the first one's id."""
        session_id = self._sessions.resolve(ref)
        parts = {
            "metadata": metadata,
            "tool_calls": tool_calls,
            "tool_results": tool_results,
            "parent_id": parent_id,
        }
        with self._server.sequence() as sequence:
            stamp = self._server.stamp(idempotency_key or sequence.next_key())
            call = ops.add_message(self._server.terms, stamp, session_id, role, content, parts)
            entry_id = self._server.change(session_id, call)
        return Message(entry_id.decode(), role, content, metadata, tool_calls, tool_results, parent_id)

    def last(self, count: int = 20, ref: str | None = None, *, before: str | None = None) -> list[Message]:
        """Read the last messages, or the last before one, oldest first."""
        session_id = self._sessions.resolve(ref)
        query = ops.last_messages(self._server.terms, session_id, count, before)
        found = self._read(session_id, query)
        if not found:
            source = self._sessions.source(session_id)
            if before is None:
                found = source.messages(last=count)
            elif source.archived:
                end = id_order(before)
                found = [one for one in source.messages() if id_order(one.id) < end][-count:]
        return self._whole(session_id, found)

    def since(self, message_id: str | None = None, ref: str | None = None) -> list[Message]:
        """Read the messages after one, or all of them."""
        session_id = self._sessions.resolve(ref)
        query = ops.messages_since(self._server.terms, session_id, message_id)
        found = self._read(session_id, query)
        found = found or (self._sessions.source(session_id)).messages(since=message_id)
        return self._whole(session_id, found)

    def _read(self, session_id: str, query: Query) -> list[Message]:
        """Read messages, those marked that were taken back."""
        taken_back = ops.read_retracted(self._server.terms, session_id)
        found, retracted = self._server.fetch_of(session_id, query, taken_back)
        return with_retractions(found, retracted)

    def _whole(self, session_id: str, messages: list[Message]) -> list[Message]:
        """Return messages with what they only refer to; most refer to nothing."""
        if not any(message.content_ref for message in messages):
            return messages
        return whole(self._sessions.source(session_id), messages)

    def for_model(self, ref: str | None = None) -> list[Message]:
        """Read what a model is handed: the context_summary in place of the messages it stands for, then the rest."""
        source = self._sessions.source(ref)
        summary = source.summary()
        found = source.messages(since=summary.id if summary else None)
        handed_out = whole(source, [message for message in found if not message.retracted_at])
        return [summary, *handed_out] if summary else handed_out
