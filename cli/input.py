"""Reading what a command is given: arguments, standard input, JSON."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from maestro_state.errors import InvalidValue, UsageError
from maestro_state.models import SETTABLE


def text_argument(argument: str) -> str:
    """Return an argument, or all of standard input for `-`."""
    if argument != "-":
        return argument
    if sys.stdin.isatty():
        raise UsageError("- reads from a pipe, and there is none", hint="echo text | maestro …")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidValue("standard input is not UTF-8 text") from error


def bytes_argument() -> bytes:
    """Return all of standard input, as it is."""
    if sys.stdin.isatty():
        raise UsageError("- reads from a pipe, and there is none", hint="echo text | maestro …")
    return sys.stdin.buffer.read()


def json_or_text(field: str, text: str) -> Any:
    """Read a value as the field wants it: a JSON object, or the text itself."""
    return json_argument(field, text) if SETTABLE.get(field) else text


def json_argument(name: str, text: str) -> Any:
    """Read a JSON argument; say where it breaks."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidValue(f"{name} is not JSON: {error}") from error
