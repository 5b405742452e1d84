"""Where the time of a question goes: the measuring process looked at again and again, drawn as a flame graph.

By the wall clock: a call that waits for the server is as wide as the wait. Other processes are not looked at.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType

#: Seconds from the end of one sample to the next.
EVERY_S = 0.001
#: Frames that take less than this share are not drawn.
_LEAST = 0.003
_WIDTH, _HEIGHT, _HEAD = 1200, 16, 30
#: Columns of a letter, as wide as the font makes them.
_LETTER = 6.2
_COLOURS = ("#e8a87c", "#e27d60", "#e8c07c", "#dd9a5b")

Stack = tuple[str, ...]


@dataclass
class Node:
    """A function as called from one place: how often it was seen, and what it had called."""

    seen: int = 0
    calls: dict[str, Node] = field(default_factory=dict)


@contextmanager
def looking(stacks: Counter[Stack]) -> Iterator[None]:
    """Count what this process is at, outermost function first, while this lasts."""
    is_over = False

    def sample(_: int, frame: FrameType | None) -> None:
        if is_over:
            return
        stacks[stack_of(frame)] += 1
        # Only now: where a sample takes longer than the pause, each would be interrupted by the next.
        signal.setitimer(signal.ITIMER_REAL, EVERY_S)

    before = signal.signal(signal.SIGALRM, sample)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stack_of(frame: FrameType | None) -> Stack:
    """Return the functions under way, outermost first."""
    found = []
    while frame:
        file = Path(frame.f_code.co_filename)
        found.append(f"{file.parent.name}/{file.stem}:{frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(reversed(found))


def tree_of(stacks: Counter[Stack]) -> Node:
    """Add stacks up by what they begin with."""
    root = Node()
    for stack, seen in stacks.items():
        node = root
        node.seen += seen
        for name in stack:
            node = node.calls.setdefault(name, Node())
            node.seen += seen
    return root


def own_shares(stacks: Counter[Stack], count: int = 12) -> list[tuple[str, float]]:
    """Return the functions that most of the time was spent in themselves, with their share."""
    own: Counter[str] = Counter()
    for stack, seen in stacks.items():
        own[stack[-1] if stack else "?"] += seen
    total = sum(own.values()) or 1
    return [(name, seen / total) for name, seen in own.most_common(count)]


def draw(stacks: Counter[Stack], title: str) -> str:
    """Return the flame graph as SVG: callers below, wide is long, the whole name and share in each one's title."""
    root = tree_of(stacks)
    total = root.seen or 1
    drawn: list[tuple[int, float, float, str, int]] = []
    _lay(root, 0, 0.0, total, drawn)
    deepest = max((depth for depth, *_ in drawn), default=0)
    height = _HEAD + (deepest + 1) * _HEIGHT + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" style="font: 10px monospace">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{escape(title)}: {total} looks</text>',
    ]
    for depth, left, share, name, seen in drawn:
        x, y, width = left * _WIDTH, height - 10 - (depth + 1) * _HEIGHT, share * _WIDTH
        said = escape(name if len(name) * _LETTER < width else name.rpartition(":")[2][: int(width / _LETTER)])
        colour = _COLOURS[sum(name.encode()) % len(_COLOURS)]
        parts.append(
            f'<g><title>{escape(name)} {seen / total:.1%}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{_HEIGHT - 1}" fill="{colour}"/><text x="{x + 3:.1f}" y="{y + 11}">{said}</text></g>'
        )
    return "\n".join([*parts, "</svg>\n"])


def _lay(node: Node, depth: int, left: float, total: int, drawn: list[tuple[int, float, float, str, int]]) -> None:
    for name, call in sorted(node.calls.items()):
        share = call.seen / total
        if share >= _LEAST:
            drawn.append((depth, left, share, name, call.seen))
            _lay(call, depth + 1, left, total, drawn)
        left += share
