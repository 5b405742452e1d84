"""What the kernel tells of a process: what it does, and which signals it hears."""

from __future__ import annotations

from pathlib import Path


def state(pid: int) -> str:
    """Return the letter for what a process's first thread does."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_pending(pid: int, number: int) -> bool:
    """Tell whether a signal waits to be taken by any thread of a process."""
    return _has(pid, "ShdPnd", number)


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal: before, it would be ended by it."""
    return _has(pid, "SigCgt", number)


def _has(pid: int, mask: str, number: int) -> bool:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(mask)]
    return bool(int(line.split()[1], 16) & 1 << (number - 1))
