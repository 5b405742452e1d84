"""Turning what callers give into what is stored, or into a refusal that names it. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.errors import InvalidValue


def text_bytes(name: str, value: Any, max_bytes: int) -> bytes:
    """Return a text as stored; refuse what is not Unicode text, or too long."""
    if not isinstance(value, str):
        raise InvalidValue(f"{name} must be text")
    try:
        stored = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{name} is not valid Unicode text", hint="send UTF-8") from error
    return check_size(name, stored, max_bytes)


def json_bytes(name: str, value: Any) -> bytes:
    """Return a JSON value as stored; refuse what JSON or UTF-8 cannot hold."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"{name} holds something JSON cannot: {type(error).__name__}") from error


def check_size(name: str, stored: bytes, max_bytes: int) -> bytes:
    """Return what is stored, unless it is too large to be kept."""
    if len(stored) > max_bytes:
        raise InvalidValue(f"{name} is {len(stored)} bytes; at most {max_bytes} are kept")
    return stored
