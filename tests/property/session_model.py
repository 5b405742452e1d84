"""What a session should be, in plain Python: what the real thing is compared with. Knows no servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maestro_state.errors import Conflict, InvalidTransition, MaestroError, SessionExpired, SessionNotFound

FROZEN = ("finalizada", "abortada")
IDLE_AFTER_MS = 900_000
LEASE_MS = 15_000


@dataclass
class Modelled:
    """One session as it should be."""

    id: str
    ttl_ms: int
    created_at: int
    last_activity: int
    state: str = "iniciada"
    reason: str | None = None
    is_gone: bool = False
    messages: list[tuple[str, str]] = field(default_factory=list)
    events: list[str] = field(default_factory=lambda: ["session.started"])
    fields: dict[str, tuple[Any, int]] = field(default_factory=dict)
    attached: dict[str, int] = field(default_factory=dict)
    last_command: tuple[str, int, str] | None = None  #: command id, when, the message's id

    def refusal(self, now: int) -> type[MaestroError] | None:
        """Return the error a change gets now, if any."""
        if self.is_gone:
            return SessionNotFound
        if self.state in FROZEN:
            return InvalidTransition
        return SessionExpired if now >= self.last_activity + self.ttl_ms else None

    def status(self, now: int) -> str:
        """Return how alive it is."""
        quiet = now - self.last_activity
        if self.state in FROZEN or quiet >= self.ttl_ms:
            return "expired"
        return "idle" if quiet >= IDLE_AFTER_MS else "active"

    def touch(self, now: int, event: str | None = None) -> None:
        """Record an activity; a clock that went back takes nothing back."""
        self.last_activity = max(self.last_activity, now)
        if event:
            self.events.append(event)

    def add(self, now: int, message_id: str, content: str, idempotency_key: str) -> None:
        """Record a message."""
        self.touch(now, "message.added")
        self.messages.append((message_id, content))
        self.last_command = (idempotency_key, now, message_id)

    def revision(self, name: str) -> int:
        """Return the revision of a field."""
        return self.fields.get(name, (None, 0))[1]

    def set(self, now: int, name: str, value: Any) -> None:
        """Replace a field."""
        self.touch(now, "session.updated")
        self.fields[name] = (value, self.revision(name) + 1)

    def set_refusal(self, now: int, name: str, if_revision: int | None) -> type[MaestroError] | None:
        """Return the error setting a field gets now, if any."""
        stale = if_revision is not None and if_revision != self.revision(name)
        return self.refusal(now) or (Conflict if stale else None)

    def freeze(self, now: int, state: str, event: str, reason: str | None = None) -> None:
        """Accept nothing more."""
        self.touch(now, event)
        self.state, self.reason = state, reason

    def looking(self, now: int) -> set[str]:
        """Return the terminals whose lease has not ended."""
        return {name for name, ends_at in self.attached.items() if ends_at >= now}
