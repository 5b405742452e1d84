"""Commands sent in parts are the same bytes as those packed in one piece."""

from __future__ import annotations

import pytest
from hiredis import pack_command

from maestro_state.net.packing import packed_parts

LARGE = b"\x00\r\n$3" * 20_000

CASES = {
    "small ones": [("GET", "a"), ("HSET", "a", "b", 1)],
    "a large one": [("SET", "a", LARGE)],
    "large ones between small": [("HSET", "é", 1, LARGE, 2, LARGE, "x", b""), ("PING",), ("SET", b"k", LARGE, "PX", 5)],
    "none": [],
}


@pytest.mark.parametrize("commands", CASES.values(), ids=CASES)
def test_parts_are_the_whole_in_order(commands: list[tuple[object, ...]]):
    """Joined, the parts are what hiredis packs; a large argument is a part itself, not a copy."""
    parts = packed_parts(commands)

    assert b"".join(parts) == b"".join(pack_command(command) for command in commands)
    large = sum(argument is LARGE for command in commands for argument in command)
    assert sum(part is LARGE for part in parts) == large
