"""opencode: `opencode.db` (SQLite), or what `opencode export ID` wrote.

Its output is without reasoning, which is added here; what a child cost is not in its parent's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

from maestro_state.errors import FileCorrupt
from maestro_state.histories.lines import count, files_below, first_line, open_history, stamped, time_ms, whole_json
from maestro_state.histories.sqlite import database, is_database, reading, tables, text_in, until_damaged
from maestro_state.histories.values import Asked, Broken, Conversation, Ended, Noted, Said, Stamped, Step, Tokens, Used

TOOL = "opencode"
#: Largest export that is read.
_EXPORT_MAX = 512 << 20
#: An answer that was begun longer ago, in milliseconds, and has no end: its program was killed.
_LONGEST_MS = 3_600_000

#: A message as opencode has it: what it is, and its parts.
_Told = tuple[dict[str, Any], list[dict[str, Any]]]


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    return [os.path.join(environment.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "opencode")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the databases in a folder, or a file: a database, or an export."""
    if os.path.isdir(path):
        for found in files_below(path, _is_history, 0):
            yield database(found)
    else:
        yield database(path) if is_database(path) else stamped(path)


def _is_history(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("opencode") and name.endswith(".db")


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversations of a database, or the one of an export."""
    if not is_database(found.path):
        yield _exported(found)
        return
    with reading(found.path) as connection:
        if not {"session", "message", "part"} <= tables(connection):
            raise FileCorrupt(f"{found.path} is not a database of opencode's")
        rows = connection.execute("SELECT * FROM session ORDER BY time_created, id").fetchall()
        ids = {row["id"] for row in rows}
        children: dict[str, list[sqlite3.Row]] = {}
        for row in rows:
            if row["parent_id"] in ids:
                children.setdefault(row["parent_id"], []).append(row)
        told: set[str] = set()
        # Parents first; of those that are each other's children, the first.
        for row in sorted(rows, key=lambda row: row["parent_id"] in ids):
            if str(row["id"]) not in told:
                one = _stored(connection, found, row)
                one.children = list(_below(connection, found, row, children))
                told.update(each.external_id for each in (one, *one.children))
                yield one


def _below(
    connection: sqlite3.Connection, found: Stamped, row: sqlite3.Row, children: dict[str, list[sqlite3.Row]]
) -> Iterator[Conversation]:
    """Yield what a conversation's sub-agents said, and theirs beside them: it has its children in one list."""
    waiting = [(child, row["id"]) for child in reversed(children.pop(row["id"], []))]
    while waiting:
        child, parent = waiting.pop()
        if child["id"] == row["id"]:
            continue
        one = _stored(connection, found, child)
        one.call_id = _call_of(connection, parent, one.external_id)
        yield one
        waiting += [(each, child["id"]) for each in reversed(children.pop(child["id"], []))]


def _stored(connection: sqlite3.Connection, found: Stamped, row: sqlite3.Row) -> Conversation:
    session, title = row["id"], text_in(row["title"])
    return Conversation(
        tool=TOOL,
        external_id=str(session),
        path=found.path,
        title=title,
        cwd=text_in(row["directory"]),
        updated_ms=time_ms(row["time_updated"], 0),
        stamp=found.stamp,
        read=lambda _: until_damaged(_steps(title, _messages(connection, session))),
    )


def _call_of(connection: sqlite3.Connection, session: str, child: str) -> str | None:
    query = "SELECT data FROM part WHERE session_id = ? AND instr(data, ?)"
    with suppress(sqlite3.Error):  # a damage is told of where the conversation is read
        for (data,) in connection.execute(query, (session, child)):
            part = whole_json(data)
            if isinstance(part, dict) and part.get("type") == "tool":
                return str(part.get("callID") or "") or None
    return None


def _messages(connection: sqlite3.Connection, session: str) -> Iterator[_Told | Broken]:
    query = "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    parts = "SELECT id, data FROM part WHERE message_id = ? ORDER BY id"
    for number, row in enumerate(connection.execute(query, (session,)), start=1):
        info = whole_json(row["data"])
        if not isinstance(info, dict):
            yield Broken(number, f"message {row['id']} is not JSON")
            continue
        told: list[dict[str, Any]] = []
        for one in connection.execute(parts, (row["id"],)):
            part = whole_json(one["data"])
            if isinstance(part, dict):
                told.append({"id": one["id"], **part})
            else:
                yield Broken(number, f"part {one['id']} is not JSON")
        yield {"id": row["id"], "time": {"created": row["time_created"]}} | info, told


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _exported(found: Stamped) -> Conversation:
    with open_history(found.path) as file:
        content = file.read(_EXPORT_MAX)
    document = whole_json(content)
    info = document.get("info") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(info, dict) or not isinstance(document.get("messages"), list):
        raise FileCorrupt(f"{found.path} is not what opencode export writes")
    told = [
        (one["info"], [part for part in _list(one.get("parts")) if isinstance(part, dict)])
        for one in document["messages"]
        if isinstance(one, dict) and isinstance(one.get("info"), dict)
    ]
    title = info.get("title") if isinstance(info.get("title"), str) else None
    return Conversation(
        tool=TOOL,
        external_id=str(info.get("id") or os.path.basename(found.path)),
        path=found.path,
        title=title,
        cwd=info.get("directory") if isinstance(info.get("directory"), str) else None,
        updated_ms=found.updated_ms,
        stamp=found.stamp,
        read=lambda _: _steps(title, told),
    )


def _steps(title: str | None, told: Iterable[_Told | Broken]) -> Iterator[Step]:
    if title:
        yield Noted("title", title)
    at_ms = 0
    for one, following in pairwise(chain(told, (None,))):
        if one is None or isinstance(one, Broken):
            yield from () if one is None else (one,)
            continue
        info, parts = one
        times = info.get("time") if isinstance(info.get("time"), dict) else {}
        at_ms = time_ms(times.get("created") if isinstance(times, dict) else None, at_ms)
        if following is None and _is_under_way(info, at_ms):
            return
        key = str(info.get("id") or f"at@{at_ms}")
        if info.get("role") == "user":
            text = _text(parts, lambda part: not part.get("synthetic") and not part.get("ignored"))
            if text:
                yield Asked(key, at_ms, text)
        elif info.get("role") == "assistant":
            yield from _answer(key, at_ms, info, parts)


def _is_under_way(info: dict[str, Any], at_ms: int) -> bool:
    """Tell whether an answer is still being written: what it says so far is not all of it."""
    times = info.get("time")
    is_done = isinstance(times, dict) and times.get("completed")
    is_open = info.get("role") == "assistant" and not is_done and not info.get("error")
    return is_open and time.time() * 1000 - at_ms < _LONGEST_MS


def _text(parts: list[dict[str, Any]], is_wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> str:
    texts = [part.get("text") for part in parts if part.get("type") == "text" and is_wanted(part)]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _answer(key: str, at_ms: int, info: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Step]:
    model = info.get("modelID") if isinstance(info.get("modelID"), str) else None
    cost = info.get("cost")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool)
    yield Used(key, _tokens(info.get("tokens")), model, float(cost) if is_cost and cost else None)
    calls, results = [], []
    for part in parts:
        if part.get("type") != "tool":
            continue
        state = part["state"] if isinstance(part.get("state"), dict) else {}
        call_id = str(part.get("callID") or part.get("id") or "")
        calls.append({"id": call_id, "tool": str(part.get("tool") or ""), "args": state.get("input") or {}})
        if state.get("status") in ("completed", "error"):
            results.append((call_id, state))
    text = _text(parts)
    if text or calls:
        yield Said([key], at_ms, "assistant", text, calls or None, model=model)
    for call_id, state in results:
        is_error = state.get("status") == "error"
        done = state.get("error") if is_error else state.get("output")
        link: dict[str, Any] = {"call_id": call_id} | ({"error": True} if is_error else {})
        yield Said([f"{key}={call_id}"], at_ms, "tool", done if isinstance(done, str) else "", results=[link])
    if isinstance(info.get("error"), dict):
        error = info["error"]
        data = error.get("data") if isinstance(error.get("data"), dict) else {}
        is_aborted = error.get("name") == "MessageAbortedError"
        reason = first_line(str((data or {}).get("message") or error.get("name") or "error"), 200)
        yield Ended(at_ms, "canceled" if is_aborted else "error", reason)
    elif info.get("finish") not in (None, "tool-calls"):
        yield Ended(at_ms, "success")


def _tokens(usage: Any) -> Tokens:
    thought = count(usage, "reasoning")
    return Tokens(
        count(usage, "input"),
        count(usage, "cache", "read"),
        count(usage, "cache", "write"),
        count(usage, "output") + thought,
        thought,
    )
