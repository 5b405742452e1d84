"""What a terminal is set to before a program has it, restored after one that could not do that itself."""

from __future__ import annotations

import os
import sys
import termios
from contextlib import suppress
from typing import Any

from maestro_cli import output

#: Which of a terminal's local modes a screen program takes away: lines, and what is typed being shown.
_COOKED = termios.ICANON | termios.ECHO
#: Turns off what programs ask terminals for: telling of the mouse and the focus, marked pastes, keys in other codes,
#: one frame at a time. A terminal that knows none of it passes over it.
_PLAIN = "".join(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1006, 1004, 2004, 2026, 1)) + "\x1b[<u\x1b[>4m\x1b>"
#: Usual colours, and the cursor to be seen.
_VISIBLE = "\x1b[0m\x1b[?25h"
#: Back to the screen from before; or below what was drawn last, with nothing there.
_LEAVE_SCREEN, _BELOW = "\x1b[?1049l", "\r\n\x1b[J"


class TerminalModes:
    """The modes of this process's terminal, as they were when this was made."""

    def __init__(self, *, has_own_screen: bool) -> None:
        """Read them, if there is a terminal. A program with its own screen draws where the other lines are not."""
        self._modes = _read()
        self._screen = os.ttyname(1) if output.is_terminal() else None
        self._leave = _LEAVE_SCREEN if has_own_screen else _BELOW

    def restore(self, code: int) -> None:
        """Restore them after a program that was killed, or left the terminal as it needed it for itself: a shell does
        that only for its own. One that failed by itself may have been killed in part: nothing is moved for it.
        """
        now = _read()
        was_left = self._modes is not None and now is not None and _cooked(now) != _cooked(self._modes)
        if self._modes is not None and (code < 0 or was_left):
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)
        if code != 0 or was_left:
            self.restore_screen(is_whole=code < 0 or was_left)

    def restore_screen(self, *, is_whole: bool = True) -> None:
        """Have the terminal show and tell what it did before; also from a process that is not its own any more."""
        if self._screen is None:
            return
        said = (_PLAIN + (self._leave if is_whole else "") + _VISIBLE).encode()
        with suppress(OSError), open(self._screen, "wb", opener=_open_terminal) as file:
            file.write(said)


def _open_terminal(path: str, flags: int) -> int:
    return os.open(path, (flags | os.O_NOCTTY | os.O_NONBLOCK) & ~(os.O_CREAT | os.O_TRUNC))


def _cooked(modes: list[Any]) -> int:
    return int(modes[3]) & _COOKED


def _read() -> list[Any] | None:
    if sys.stdin is None or not os.isatty(0):
        return None
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None
