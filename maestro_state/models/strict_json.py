"""JSON read strictly and written in one form: what is read twice means the same, what is written twice is the same.

The standard library's reader takes things that are not JSON (NaN, numbers beyond a float) and hides others (a key
given twice). Here they are refused, so that no two programs can disagree about what a discussion decided. A lone
surrogate (`"\\ud800"`) is JSON, and is kept: hence not msgspec, which refuses it.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: How deep lists and objects may lie in each other.
DEPTH_MAX = 100
_TOO_DEEP = f"nested too deeply (more than {DEPTH_MAX} levels)"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} is given twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


_decode = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_number).decode


def read(content: bytes | str) -> Any:
    """Read one JSON document; raise ValueError that says what is wrong, for whatever bytes there are."""
    try:
        text = content if isinstance(content, str) else content.decode()
        value = _decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    # A limit of its own: how deep the interpreter gets depends on who called.
    if text.count("[") + text.count("{") > DEPTH_MAX and is_deeper(value, DEPTH_MAX):
        raise ValueError(_TOO_DEEP)
    return value


def is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        level = [one for outer in level if isinstance(outer, dict | list)
                 for one in (outer.values() if isinstance(outer, dict) else outer)]  # fmt: skip
        if not level:
            return False
    return True


def line(value: Any) -> bytes:
    """Write a document on one line, in ASCII: no reader splits it elsewhere, and no cut leaves half a character."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def page(value: Any, *, ascii_only: bool = True) -> bytes:
    """Write a document over several lines, for people and for git."""
    return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, indent=2).encode() + b"\n"


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same JSON: 1, 1.0 and true are three values, the order of keys is none."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def is_whole(content: bytes) -> bool:
    """Tell whether bytes are a whole document, even one that is refused: no beginning of a line ever is."""
    try:
        json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    except (ValueError, RecursionError):
        return True
    return True


def is_text(value: Any) -> bool:
    """Tell whether a value is text that can be written as UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
