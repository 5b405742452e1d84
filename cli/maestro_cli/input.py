"""Reading what a command is given: arguments, standard input, JSON."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from maestro_state.errors import InvalidValue, UsageError
from maestro_state.models.session import SETTABLE


def text_argument(argument: str) -> str:
    """Return an argument, or all of standard input for `-`."""
    if argument != "-":
        return argument
    try:
        return piped_in().decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("standard input is not UTF-8 text") from error


def piped_in(word: str = "-", *, hint: str = "echo text | maestro …") -> bytes:
    """Return all of standard input; UsageError where it is a terminal, or closed (Python has None then)."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"{word} reads from a pipe, and there is none", hint=hint)
    return sys.stdin.buffer.read()


#: How long a pipe may stay silent before a person is told what is waited for, in seconds.
_SILENT_S = 2.0


def is_piped() -> bool:
    """Tell whether standard input carries something that was meant for us: a pipe, a socket or a file.

    Not a terminal, nothing where there is none, and not /dev/null or another device, which is what cron, xargs and
    service managers give.
    """
    import stat

    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)


def piped_bytes(limit: int) -> bytes:
    """Return all of standard input, at most one byte more than the limit; says what is waited for."""
    pieces, left = [], limit + 1
    _tell_waiting()
    while left > 0 and (piece := os.read(0, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _tell_waiting() -> None:
    import select

    from maestro_cli import output

    if sys.stderr.isatty() and not select.select([0], [], [], _SILENT_S)[0]:
        output.note("waiting for standard input, which is sent with it (--no-stdin: without it)")


#: Longest text that is worth repeating in a command to copy, in characters.
_REPEATED_MAX = 60


def json_or_text(field: str, text: str) -> Any:
    """Read a value as the field wants it: a JSON object, or the text itself."""
    return json_argument(field, text, hint=_as_object(field, text)) if SETTABLE.get(field) else text


def _as_object(field: str, text: str) -> str:
    """Return the command that sets a field to what somebody wrote as plain text; an example where that was JSON."""
    import shlex

    is_plain = text.isprintable() and len(text) <= _REPEATED_MAX and not text.lstrip().startswith(("{", "["))
    wanted = {"note": text} if is_plain and text.strip() else {"language": "en"}
    return f"maestro session set {field} {shlex.quote(msgspec.json.encode(wanted).decode())}"


def json_argument(name: str, text: str, *, hint: str | None = None) -> Any:
    """Read a JSON argument; say where it breaks."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InvalidValue(f"{name} is not JSON: {reason}", hint=hint) from error
