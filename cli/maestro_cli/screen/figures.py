"""Numbers of a run as people read them: how long it took, what it consumed, what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_cli import output

if TYPE_CHECKING:
    from maestro_state.models.run import Run, Usage

#: Below this a tenth of a second tells runs apart, in milliseconds.
_EXACT_MS = 9_950


def count(number: int) -> str:
    """Shorten a number to three figures: 340, 1.2k, 56k, 1.2M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 9.95 * size else f"{number / size:.0f}{unit}"
    return str(number)


def money(dollars: float) -> str:
    """Show what something cost: cents where they matter, fractions of one where they are all there is."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def took(run: Run) -> str:
    """Say how long a run took, or has been going."""
    from maestro_state.clock import from_iso, now_ms

    if run.started_at is None:
        return ""
    ended_ms = from_iso(run.finished_at) if run.finished_at else now_ms()
    took_ms = max(0, ended_ms - from_iso(run.started_at))
    return f"{took_ms / 1000:.1f} s" if took_ms < _EXACT_MS else output.duration(took_ms // 1000)


def tokens(usage: Usage | None) -> str:
    """Return what went in and what came out, `1.2k/340`; nothing where the tool did not tell."""
    if usage is None or (usage.tokens_input is None and usage.tokens_output is None):
        return ""
    return f"{count(usage.tokens_input or 0)}/{count(usage.tokens_output or 0)}"


def cost(usage: Usage | None) -> str:
    return "" if usage is None or usage.cost is None else money(usage.cost)


def model(run: Run) -> str:
    """Return the model that answered, else the one that was asked for."""
    return (run.usage.model if run.usage else None) or run.model or ""


def asker(run: Run) -> str:
    """Say who asked for a run, and where: `ana@pts/3`."""
    return "@".join(part for part in (run.user, run.terminal) if part)


def ending(run: Run) -> str:
    """Say in one line how a run ended: `success · 12 s · opus · 1.2k tokens in, 340 out · $0.0210`."""
    parts = [run.status, took(run), model(run), consumed(run.usage), cost(run.usage)]
    return " · ".join(part for part in parts if part)


def consumed(usage: Usage | None) -> str:
    """Say what went in and what came out: `1.2k tokens in, 340 out`; nothing where the tool did not tell."""
    told = [] if usage is None else [(usage.tokens_input, "in"), (usage.tokens_output, "out")]
    first, *rest = [(count(number), way) for number, way in told if number is not None] or [("", "")]
    return (
        ", ".join([f"{first[0]} tokens {first[1]}", *(f"{number} {way}" for number, way in rest)]) if first[0] else ""
    )
