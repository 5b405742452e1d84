"""Messages, events and output of a session into its archive: what came since, or what either has, where the two went
different ways.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state._sync.source import FIRST, Live
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.writer import Generation
from maestro_state.models.message import Event, id_order
from maestro_state.state.calls.checkpoints import Moment

ACTIVITY = "run.activity"


def is_of_this_history(generation: Generation, live: Live, last_id: str, moment: Moment) -> bool:
    """Tell whether the server has what the archive ends with: one that was restored may have gone on with other ids, or
    with the same ones. Told of the archive it knows; else somebody may have just written it, and be about to tell.
    """
    if last_id == moment.archived_id:
        return True
    if not any(map(generation.has, (layout.MESSAGES, layout.EVENTS, layout.CHUNKS))):
        return True
    found = live.entry(last_id)
    if found is None:
        return False
    if isinstance(found, Event) and found.type == "run.output":
        chunk = {"id": found.id, **found.data}
        lines = (layout.json_line(chunk), layout.json_line(chunk | {"anew": True}))
        return any(generation.ends_with(layout.CHUNKS, line) for line in lines)
    path = layout.EVENTS if isinstance(found, Event) else layout.MESSAGES
    return generation.ends_with(path, layout.json_line(found.document()))


def write_streams(generation: Generation, live: Live, start: str, moment: Moment) -> None:
    """Append what the streams have got since."""
    end = moment.last_id
    for messages in live.message_pages(start, end):
        generation.append(layout.MESSAGES, layout.json_lines([one.document() for one in messages]))
    for events in live.event_pages(start, end):
        generation.append(layout.EVENTS, layout.json_lines([one.document() for one in events]))
        _write_activity(generation, [one.document() for one in events if one.type == ACTIVITY])
    begun: dict[str, bool] = {}
    for pieces in live.output_pages(start, end, moment.printed_in_all):
        _write_printed(generation, moment, begun, pieces)
    for run_id, first in moment.first.items():
        # It was requeued and has printed nothing since: the archive has only what the given-up try printed.
        if first is None:
            generation.leave_out(layout.run_path(run_id, "output.txt"))


def merge_streams(generation: Generation, live: Live, moment: Moment) -> None:
    """Write the streams of a server that may have been restored and gone on since, maybe with ids that the archive
    passed long ago: messages and events that either has, and what runs printed as the server has it.
    """
    for run in moment.runs:
        generation.leave_out(layout.run_path(run.id, "activity.jsonl"))
    for path, pages in ((layout.MESSAGES, live.message_pages), (layout.EVENTS, live.event_pages)):
        kept = generation.lines(path)
        waiting = next(kept, None)
        for page in pages(FIRST, moment.last_id):
            lines = []
            for one in page:
                while waiting and _line_order(waiting) < id_order(one.id):
                    lines.append(waiting)
                    waiting = next(kept, None)
                if waiting and _line_order(waiting) == id_order(one.id):
                    waiting = next(kept, None)
                lines.append(layout.json_line(one.document()))
            generation.append(path, b"".join(lines), anew=True)
            _write_activity(generation, _activity_in(lines), anew=True)
        while waiting:
            generation.append(path, waiting, anew=True)
            _write_activity(generation, _activity_in([waiting]), anew=True)
            waiting = next(kept, None)
    for path in (layout.CHUNKS, *(layout.run_path(run.id, "output.txt") for run in moment.runs)):
        generation.leave_out(path)
    begun: dict[str, bool] = {}
    for pieces in live.output_pages(FIRST, moment.last_id, moment.printed_in_all):
        _write_printed(generation, moment, begun, pieces, anew=True)


def _activity_in(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return what agents did among the lines of a stream."""
    mark = b'"type":"run.activity"'
    found = (msgspec.json.decode(line) for line in lines if mark in line)
    return [one for one in found if one.get("type") == ACTIVITY]


def _write_activity(generation: Generation, events: list[dict[str, Any]], *, anew: bool = False) -> None:
    """Append what agents did to the files of their runs."""
    done: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        data = {name: value for name, value in event["data"].items() if name != "run"}
        done.setdefault(event["data"]["run"], []).append({"id": event["id"], "ts": event["ts"], **data})
    for run_id, lines in done.items():
        generation.append(layout.run_path(run_id, "activity.jsonl"), layout.json_lines(lines), anew=anew)


def _line_order(line: bytes) -> tuple[int, int]:
    return id_order(layout.id_of_line(line))


def _write_printed(
    generation: Generation,
    moment: Moment,
    begun: dict[str, bool],
    pieces: list[tuple[str, str, bytes]],
    *,
    anew: bool = False,
) -> None:
    """Append one page of what runs printed; `begun` tells of the runs seen so far whether theirs is written anew."""
    found: dict[str, list[bytes]] = {}
    chunks: list[dict[str, object]] = []
    for entry_id, run_id, data in pieces:
        chunk: dict[str, object] = {"id": entry_id, "run": run_id, "size": len(data)}
        if run_id not in begun:
            first = moment.first.get(run_id)
            if first and id_order(entry_id) < id_order(first):
                continue  # printed by a try that was given up
            begun[run_id] = entry_id == first
            if begun[run_id]:
                chunk["anew"] = True
        found.setdefault(run_id, []).append(data)
        chunks.append(chunk)
    for run_id, parts in found.items():
        generation.append(layout.run_path(run_id, "output.txt"), b"".join(parts), anew=begun[run_id])
    if chunks:
        generation.append(layout.CHUNKS, layout.json_lines(chunks), anew=anew)
