"""What a pass over the sessions did."""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, frozen=True):
    """A session, or the queue, that could not be swept."""

    id: str
    reason: str


class SweepReport(msgspec.Struct, kw_only=True):
    """What a sweep did."""

    checkpointed: list[str] = []
    finalized: list[str] = []
    archived: list[str] = []
    recovered_runs: list[str] = []
    errors: list[Failure] = []
    waiting: list[str] = []  #: ended sessions left to a worker that can reach their folder
    repaired: list[str] = []  #: sessions indexed again, or leftovers taken away
    busy: str | None = None  #: who else is sweeping, and what they have was left to them

    def add(self, other: SweepReport) -> None:
        """Take over what a part of the pass did."""
        for name in ("checkpointed", "finalized", "archived", "errors", "waiting", "repaired"):
            getattr(self, name).extend(getattr(other, name))
