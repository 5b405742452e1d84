"""The one table from the words scripts answer with to errors."""

from __future__ import annotations

from typing import Any

from maestro_state.errors import (
    Conflict,
    DiscussionClosed,
    DiscussionNotFound,
    InvalidTransition,
    ItemNotFound,
    MaestroError,
    NewerFormat,
    Refused,
    RunNotFound,
    ScriptError,
    SessionExists,
    SessionExpired,
    SessionNotFound,
    WorkSessionClosed,
    WorkSessionNotFound,
)
from maestro_state.models.schema import SCHEMA

#: The last moment that a list has a place for, in milliseconds: the end of the year 9998.
_LAST_MS = 253_370_764_799_999


def moment(score: Any) -> int:
    """Return a score of an index as milliseconds; one that no clock says becomes the nearest that one could."""
    return int(min(max(float(score), -1.0), _LAST_MS))


def text(value: Any) -> str:
    """Decode what the server stored for us; it was UTF-8 when it went in."""
    return value.decode() if isinstance(value, bytes) else str(value)


def word_of(reply: list[Any]) -> str:
    """Return the word that a script answers with."""
    return text(reply[0])


def is_ok(reply: list[Any]) -> bool:
    """Tell whether a script answers OK, where each of its words says yes or no."""
    return text(reply[0]) == "OK"


def refusal(word: str, details: list[Any], session_id: str, action: str) -> MaestroError:
    """Return the error a refusing answer means."""
    match word:
        case "NOT_FOUND":
            return SessionNotFound(session_id)
        case "EXISTS":
            return SessionExists(f"session {session_id} exists already")
        case "NEWER":
            return NewerFormat(f"session {session_id}", int(details[0]), SCHEMA)
        case "EXPIRED":
            return SessionExpired(session_id)
        case "BAD_STATE":
            return InvalidTransition(session_id, text(details[0]), action)
        case "STALE":
            current = text(details[0])
            return Conflict(
                f"somebody changed it first: the revision is now {current}",
                hint=f"read it again, then pass --if-revision {current}",
            )
        case "LATE":
            return Conflict("a call that was given up arrived after later ones; nothing was done")
        case "NO_ITEM":
            return ItemNotFound(session_id, text(details[0]))
        case "REMOVED":
            return Refused(f"context item {text(details[0])} is removed already", hint="maestro context list")
        case "NO_RUN":
            return RunNotFound(session_id, text(details[0]))
        case "NO_BLOB":
            return ScriptError(f"session {session_id} has no content with digest {text(details[0])}")
    return ScriptError(f"{action} answered {word}")


def discussion_refusal(word: str, details: list[Any], discussion_id: str, action: str) -> MaestroError:
    """Return the error a refusing answer of a discussion script means."""
    match word:
        case "NOT_FOUND" | "EXPIRED":  # the disk has it, and it can be taken up again from there
            return DiscussionNotFound(discussion_id)
        case "BAD_STATE":
            return DiscussionClosed(discussion_id)
    return refusal(word, details, discussion_id, action)


def accept(reply: list[Any], session_id: str, action: str) -> list[Any]:
    """Return what follows OK, or raise what the refusal means."""
    word = text(reply[0])
    if word != "OK":
        raise refusal(word, reply[1:], session_id, action)
    return reply[1:]


def accept_work(reply: list[Any], work_id: str, action: str) -> list[Any]:
    """Return what follows OK of a work script, or raise what the refusal means."""
    match text(reply[0]):
        case "OK":
            return reply[1:]
        case "NOT_FOUND":
            raise WorkSessionNotFound(work_id)
        case "BAD_STATE":
            raise WorkSessionClosed(work_id, text(reply[1]), action)
        case "EXPIRED":
            raise WorkSessionClosed(work_id, "expired", action)
        case "EXISTS":
            raise SessionExists(f"work session {work_id} exists already")
        case "LATE" | "NEWER" as word:
            raise refusal(word, reply[1:], work_id, action)
        case "MORE_CHILDREN":
            raise Conflict(f"work session {work_id} got another child meanwhile", hint="try again")
        case word:
            raise ScriptError(f"{action} answered {word}")
