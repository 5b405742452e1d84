"""Ctrl-C while a run is followed: counted, and asked about on the terminal, where keys typed ahead count."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Self

from maestro_cli.screen.listening import await_typed

_CTRL_C, _CTRL_D = b"\x03", b"\x04"


class Interrupts:
    """Counts the interrupts of this process, each of which is a KeyboardInterrupt as ever."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # in the background of a script nobody means it
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        signal.default_int_handler(number, frame)

    def wants_cancel(self, run_id: str) -> bool:
        """Find out what an interrupt meant: a second one cancels; a person is asked; without one the run goes on."""
        try:
            wanted = self.count > 1 or _ask(run_id)
        except KeyboardInterrupt:
            wanted = True
        self.count = 0
        return wanted


def question(run_id: str) -> str:
    """Return what is asked; with the key that is shown behind it, it fits into 80 columns."""
    return f"run {run_id} is still going: [c]ancel (or Ctrl-C again), [d]etach and leave it? "


def _ask(run_id: str) -> bool:
    """Ask whether to cancel, where there is somebody to ask."""
    if not sys.stderr.isatty():
        return False
    try:
        with _keys() as keys:
            sys.stderr.write(f"\n{question(run_id)}")
            sys.stderr.flush()
            key = next(key for key in keys if key in (b"c", b"C", b"d", b"D", _CTRL_C, _CTRL_D))
    except (OSError, StopIteration):
        key = _CTRL_D  # the terminal is gone
    shown = key.decode().lower() if key.isalpha() else ""
    sys.stderr.write(shown + "\n")
    sys.stderr.flush()
    return shown == "c" or key == _CTRL_C


@contextmanager
def _keys() -> Iterator[Iterator[bytes]]:
    """Give the keys that are pressed on the terminal, also if something is piped into the command."""
    import termios

    descriptor = 0 if os.isatty(0) else os.open(os.ttyname(2), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        before = termios.tcgetattr(descriptor)
        wanted = termios.tcgetattr(descriptor)
        wanted[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
        # At once, and without a flush: what was typed before the question counts.
        termios.tcsetattr(descriptor, termios.TCSANOW, wanted)
        try:
            yield iter(partial(_key, descriptor), b"")
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
    finally:
        if descriptor:
            os.close(descriptor)


def _key(descriptor: int) -> bytes:
    await_typed(descriptor)  # a second Ctrl-C may have been typed while it still was a signal
    return os.read(descriptor, 1)
