"""Exporting: a session, live or archived, as one document."""

from __future__ import annotations

from typing import BinaryIO

from maestro_state._sync.full_messages import whole
from maestro_state._sync.source import Source
from maestro_state.errors import FileCorrupt
from maestro_state.mirror.export import Clean, JsonExport, People, unchanged, warnings
from maestro_state.mirror.markdown import MarkdownExport
from maestro_state.mirror.spool import Redaction, Spool, TooLarge
from maestro_state.models.run import Run

Export = JsonExport | MarkdownExport

#: Format → who writes it.
EXPORTS: dict[str, type[Export]] = {"md": MarkdownExport, "json": JsonExport}


def _cleaner(redaction: Redaction) -> Clean:
    return lambda text: redaction.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")


def write_export(
    source: Source, form: str, file: BinaryIO, *, limit: int, redaction: Redaction | None = None
) -> list[str]:
    """Write a session to an open file, outputs up to a limit each; return what a reader should be warned of."""
    session, items, runs, relevant = source.contents()
    notes = warnings(items, runs)
    clean = unchanged if redaction is None else _cleaner(redaction)
    export = EXPORTS[form](file, _people(source, session.user_id), clean)
    export.begin(session, notes)
    export.section("context")
    for item in items:
        try:
            content = source.snapshot(item)
        except FileCorrupt as error:
            notes.append(str(error))
            content = b""
        export.item(item, redaction.redact(content) if redaction else content)
    export.end_section()
    export.section("runs")
    for run in runs:
        _write_run(source, run, export, notes, limit, redaction)
    export.end_section()
    export.section("messages")
    for message in source.messages():
        for one in whole(source, [message]):  # one at a time: together they may be as large as all outputs
            export.message(one)
    export.end_section()
    export.section("events")
    for event in source.events(printed=False):
        export.event(event)
    export.end_section()
    export.end(relevant, source.last_output())
    return notes


def _write_run(
    source: Source, run: Run, export: Export, notes: list[str], limit: int, redaction: Redaction | None
) -> None:
    """Write a run; what is damaged of it is written as far as it is there, and said, in the document too."""
    damage = []
    removed_at = run.removed_at or (run.output_ref.removed_at if run.output_ref else None)
    try:
        prompt = b"" if run.removed_at else source.prompt(run)
    except FileCorrupt as error:
        damage.append(str(error))
        prompt = b""
    export.begin_run(run, redaction.redact(prompt) if redaction else prompt, source.sent_context(run.id))
    if removed_at:
        export.removed(removed_at)
        export.end_run(damage)
        return
    with Spool(limit) as spool:
        try:
            for piece in source.output(run.id):
                spool.add(piece)
            spool.finish()
        except FileCorrupt as error:
            damage.append(str(error))
        except TooLarge:
            damage.append(f"the output of run {run.id} is left out: it has more than {limit} bytes")
        if spool.size <= limit:
            export.output(spool, redaction)
    notes += damage
    export.end_run(damage)


def _people(source: Source, owner: str) -> People:
    """Return who added each item and started each run: events say it where it was not the owner."""
    others = {}
    for event in source.events(printed=False):
        if event.type in ("context.added", "run.started", "run.previewed") and "user" in event.data:
            others[event.data.get("item") or event.data["run"]] = event.data["user"]
    return People(owner, others)
