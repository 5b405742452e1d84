"""Traces as values: the place of a span, in the form in which programs hand it on (W3C Trace Context). Pure."""

from __future__ import annotations

import re

import msgspec

#: The variable in which command-line programs hand it on; the header of HTTP has the same name in small letters.
TRACEPARENT = "TRACEPARENT"

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


class Span(msgspec.Struct, frozen=True):
    """One span of a trace, as others refer to it."""

    trace_id: str  #: 32 hexadecimal digits
    span_id: str  #: 16
    flags: str = "01"  #: 01: its trace is recorded

    def __str__(self) -> str:
        """Return it as it is handed on."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def parse_traceparent(said: str | None) -> Span | None:
    """Read what a caller handed on; None for what is no such thing, as the standard wants it."""
    found = _FORM.fullmatch(said.strip()) if said else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Span(trace_id, span_id, flags)


def span_of_run(session_id: str, run_id: str, created_at: str, fence: int, caller: Span | None) -> Span:
    """Return the span of one attempt at a run: the same wherever it is asked for, so that nothing has to store it."""
    from hashlib import sha256  # 5 ms that reading does without

    known = f"{session_id}/{run_id}/{created_at}"
    trace_id = caller.trace_id if caller else sha256(known.encode()).hexdigest()[:32]
    span_id = sha256(f"{known}/{fence}".encode()).hexdigest()[:16]
    return Span(trace_id, span_id, caller.flags if caller else "01")
