"""What a team's server can be asked for all the time: few numbers, however many sessions there are."""

from __future__ import annotations

import msgspec


class MetricValues(msgspec.Struct, frozen=True, kw_only=True):
    """How a namespace stands now, and what was counted in it since it began."""

    sessions: dict[str, int]  #: by state
    messages: int
    counters: dict[str, int]  #: the ledger's, by name
    unarchived_s: float  #: since when the oldest change waits for a disk
    dirty: int  #: sessions with changes that are not on disk
    swept_s: float | None  #: when a sweep was last made, in seconds since the epoch; None: never
    damaged: int  #: records that nobody could read
    workers: int
    queue_length: int
