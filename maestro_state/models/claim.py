"""A run in the hands of whoever carries it out: the claim on it, and how it ended."""

from __future__ import annotations

import msgspec

from maestro_state.models.run import Run, SentItem, Usage

#: How often a living owner gives a heartbeat, in milliseconds.
BEAT_MS = 500


class Claim(msgspec.Struct, frozen=True):
    """The right to carry out one run, and all that is needed for it but the contents."""

    session_id: str
    run: Run
    sent: list[SentItem]
    fence: int
    working_directory: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    status: str  #: success, error or canceled
    error: str | None = None
    warning: str | None = None
    exit_code: int | None = None
    size: int = 0
    digest: str | None = None
    usage: Usage | None = None
    answer: str = ""  #: what becomes a message: all of the output, or its two ends
    answer_is_cut: bool = False
