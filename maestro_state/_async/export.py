"""Exporting: a session, live or archived, as one document."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from maestro_state._async.source import AsyncSource
from maestro_state.archive.export import EXPORTS, JsonExport, MarkdownExport, People, warnings
from maestro_state.contents import Run
from maestro_state.errors import FileCorrupt


async def write_export(source: AsyncSource, form: str, file: BinaryIO) -> list[str]:
    """Write a session to an open file; return what a reader should be warned of."""
    session, items, runs, relevant = await source.contents()
    notes = warnings(items, runs)
    export = EXPORTS[form](file, await _people(source, session.user_id))
    export.begin(session, notes)
    export.section("context")
    for item in items:
        try:
            content = await source.snapshot(item)
        except FileCorrupt as error:
            notes.append(str(error))
            content = b""
        export.item(item, content)
    export.end_section()
    export.section("runs")
    for run in runs:
        await _write_run(source, run, export, notes)
    export.end_section()
    export.section("messages")
    for message in await source.messages():
        export.message(message)
    export.end_section()
    export.section("events")
    async for event in source.events(printed=False):
        export.event(event)
    export.end_section()
    export.end(relevant, await source.last_output())
    return notes


async def _write_run(source: AsyncSource, run: Run, export: JsonExport | MarkdownExport, notes: list[str]) -> None:
    """Write a run; what is damaged of it is written as far as it is there, and said, in the document too."""
    damage = []
    removed_at = run.removed_at or (run.output_ref.removed_at if run.output_ref else None)
    try:
        prompt = b"" if run.removed_at else await source.prompt(run)
    except FileCorrupt as error:
        damage.append(str(error))
        prompt = b""
    export.begin_run(run, prompt, await source.sent_context(run.id))
    if removed_at:
        export.removed(removed_at)
        export.end_run(damage)
        return
    pieces: list[bytes] = []
    try:
        async for piece in source.output(run.id):
            pieces.append(piece)
    except FileCorrupt as error:
        damage.append(str(error))
    export.output(pieces, is_text=_is_text(pieces))
    notes += damage
    export.end_run(damage)


async def _people(source: AsyncSource, owner: str) -> People:
    """Return who added each item and started each run: events say it where it was not the owner."""
    others = {}
    async for event in source.events(printed=False):
        if event.type in ("context.added", "run.started", "run.previewed") and "user" in event.data:
            others[event.data.get("item") or event.data["run"]] = event.data["user"]
    return People(owner, others)


def _is_text(pieces: list[bytes]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in pieces:
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
