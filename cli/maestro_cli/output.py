"""The one place that prints: documents, tables, lines, errors. Respects NO_COLOR, pipes and the terminal's width, and
makes harmless what a stored text may carry before it reaches a terminal.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import click
import msgspec

from maestro_cli.screen.columns import clip as clip
from maestro_cli.screen.columns import clip_middle as clip_middle
from maestro_cli.screen.columns import rows_of as rows_of
from maestro_cli.screen.columns import telling_length as telling_length
from maestro_cli.screen.columns import width_of as width_of
from maestro_state.vocabulary import STATE_MEANINGS

#: What makes text read differently from what it is, or hides in it: marks that change its direction, characters nobody
#: sees (but the two joiners, which scripts and emoji need), separators that are lines to some, and text in tags.
_DECEIVING = (
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
#: That, and what a terminal would obey: control characters other than tab and newline, the C1 range too. Surrogates
#: are what Python makes of an argument that is not UTF-8: they cannot be printed at all.
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{_DECEIVING}]")
#: What JSON may carry unescaped and no terminal should get.
_UNSAFE_IN_JSON = re.compile(f"[\x7f-\x9f{_DECEIVING}]")
#: What JSON may carry unescaped where text is UTF-8 only.
_BEYOND_ASCII = re.compile("[^\x00-\x7e]")
#: The only escapes a line may hold: the colours that `colour` gives, and their end.
_OWN_STYLES = re.compile(r"(\x1b\[(?:[012]|3[0-7])m)")

#: Narrowest terminal that lines are broken for.
_LEAST_COLUMNS = 20
#: Widest bar of what is under way.
_BAR_COLUMNS = 30

STATE_COLOURS = {
    "iniciada": "blue",
    "com_contexto": "cyan",
    "executando": "yellow",
    "com_saida": "green",
    "finalizada": "white",
    "abortada": "red",
    "active": "green",
    "idle": "yellow",
    "expired": "red",
    "running": "yellow",
    "paused": "blue",
    "completed": "green",
    "failed": "red",
    "interrupted": "red",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "pending": "blue",
    "success": "green",
    "error": "red",
    "canceled": "magenta",
}


def safe(text: str) -> str:
    """Show control characters as pictures: nothing stored can move the cursor or rename the window."""
    return _UNSAFE.sub(lambda found: _picture(found[0]), text)


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _harmless(text: str) -> str:
    """Make a text harmless that may hold our own colours: a view that forgot to can at most be coloured by it."""
    if "\x1b" not in text:
        return safe(text)
    return "".join(part if at % 2 else safe(part) for at, part in enumerate(_OWN_STYLES.split(text)))


def _json_text(encoded: bytes, stream: TextIO) -> str:
    """Return JSON as text in which what `safe` would change, or the stream cannot carry, is escaped: the same values,
    and nothing to obey.
    """
    text = encoded.decode()
    if text.isascii() and "\x7f" not in text:
        return text
    is_utf8 = (stream.encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
    escaped = _UNSAFE_IN_JSON if is_utf8 else _BEYOND_ASCII
    return escaped.sub(lambda found: _json_escape(ord(found[0])), text)


def _json_escape(code: int) -> str:
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def is_terminal() -> bool:
    return sys.stdout.isatty()


class Coloured(str):
    """A text made harmless whose only escapes are ours: a table prints it as it is."""

    __slots__ = ()


def colour(text: str, name: str | None = None, *, bold: bool = False, dim: bool = False) -> Coloured:
    """Make a text harmless, and colour it on a terminal that wants it."""
    text = safe(text)
    if not is_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return Coloured(text)
    return Coloured(click.style(text, fg=name, bold=bold or None, dim=dim or None))


def state_word(word: str) -> Coloured:
    """Colour a state, a liveness or a check by what it means."""
    return colour(word, STATE_COLOURS.get(word))


def session_state(word: str) -> Coloured:
    """Show a session's state with its meaning: `com_saida · has output`."""
    meaning = f" · {STATE_MEANINGS[word]}" if word in STATE_MEANINGS else ""
    return Coloured(state_word(word) + meaning)


def document(value: Any) -> None:
    """Print one JSON document, indented for people, on one line for programs."""
    encoded = msgspec.json.encode(value)
    if is_terminal():
        encoded = msgspec.json.format(encoded, indent=2)
    sys.stdout.write(_json_text(encoded, sys.stdout) + "\n")
    sys.stdout.flush()


def line(text: str = "") -> None:
    """Print one line, or a few, harmless whatever they hold."""
    sys.stdout.write(_harmless(text) + "\n")
    sys.stdout.flush()


def result(value: Any, text: str, *, as_json: bool) -> None:
    """Print what a command did: a document for programs, one line for people."""
    if as_json:
        document(value)
    else:
        line(text)


def note(text: str, *, quiet: bool = False) -> None:
    """Tell a person something that is not data; pipes and programs do not get it. `quiet` dims it."""
    if sys.stderr.isatty():
        text = safe(text)
        sys.stderr.write((dimmed(text) if quiet else text) + "\n")


def raw(content: bytes, *, exact: bool = False) -> None:
    """Print content at once: byte for byte into a pipe or when `exact`, made harmless on a terminal."""
    if exact or not is_terminal():
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(safe(content.decode(errors="replace")))
    sys.stdout.flush()


def end_line(content: bytes) -> None:
    """End a line that content left open, where a person would miss it; a pipe gets the content alone."""
    if is_terminal() and not content.endswith(b"\n"):
        line()


def dimmed(text: str) -> str:
    """Return a text for a status line on stderr, dimmed where colours are wanted."""
    plain_wanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain_wanted else click.style(text, dim=True)


def plain(value: Any) -> dict[str, Any]:
    """Return a record as the fields it is printed with."""
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def warning(text: str) -> None:
    """Tell on stderr about something that must not go unseen, also in a pipe."""
    sys.stderr.write(_in_rows(f"maestro: {safe(text).replace(chr(10), ' ')}") + "\n")
    sys.stderr.flush()


def _in_rows(text: str) -> str:
    """Break a line on stderr between words where a terminal would break it anywhere; a pipe gets it whole."""
    columns = max(_LEAST_COLUMNS, screen_columns())
    if not sys.stderr.isatty() or width_of(text) <= columns:
        return text
    what, arrow, hint = text.rpartition(" → ")  # what to do next is easiest to copy from a row of its own
    parts = [what, f"→ {hint}"] if arrow else [text]
    return "\n  ".join(row for part in parts for row in rows_of(part, columns - 2))


@contextmanager
def status_line() -> Iterator[Callable[[str], None] | None]:
    """Show on a terminal's last line what is being done, and take it away afterwards; nothing for a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = ""

    def tell(text: str) -> None:
        nonlocal shown
        text = safe(text).replace("\n", " ")
        sys.stderr.write("\r" + f"{text} …".ljust(len(shown)))
        sys.stderr.flush()
        shown = f"{text} …"

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r" + " " * len(shown) + "\r")
            sys.stderr.flush()


def content_fields(content: bytes) -> dict[str, str]:
    """Return a content as fields of a document: text, or base64 where it is none."""
    try:
        return {"content": content.decode()}
    except UnicodeDecodeError:
        import base64

        return {"content_base64": base64.b64encode(content).decode()}


def error_line(code: str, message: str, hint: str | None, *, as_json: bool) -> None:
    """Print an error on stderr: one line, or one JSON document."""
    message, hint = safe(message).replace("\n", " "), safe(hint).replace("\n", " ") if hint else None
    if as_json:
        error = msgspec.json.encode({"error": {"code": code, "message": message, "hint": hint}})
        text = _json_text(error, sys.stderr)
    else:
        text = _in_rows(f"maestro: {message}" + (f" → {hint}" if hint else ""))
    sys.stderr.write(text + "\n")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, flexible: int = 1, ids: int | None = None) -> None:
    """Print a table that fits the terminal: the flexible column gives way. A pipe gets tabs and no header.

    Cells may hold anything: what is not coloured by us is made harmless. The column `ids` keeps the ends of its cells.
    """
    body = [[cell if isinstance(cell, Coloured) else safe(cell).replace("\n", " ") for cell in row] for row in rows]
    if not is_terminal():
        for row in body:
            line("\t".join(click.unstyle(cell) for cell in row))
        return
    if not body:
        return
    widths = [max(width_of(cell) for cell in column) for column in zip(header, *body, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - screen_columns()
    for column in [flexible, *sorted(range(1, len(widths)), key=lambda each: -widths[each])]:  # then the widest
        if over > 0:
            given = min(over, max(0, widths[column] - 8))
            widths[column], over = widths[column] - given, over - given
    line("  ".join(colour(_pad(cell, width), bold=True) for cell, width in zip(header, widths, strict=True)).rstrip())
    for row in body:
        cells = enumerate(zip(row, widths, strict=True))
        line("  ".join(_pad(cell, width, clip_middle if at == ids else clip) for at, (cell, width) in cells).rstrip())


def fit(text: str) -> str:
    """Return a text as one line that fits the terminal; whole for a pipe."""
    text = " ".join(safe(text).split())
    return clip(text, screen_columns()) if is_terminal() else text


def screen_columns() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def screen_rows() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).lines


def _pad(cell: str, width: int, clipped: Callable[[str, int], str] = clip) -> str:
    if width_of(cell) > width:
        cell = clipped(click.unstyle(cell), width)
    return cell + " " * (width - width_of(cell))


def ago(then_ms: int, now_ms: int) -> str:
    """Say how long ago something was, in the one unit that matters."""
    seconds = max(0, (now_ms - then_ms) // 1000)
    return "just now" if seconds < 5 else f"{duration(seconds)} ago"


def size(count: int) -> str:
    return counted(count, "byte")


def counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def duration(seconds: int) -> str:
    """Say a span of time in the one unit that matters."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if round(seconds / size, 1) >= 1:
            return f"{round(seconds / size)} {unit}"
    return f"{seconds} s"


def local_time(timestamp: str, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Show a stored time as the clock on this person's wall does."""

    from maestro_state.clock import from_iso

    return time.strftime(form, time.localtime(from_iso(timestamp) // 1000))


class Progress:
    """A count on a terminal's last line, with a unit a bar; nothing for pipes, nothing for what is quickly done."""

    def __init__(self, word: str, *, at_least: int = 100, unit: str | None = None) -> None:
        self._word = word
        self._at_least = at_least
        self._unit = unit
        self._shown = False

    def update(self, done: int, total: int) -> None:
        if total >= self._at_least and sys.stderr.isatty():
            told = f"{done} of {total}"
            if self._unit:
                told = f"{told:>{2 * len(str(total)) + 4}} {self._unit}"
                columns = max(0, min(_BAR_COLUMNS, screen_columns() - len(self._word) - len(told) - 3))
                full = columns * min(done, total) // total
                told = f"{'█' * full}{'░' * (columns - full)} {told}"
            sys.stderr.write(f"\r{self._word} {told}")
            sys.stderr.flush()
            self._shown = True

    def done(self) -> None:
        if self._shown:
            sys.stderr.write("\n")


def json_line(value: Any) -> None:
    sys.stdout.write(_json_text(msgspec.json.encode(value), sys.stdout) + "\n")
    sys.stdout.flush()
