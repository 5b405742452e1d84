"""One figure of a benchmark: ours beside a reference, what it should be, and whether it is."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Ours beside a reference. A target is one of `limit`, `faster`, `least`; without any, the row only informs."""

    question: str
    reference: str
    ours: float
    theirs: float | None  #: None when the reference could not be measured; `note` says why
    unit: str
    limit: float | None = None  #: the ratio must not exceed this
    aim: float | None = None  #: and would better be this
    spread: float = 0.0  #: half the distance between the quartiles of the ratio over the rounds
    faster: float | None = None  #: the reference must take at least so many times what we take
    least: float | None = None  #: ours must be at least this share of the reference, where more is better
    peer: bool = False  #: the reference is another product, not the limit
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Return ours as a multiple of theirs."""
        return self.ours / self.theirs if self.theirs else None

    @property
    def figure(self) -> str:
        """Say the ratio the way its target is said."""
        if self.ratio is None:
            return "–"
        if not self.peer or self.ratio > 1:
            return f"{self.ratio:.2f} ×"
        return f"{_short(1 / self.ratio)} × faster"

    @property
    def target(self) -> str:
        """Say what the figure should be."""
        if self.faster is not None:
            return f"≥ {self.faster:g} × faster"
        if self.least is not None:
            return f"≥ {self.least:g}"
        aim = f"aim {self.aim:g}" if self.aim is not None else ""
        return f"≤ {self.limit:g}" + (f", {aim}" if aim else "") if self.limit is not None else aim

    @property
    def verdict(self) -> str:
        """Say whether the figure is where it should be."""
        if self.theirs is None:
            return "not measured"
        assert self.ratio is not None
        if self.faster is not None:
            return "met" if self.ratio <= 1 / self.faster else "missed"
        if self.least is not None:
            return "met" if self.ratio >= self.least else "missed"
        if self.limit is None:
            return "" if self.aim is None else "aim met" if self.ratio <= self.aim else "aim missed"
        if self.ratio > self.limit:
            return "missed"
        return "met" if self.aim is None else "aim met" if self.ratio <= self.aim else "met, aim missed"


def row(question: str, figures: dict[str, list[float]], ours: str, theirs: str, *, limit: float | None = None,
        aim: float | None = None, unit: str = "µs", faster: float | None = None,
        peer: bool = False) -> Row:  # fmt: skip
    """Compare two contenders of a race."""
    # A slow contender may have left the race after some rounds: only those that both ran say how far ratios spread.
    ratios = sorted(mine / other for mine, other in zip(figures[ours], figures[theirs], strict=False))
    spread = (ratios[-1 - len(ratios) // 4] - ratios[len(ratios) // 4]) / 2
    return Row(question, theirs, statistics.median(figures[ours]), statistics.median(figures[theirs]), unit, limit, aim,
               spread, faster=faster, peer=peer)  # fmt: skip


def _short(number: float) -> str:
    return f"{number:.2f}" if number < 2 else f"{number:.1f}" if number < 10 else f"{number:.0f}"
