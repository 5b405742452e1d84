"""The overview: what a list of sessions shows at a glance, read in three round trips however long they are."""

from __future__ import annotations

import time
from contextlib import suppress
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from maestro_state.clock import from_iso
from maestro_state.errors import MaestroError, NoProject
from maestro_state.live.server import UNREADABLE
from maestro_state.models.run import OPEN
from maestro_state.serve.request import document
from maestro_state.state.calls.changes import changes_since, last_change
from maestro_state.state.calls.contents import read_runs
from maestro_state.state.calls.index import count_rows, read_summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.models.run import Run
    from maestro_state.models.session import SessionSummary
    from maestro_state.serve.request import Request

#: How many intervals of activity are shown, and how long each is, in seconds.
INTERVALS, INTERVAL_S = 30, 120


async def overview(request: Request) -> Response:
    """Show the live sessions last active with tool, runs, today's cost, and activity by interval."""
    maestro = request.maestro
    try:
        return document(await _overview(maestro, request.query.limit))
    except NoProject:
        return document(_document([], [], "0-0", 0))


async def _overview(maestro: AsyncMaestro, limit: int) -> dict[str, Any]:
    terms, now_ms = maestro.server.terms, maestro.server.now_ms()
    begin_ms = now_ms - INTERVALS * INTERVAL_S * 1000
    cursor, changes, *of_shards = await maestro.server.fetch_all(
        [last_change(terms), changes_since(terms, begin_ms), *count_rows(terms)]
    )
    total = sum(of_shards)
    listed = await maestro.sessions.newest(limit)
    counted: dict[str, list[int]] = {}
    for change in changes:
        interval = (int(change.id.partition("-")[0]) - begin_ms) // (INTERVAL_S * 1000)
        counted.setdefault(change.session_id, [0] * INTERVALS)[min(int(interval), INTERVALS - 1)] += 1
    known = await _known(maestro, [row.id for row in listed])
    gone = await _gone(maestro, [row_id for row_id, one in known.items() if one.summary is None])
    rows = await _mended(maestro, [row for row in listed if row.id not in gone], known)
    midnight_ms = int(time.mktime((*time.localtime(now_ms / 1000)[:3], 0, 0, 0, 0, 0, -1))) * 1000
    shown = [
        row.document()
        | {"tool_active": getattr(row, "tool_active", None), "activity": counted.get(row.id, [0] * INTERVALS)}
        | _figures(known[row.id].runs if row.id in known else [], midnight_ms)
        for row in rows
    ]
    return _document(shown, gone, cursor, total - len(gone))


def _document(rows: list[dict[str, Any]], gone: list[str], cursor: str, total: int) -> dict[str, Any]:
    cost = round(fsum(row["cost_today"] for row in rows), 9)
    told = {"interval_s": INTERVAL_S, "total": total, "cost_today": cost, "cursor": cursor}
    return {"sessions": rows, "gone": gone} | told


class _Known(NamedTuple):
    """What a session itself says: the index is a help, and may be behind."""

    runs: list[Run]
    summary: list[Any] | None


async def _known(maestro: AsyncMaestro, ids: list[str]) -> dict[str, _Known]:
    """Read runs and summaries of some sessions together; apart where one of them is damaged, and hides no other."""
    terms = maestro.server.terms
    queries = {session_id: [read_runs(terms, session_id), read_summary(terms, session_id)] for session_id in ids}
    try:
        found = iter(await maestro.server.fetch_all([query for both in queries.values() for query in both]))
        return {session_id: _Known(next(found), next(found)) for session_id in ids}
    except Exception:  # noqa: BLE001 - whatever is wrong with one of them, it is told where it is read alone
        known = {}
        for session_id, both in queries.items():
            with suppress(MaestroError):
                known[session_id] = _Known(*[await maestro.server.fetch(query) for query in both])
        return known


async def _gone(maestro: AsyncMaestro, ids: list[str]) -> list[str]:
    """Return those of some sessions that the server has no more.

    Who deletes one takes its row last. Killed before that it leaves a row of nothing, for as long as nobody sweeps; the
    row itself stays for the sweep, which knows whether the disk has the session.
    """
    keys = maestro.server.terms.keys.records(ids)
    found = await maestro.server.connection.calls([("EXISTS", key) for key in keys]) if keys else []
    return [session_id for session_id, exists in zip(ids, found, strict=True) if not exists]


async def _mended(
    maestro: AsyncMaestro, rows: Sequence[SessionSummary], known: dict[str, _Known]
) -> Sequence[SessionSummary]:
    """Bring rows up to date that tell another state than their sessions.

    Who changes a state writes the session first and its row after it. Killed between the two it leaves a row that says
    running for as long as nobody sweeps, and a page that shows it does so to somebody who looks all day.
    """
    summaries = {row.id: known[row.id].summary for row in rows if row.id in known}
    late = {row.id for row in rows if (said := summaries.get(row.id)) and said[1] != row.state.encode()}
    if not late:
        return rows
    for session_id in late:
        with suppress(MaestroError, *UNREADABLE):  # then the row stays as it is, as if nobody had looked
            await maestro.server.note(session_id, summaries[session_id])
    newer = await maestro.sessions.rows([*late])
    return [newer.get(row.id, row) for row in rows]


def _figures(runs: list[Run], midnight_ms: int) -> dict[str, Any]:
    today = [run.usage for run in runs if run.usage and from_iso(run.created_at) >= midnight_ms]
    return {
        "runs": len(runs),
        "asked": runs[-1].prompt_preview if runs else None,
        "asked_tool": runs[-1].tool if runs else None,
        "runs_open": sum(run.status in OPEN for run in runs),
        "cost_today": round(fsum(usage.cost or 0.0 for usage in today), 9),
        "tokens_today": sum((usage.tokens_input or 0) + (usage.tokens_output or 0) for usage in today),
    }
