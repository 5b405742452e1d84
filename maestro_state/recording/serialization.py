"""What an agent hands over, as a session can keep it: JSON where there is a form for it, text where there is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

#: Longest text of one entry, in characters, and largest value beside it, in bytes of JSON.
_TEXT_MAX, _VALUE_MAX = 1_000_000, 500_000
#: Longest word for something that JSON has no form for, in characters.
_SHOWN_MAX = 2_000
#: Arguments that a decorator must not write down by itself.
_SECRET = re.compile(r"passw|secret|token$|api_?key|credential|authori[sz]ation|private_key", re.IGNORECASE)
_HIDDEN = "[not recorded]"

_INPUT = ("input_tokens", "prompt_tokens", "input")
_OUTPUT = ("output_tokens", "completion_tokens", "output")


class Spent(NamedTuple):
    """What one answer cost, as far as it was told."""

    model: str | None = None
    tokens_input: int | None = None
    tokens_output: int | None = None
    cost: float | None = None

    @classmethod
    def told(cls, model: str | None, tokens: Any, cost: float | None) -> Spent:
        """Check what an agent tells; raises TypeError for what can only be a slip."""
        if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
            raise TypeError(f"cost must be a number, not {type(cost).__name__}")
        return cls(model, *_counted(tokens), None if cost is None else float(cost))

    def document(self) -> dict[str, Any]:
        """Return what was told."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def _counted(tokens: Any) -> tuple[int | None, int | None]:
    """Return input and output of a number (of the output), a pair of them, or an API's own usage."""
    if tokens is None:
        return None, None
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        return None, tokens
    if isinstance(tokens, tuple | list) and len(tokens) == 2:
        return _number(tokens[0]), _number(tokens[1])
    found = _first(tokens, _INPUT), _first(tokens, _OUTPUT)
    if found == (None, None):
        raise TypeError("tokens must be a number, (input, output), or a usage with input_tokens and output_tokens")
    return found


def _first(usage: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
        if value is not None:
            return _number(value)
    return None


def _number(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"tokens are whole numbers, not {type(value).__name__}")
    return value


def text(value: Any) -> str:
    """Return a text for people: of a text itself, of everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        value = value.decode(errors="replace")
    found = value if isinstance(value, str) else msgspec.json.encode(plain(value)).decode()
    found = found.encode(errors="replace").decode()
    left_out = len(found) - _TEXT_MAX
    return found if left_out <= 0 else f"{found[:_TEXT_MAX]}\n[{left_out} more characters are not recorded]"


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what has no such form, or is very large, as a word for it. Never raises."""
    try:
        data = msgspec.json.encode(value, enc_hook=_shown)
        if len(data) <= _VALUE_MAX:
            return msgspec.json.decode(data)
    except Exception:  # noqa: BLE001 - anybody's object may do anything when it is looked at
        return _shown(value)
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        found = repr(value)
    except Exception:  # noqa: BLE001 - see above
        found = f"<{type(value).__name__}>"
    return found.encode(errors="replace").decode()[:_SHOWN_MAX]


def arguments_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a function is called with, by name; not its object, nor what is named like a secret."""
    others = None
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs).arguments
        others = next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
    except (TypeError, ValueError):  # built in, or called wrongly: which the call itself will say
        bound = {f"{number}": value for number, value in enumerate(args)} | kwargs
    if others in bound:  # `**options`: each is an argument with a name of its own
        bound[others] = _without_secrets(bound[others])
    return _without_secrets({name: value for name, value in bound.items() if name not in ("self", "cls")})


def _without_secrets(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _HIDDEN if _SECRET.search(name) else plain(value) for name, value in named.items()}


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as it is written."""
    return text(f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})")
