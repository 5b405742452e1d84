"""Messages whose content is an excerpt, with the whole of it: what a run printed is kept once."""

from __future__ import annotations

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.live.source import AsyncSource
from maestro_state.models.message import Message

#: Longest content that is put into its message again, in bytes; what is longer is read as the run's output.
WHOLE_BYTES = 16 << 20


async def whole(source: AsyncSource, messages: list[Message]) -> list[Message]:
    """Return messages with their whole content, as far as that is there and fits into one."""
    return [await _whole(source, message) if message.content_ref else message for message in messages]


async def _whole(source: AsyncSource, message: Message) -> Message:
    _, run_id, name = (message.content_ref or "").split("/")
    try:
        content = await (_prompt(source, run_id) if name == "prompt.txt" else _output(source, run_id))
    except MaestroError:
        return message  # damaged, or removed by a cleanup: whoever asks for the run is told
    if content is None:
        return message
    return msgspec.structs.replace(message, content=content.decode(errors="replace"), content_ref=None)


async def _prompt(source: AsyncSource, run_id: str) -> bytes | None:
    for run in await source.runs():
        if run.id == run_id:
            return await source.prompt(run)
    return None


async def _output(source: AsyncSource, run_id: str) -> bytes | None:
    pieces, size = [], 0
    async for piece in source.output(run_id):
        pieces.append(piece)
        size += len(piece)
        if size > WHOLE_BYTES:
            return None
    return b"".join(pieces) if pieces else None
