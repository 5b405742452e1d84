"""Choosing among hits while the question is typed: on a screen of its own, which leaves the terminal as it was.

Drawn on standard error, so that what is chosen can be the output of the command.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_state.search.words import QUERY_MAX

if TYPE_CHECKING:
    from maestro_state import Found, Hit

#: The screen of its own, and back; the cursor is shown where one types.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?7l", "\x1b[?7h\x1b[?1049l"
_HOME, _END_OF_LINE = "\x1b[H", "\x1b[K"

#: Seconds within which the rest of a key comes, and between two glances at the window's size.
_KEY_S, _GLANCE_S = 0.05, 0.25
#: Rows of the question, the count and the last line; rows of a hit.
_FRAME, _HIT = 4, 2
#: Hits that one can go through.
_HITS = 200

_KEYS = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x10": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x0e": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\r": "enter", b"\n": "enter", b"\x1b": "leave",
    b"\x04": "leave", b"\x03": "interrupt", b"\x7f": "erase", b"\x08": "erase", b"\x17": "erase word",
    b"\x15": "erase all",
}  # fmt: skip

#: Asks for what was typed so far, and so many hits; None when that is no question yet.
Ask = Callable[[str, int], "Found | None"]


class Picker:
    """What is typed, what was found for it, and which hit is chosen."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._typed = ""
        self._hits: list[Hit] = []
        self._total: int | None = None
        self._at = 0
        self._top = 0
        self._searched: str | None = None  #: what the hits are of

    def key(self, key: bytes, rows: int) -> str | None:
        """Take one key; answer enter, leave or interrupt when it ends the choice, ask when the question changed."""
        name = _KEYS.get(key)
        page = max(1, rows)
        steps = {"up": -1, "down": 1, "page up": -page, "page down": page}
        if name in steps:
            self._at = max(0, min(len(self._hits) - 1, self._at + steps[name]))
            return None
        if name in ("enter", "leave", "interrupt"):
            return name
        before = self._typed
        if name is not None:
            self._typed = {"erase": before[:-1], "erase word": before.rstrip().rpartition(" ")[0], "erase all": ""}[
                name
            ]
        else:
            more = "".join(char for char in key.decode(errors="ignore") if char.isprintable())
            self._typed = (before + more)[:QUERY_MAX]  # whatever is pasted
        return "ask" if self._typed != before else None

    def search(self, limit: int) -> None:
        """Ask for what is typed, unless these are its hits."""
        if self._searched == self._typed:
            return
        self._searched = self._typed
        found = self._ask(self._typed, limit)
        self._hits, self._total = (found.results, found.total) if found else ([], None)
        self._at = self._top = 0

    @property
    def chosen(self) -> Hit | None:
        return self._hits[self._at] if self._hits else None

    def lines(self, columns: int, rows: int) -> list[str]:
        """Return the screen below the question."""
        fits = max(1, (rows - _FRAME) // _HIT)
        self._top = max(min(self._top, self._at), self._at - fits + 1)
        shown = [_count(self._total, self._typed)]
        for at, hit in list(enumerate(self._hits))[self._top : self._top + fits]:
            shown += _rows(hit, columns, is_chosen=at == self._at)
        shown += [""] * (rows - len(shown) - 3)
        command = self.chosen.command if self.chosen else ""
        return [*shown, _styled(output.clip(output.safe(command), columns), dim=True), _help(columns)]

    def prompt(self, columns: int) -> str:
        """Return the question as far as it fits, its end."""
        room = columns - len("search: ") - 1
        typed = output.safe(self._typed)[-room:]
        while output.width_of(typed) > room > 0:
            typed = typed[1:]
        return f"search: {typed}"


def _count(total: int | None, typed: str) -> str:
    if total is None:
        return _styled("type words to search for" if not typed.strip() else "", dim=True)
    return _styled("nothing found" if not total else output.counted(total, "hit"), dim=True)


def _help(columns: int) -> str:
    return _styled(output.clip("↑ ↓ choose · Enter prints the command that opens it · Esc leaves", columns), dim=True)


def _rows(hit: Hit, columns: int, *, is_chosen: bool) -> list[str]:
    kind = hit.kind if hit.role is None else f"{hit.kind} · {hit.role}"
    place = f" · {os.path.basename(hit.project)}" if hit.project else ""
    mark = "> " if is_chosen else "  "
    when = output.local_time(hit.ts, "%Y-%m-%d %H:%M")
    head = output.clip(output.safe(f"{mark}{hit.session_id}  {kind}  {when}{place}"), columns)
    text = output.clip(output.safe(hit.snippet), columns - 2)
    return [_styled(head, bold=is_chosen, fg="cyan" if not is_chosen else None), f"  {_marked(text)}"]


def _marked(text: str) -> str:
    """Show what was found in bold; where there are no styles the marks stay."""
    if not _has_styles():
        return text
    parts = text.replace("»", "«").split("«")
    return "".join(_styled(part, bold=True) if at % 2 else part for at, part in enumerate(parts))


def _has_styles() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _styled(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    if not _has_styles() or not text:
        return text
    return click.style(text, fg=fg, bold=bold or None, dim=dim or None)


def can_pick() -> bool:
    """Tell whether somebody is there to type and to see."""
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def pick(ask: Ask) -> Hit | None:
    """Have somebody choose; None when they left. Raises KeyboardInterrupt for Ctrl-C."""
    picker = Picker(ask)
    with _screen():
        size = _size()
        _draw(picker, size)
        for key in _keys():
            if key == b"":  # nothing was typed
                if _size() != size:
                    size = _size()
                    _draw(picker, size)
                continue
            size = _size()
            answer = picker.key(key, (size.lines - _FRAME) // _HIT)
            if answer == "interrupt":
                raise KeyboardInterrupt
            if answer == "leave":
                return None
            if answer == "enter":
                picker.search(_HITS)  # else it were a hit of what was typed before
                return picker.chosen
            if answer == "ask":
                _draw(picker, size)  # what is typed shows at once
            if not _is_waiting():  # somebody who types on does not wait for every letter
                picker.search(_HITS)
            _draw(picker, size)
    return None


def _size() -> os.terminal_size:
    try:
        size = os.get_terminal_size(2)
    except OSError:
        size = os.terminal_size((80, 24))
    return os.terminal_size((max(20, size.columns), max(8, size.lines)))


def _draw(picker: Picker, size: os.terminal_size) -> None:
    prompt = picker.prompt(size.columns)
    lines = [prompt, *picker.lines(size.columns, size.lines)]
    # Each line is emptied before it is written: behind one that is full, the cursor is still on its last letter.
    text = "\r\n".join(_END_OF_LINE + line for line in lines[: size.lines])
    # Last to the end of the question, where one types.
    sys.stderr.write(f"{_HOME}{text}\x1b[1;{output.width_of(prompt) + 1}H")
    sys.stderr.flush()


@contextmanager
def _screen() -> Iterator[None]:
    """Have the terminal for ourselves, and give it back as it was, whatever happens."""
    import termios

    before = termios.tcgetattr(0)
    wanted = termios.tcgetattr(0)
    wanted[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(0, termios.TCSANOW, wanted)
        sys.stderr.write(_ENTER)
        yield
    finally:
        sys.stderr.write(_LEAVE)
        sys.stderr.flush()
        termios.tcsetattr(0, termios.TCSANOW, before)


def _is_waiting(seconds: float = 0.0) -> bool:
    return bool(select.select([0], [], [], seconds)[0])


def _keys() -> Iterator[bytes]:
    """Yield the keys that are pressed, texts that are pasted whole, and nothing while nobody types."""
    while True:
        if not _is_waiting(_GLANCE_S):
            yield b""
            continue
        data = os.read(0, 4096)
        if not data:
            return  # the terminal is gone
        if data == b"\x1b" and _is_waiting(_KEY_S):
            data += os.read(0, 16)
        while data[-1] >= 0x80 and not _is_whole(data) and _is_waiting(_KEY_S):
            data += os.read(0, 4096)
        yield from split_keys(data)


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True


def split_keys(data: bytes) -> Iterator[bytes]:
    """Yield what was read key by key; letters in a row together, keys we do not know left out."""
    at = 0
    while at < len(data):
        code = data[at]
        if code == 0x1B and at + 1 < len(data):
            end = at + 2
            if data[at + 1 : at + 2] in (b"[", b"O"):
                while end < len(data) and not 0x40 <= data[end] <= 0x7E:
                    end += 1
                end += 1
            key = data[at:end]
            if key in _KEYS:
                yield key
            at = end
        elif code < 0x20 or code == 0x7F:
            if data[at : at + 1] in _KEYS:
                yield data[at : at + 1]
            at += 1
        else:
            end = at
            while end < len(data) and data[end] >= 0x20 and data[end] != 0x7F:
                end += 1
            yield data[at:end]
            at = end
