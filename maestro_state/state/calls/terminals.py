"""Calls on presence: which terminals look at a session. A dead one disappears after a while."""

from __future__ import annotations

import msgspec

from maestro_state.models.session import Terminal
from maestro_state.state.calls.replies import accept
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, Query, load

#: How long a terminal that says nothing more is still shown, in milliseconds.
SHOWN_MS = 15_000
#: How often a living one says so.
BEAT_MS = 5_000


def attach_terminal(terms: Terms, stamp: Stamp, session_id: str, terminal: Terminal) -> Call:
    """Show a terminal as attached for a while."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, msgspec.json.encode(terminal), SHOWN_MS)
    return Call(load("attach_terminal"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "attaching to it"))  # fmt: skip


def keep_terminal(terms: Terms, session_id: str, terminal: Terminal, now_ms: int) -> Call:
    """Show an attached terminal for as long again."""
    args = (now_ms, msgspec.json.encode(terminal), SHOWN_MS)
    return Call(load("keep_terminal"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "looking at it"))  # fmt: skip


def detach_terminal(terms: Terms, session_id: str, terminal: Terminal) -> Call:
    """Take a terminal off the list."""
    args = (msgspec.json.encode(terminal),)
    return Call(load("detach_terminal"), terms.keys.session(session_id), args, lambda _: None)


def attached_terminals(terms: Terms, session_id: str, now_ms: int) -> Query:
    """Read who is attached, and not gone."""
    command = ("ZRANGEBYSCORE", terms.keys.of_session(session_id, "attached"), now_ms, "+inf")
    return Query(command, lambda reply: [msgspec.json.decode(one, type=Terminal) for one in reply])
