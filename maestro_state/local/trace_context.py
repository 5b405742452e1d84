"""Which span asks: that of a program that traces itself with OpenTelemetry, or the one its caller handed on."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from maestro_state.models.trace import TRACEPARENT, Span, parse_traceparent


def calling_span(environment: Mapping[str, str]) -> Span | None:
    """Return the span that is under way in this program, else the one in its environment; None without either."""
    # Whoever traces has loaded it; nobody else pays for it.
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            return Span(f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{int(context.trace_flags):02x}")
    return parse_traceparent(environment.get(TRACEPARENT))
