"""Reading a body: how deep it may be, and that a large one keeps nobody waiting."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.datastructures import Headers

from maestro_state.serve import request_parsing
from maestro_state.serve.request import Failure
from maestro_state.serve.request_parsing import DEPTH, Coming, read_body
from maestro_state.serve.schemas.sessions import NewValue


async def _read(content: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    headers = Headers({"content-type": "application/json", "content-length": str(len(content))})
    with Coming().of("ana", 1 << 30) as hold:
        return (await read_body(receive, headers, NewValue, 1 << 30, hold)).value


def _nested(depth: int, inside: str) -> str:
    """Return an object of so many levels, with something in the innermost."""
    return '{"value": ' + "[" * (depth - 1) + inside + "]" * (depth - 1) + "}"


@pytest.mark.parametrize(
    "text", ["[" * 100, "]" * 100, '"' + "[" * 100, "\\", '\\"' + "{" * 100, "a\\\\", '"\\"[' * 100, "[\n]" * 100]
)
def test_brackets_in_texts_are_no_depth(text: str):
    content = _nested(DEPTH, json.dumps(text))
    assert json.dumps(text) in json.dumps(asyncio.run(_read(content.encode())))
    with pytest.raises(Failure, match="nested more than"):
        asyncio.run(_read(_nested(DEPTH + 1, json.dumps(text) + ", [], {}").encode()))


@pytest.mark.parametrize(("size", "others"), [(10, 0), (100_000, 1)])
def test_while_a_large_body_is_read_others_have_their_turn(size: int, others: int):
    """A small one is read at once: a thread would take longer."""
    content = json.dumps({"value": ["[]"] * size}).encode()

    async def read_beside() -> int:
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        assert len(await _read(content)) == size
        other.cancel()
        return min(turns, 1)

    assert asyncio.run(read_beside()) == others


async def test_what_one_caller_has_coming_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """However many bodies they begin and never finish; others send theirs, and who let go of one may send again."""
    monkeypatch.setattr(request_parsing, "HELD_MAX", 10_000)
    coming, begun = Coming(), asyncio.Semaphore(0)

    async def send(caller: str, size: int, *, is_whole: bool = True, limit: int = 5000) -> Any:
        pieces = [{"type": "http.request", "body": b" " * size, "more_body": True}]
        pieces += [{"type": "http.request", "body": b'{"value": 1}'}] if is_whole else []

        async def receive() -> dict[str, Any]:
            if pieces:
                return pieces.pop(0)
            begun.release()
            return await asyncio.Future()

        with coming.of(caller, limit) as hold:
            headers = Headers({"content-type": "application/json", "transfer-encoding": "chunked"})
            return (await read_body(receive, headers, NewValue, limit, hold)).value

    hanging = [asyncio.create_task(send("ana", 4000, is_whole=False)) for _ in range(2)]
    for _ in hanging:
        await begun.acquire()
    assert await send("ana", 1000) == 1
    with pytest.raises(Failure, match="at once") as refused:
        await send("ana", 4000)
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    assert await send("bob", 4000) == 1
    hanging[0].cancel()
    await asyncio.wait(hanging[:1])
    assert await send("ana", 4000) == 1
    hanging[1].cancel()
    assert await send("eva", 20_000, limit=30_000) == 1, "one that may be so large comes"
