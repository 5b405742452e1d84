"""What every test is held to: each key left behind is declared in keys.py and will go away by itself."""

from __future__ import annotations

import re

import redis

from maestro_state.state.keys import KEY_GROUPS

#: RQ's own keys, on whose names and lifetimes it decides itself.
FOREIGN = re.compile(rb"rq:.*")

_TAG = rb"[\w-]+:\{[^{}]+\}"
_DECLARED = [
    # `<date>` in a suffix stands for what differs from key to key.
    (re.compile(_TAG + re.sub(r"<\w+>", r"[^{}:]+", re.escape(key.suffix)).encode()), key.type.encode())
    for keys in KEY_GROUPS.values()
    for key in keys
]


def check_keys(server: redis.Redis) -> None:
    """Fail on a key that is not declared, has another type than declared, or no TTL."""
    for key in server.scan_iter(count=1000):
        if FOREIGN.fullmatch(key):
            continue
        kind = server.type(key)
        if kind == b"none":
            continue  # its time came between the two questions
        declared = any(pattern.fullmatch(key) and kind == wanted for pattern, wanted in _DECLARED)
        assert declared, f"{key!r} ({kind!r}) is not declared in keys.py"
        assert server.pttl(key) != -1, f"{key!r} has no TTL"
