"""The peers beside Maestro as one SVG: how many times as long each takes, on a scale of powers of ten."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from benchmarks.row import Row

#: What is drawn, in this order: one of each kind of question that peers answer too.
DRAWN = ("append to 1 000", "last 20 of 10 000", "all of 10 000", "list 10 000 sessions", "maestro session status",
         "tool asked for → started", "tool asked for → end known")  # fmt: skip
_WIDTH, _LEFT, _RIGHT = 860, 250, 90
_BAR, _GAP, _HEAD = 16, 12, 34
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.question { font-weight: 600 } .axis { fill: #6e7781; font-size: 11px }
.slower { fill: #2a9d8f } .faster { fill: #e08e45 } .grid { stroke: #d8dee4 }
.one { stroke: #24292f; stroke-width: 1.5 }
"""


def draw(rows: Iterable[Row]) -> str:
    """Return the plot."""
    groups = {question: [row for row in rows_ if row.theirs] for question, rows_ in _grouped(rows).items()}
    groups = {question: found for question, found in groups.items() if found}
    ratios = [row.theirs / row.ours for found in groups.values() for row in found if row.theirs]
    low = min(-1, math.floor(math.log10(min(ratios, default=1))))
    high = max(1, math.ceil(math.log10(max(ratios, default=1))))
    height = _HEAD + 30 + sum(_HEAD - 6 + len(found) * (_BAR + 3) + _GAP for found in groups.values())

    def across(ratio: float) -> float:
        return _LEFT + (math.log10(ratio) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Time taken by peers, as a multiple of Maestro's</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="12" class="question">Time taken, as a multiple of Maestro\'s in the same run</text>',
    ]
    for power in range(low, high + 1):
        x = across(10.0**power)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD}" y2="{height - 24}" class="grid"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle" class="axis">{10.0**power:g} ×</text>')
    y = _HEAD
    for question, found in groups.items():
        parts.append(f'<text x="12" y="{y + 20}" class="question">{escape(question)}</text>')
        y += _HEAD - 6
        for row in found:
            parts += _bar(row, y, across)
            y += _BAR + 3
        y += _GAP
    one = across(1)
    parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{_HEAD}" y2="{height - 24}" class="one"/>')
    parts.append(f'<text x="{one:.1f}" y="{_HEAD - 4}" text-anchor="middle" class="axis">Maestro</text>')
    return "\n".join([*parts, "</svg>\n"])


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    kept = [row for row in rows if row.peer]
    return {question: [row for row in kept if row.question == question] for question in DRAWN}


def _bar(row: Row, y: int, across: object) -> list[str]:
    assert row.theirs
    ratio = row.theirs / row.ours
    start, end = sorted((across(1), across(ratio)))  # type: ignore[operator]
    said = f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"
    side = "slower" if ratio >= 1 else "faster"
    return [
        f'<text x="{_LEFT - 30}" y="{y + 12}" text-anchor="end">{escape(row.reference)}</text>',
        f'<rect x="{start:.1f}" y="{y}" width="{max(1.0, end - start):.1f}" height="{_BAR}" class="{side}"/>',
        f'<text x="{end + 6:.1f}" y="{y + 12}" class="axis">{said}</text>',
    ]
