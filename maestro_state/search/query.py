"""Asking the cache: from words and filters to hits."""

from __future__ import annotations

from typing import Any, NamedTuple

from maestro_state.clock import iso
from maestro_state.models.message import id_order
from maestro_state.models.names import slug_of
from maestro_state.models.search import KINDS, Found, Hit
from maestro_state.search.entries import SPEAKERS
from maestro_state.search.snippets import snippet
from maestro_state.search.store import Store, ms_of, place_of
from maestro_state.search.words import Term, match


class Question(NamedTuple):
    """What is searched for."""

    terms: list[Term]
    kinds: frozenset[str] = frozenset(KINDS)
    session_id: str | None = None
    is_live: bool | None = None  #: only live ones, or only archived ones
    since_ms: int | None = None
    by_rank: bool = False
    limit: int = 20


def ask(store: Store, question: Question, project: str | None = None) -> Found:
    """Return what the cache has."""
    where, values = _conditions(question)
    order = "words.rank" if question.by_rank else "words.rowid DESC"
    joined = "words CROSS JOIN entry ON entry.place = words.rowid CROSS JOIN session ON session.number = entry.session"
    # What is put together here are fixed texts: whatever was typed is a value.
    fields = "entry.place, session.id, entry.kind, entry.entry, entry.role, entry.said, entry.content"
    query = f"SELECT {fields} FROM {joined} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608
    rows = store.database.execute(query, (*values, question.limit)).fetchall()
    total = len(rows)
    if total >= question.limit:
        source = joined if "entry." in where or "session." in where else "words"
        count = f"SELECT count(*) FROM {source} WHERE {where}"  # noqa: S608
        total = store.database.execute(count, values).fetchone()[0]
    hits = [_hit(row, question, project) for row in rows]
    return Found(hits, total, store.damaged())


def _conditions(question: Question) -> tuple[str, list[Any]]:
    where, values = ["words MATCH ?"], [match(question.terms)]
    more: list[tuple[str, Any]] = []
    if question.since_ms is not None:
        more.append(("words.rowid >= ?", place_of(question.since_ms)))
    if question.session_id is not None:
        more.append(("session.id = ?", question.session_id))
    if question.is_live is not None:
        more.append(("session.is_live = ?", int(question.is_live)))
    for condition, value in more:
        where.append(condition)
        values.append(value)
    if question.kinds != frozenset(KINDS):
        kinds = sorted(question.kinds)
        said = " OR entry.said IS NOT NULL" if "message" in kinds else ""
        where.append(f"(entry.kind IN ({', '.join('?' * len(kinds))}){said})")
        values += kinds
    return " AND ".join(where), values


def _hit(row: tuple[Any, ...], question: Question, project: str | None) -> Hit:
    place, session_id, kind, entry, role, said, content = row
    ms = ms_of(place)
    if kind not in question.kinds:  # asked for as the message that it also is
        kind, entry, role = "message", said, SPEAKERS[kind]
    if kind == "message":
        ms = id_order(entry)[0]
    return Hit(
        session_id=session_id,
        slug=slug_of(session_id),
        kind=kind,
        entry=entry,
        role=role,
        ts=iso(ms),
        snippet=snippet(content, question.terms),
        project=project,
    )


def merged(parts: list[Found], question: Question) -> Found:
    """Return what several projects answered as one answer: newest first; by rank, the best of each in turn."""
    hits: dict[tuple[str, str, str], tuple[int, Hit]] = {}
    total = 0
    for part in parts:
        total += part.total
        for rank, hit in enumerate(part.results):
            key = (hit.session_id, hit.kind, hit.entry)
            total -= key in hits  # live on a server that both use
            hits.setdefault(key, (rank, hit))
    found = sorted(hits.values(), key=lambda one: one[1].ts, reverse=True)
    if question.by_rank:
        found.sort(key=lambda one: one[0])
    skipped = [one for part in parts for one in part.skipped]
    return Found([hit for _, hit in found[: question.limit]], total, skipped)
