# Generated from maestro_state/live by `make generate`. Do not edit.
"""Messages whose content is an excerpt, with the whole of it: what a run printed is kept once."""

from __future__ import annotations

import msgspec

from maestro_state.errors import MaestroError
from maestro_state._sync.source import Source
from maestro_state.models.message import Message

#: Longest content that is put into its message again, in bytes; what is longer is read as the run's output.
WHOLE_BYTES = 16 << 20


def whole(source: Source, messages: list[Message]) -> list[Message]:
    """Return messages with their whole content, as far as that is there and fits into one."""
    return [_whole(source, message) if message.content_ref else message for message in messages]


def _whole(source: Source, message: Message) -> Message:
    _, run_id, name = (message.content_ref or "").split("/")
    try:
        content = (_prompt(source, run_id) if name == "prompt.txt" else _output(source, run_id))
    except MaestroError:
        return message  # damaged, or removed by a cleanup: whoever asks for the run is told
    if content is None:
        return message
    return msgspec.structs.replace(message, content=content.decode(errors="replace"), content_ref=None)


def _prompt(source: Source, run_id: str) -> bytes | None:
    for run in source.runs():
        if run.id == run_id:
            return source.prompt(run)
    return None


def _output(source: Source, run_id: str) -> bytes | None:
    pieces, size = [], 0
    for piece in source.output(run_id):
        pieces.append(piece)
        size += len(piece)
        if size > WHOLE_BYTES:
            return None
    return b"".join(pieces) if pieces else None
