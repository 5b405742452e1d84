"""llm: `logs.db` (SQLite; both of its forms), or what `llm logs -n 0 --json` printed.

It does not say in which folder something was asked: its conversations are of no project.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from maestro_state.errors import FileCorrupt
from maestro_state.histories.lines import count, files_below, first_line, open_history, stamped, time_ms, whole_json
from maestro_state.histories.sqlite import database, is_database, reading, tables, text_in, until_damaged
from maestro_state.histories.values import Asked, Conversation, Ended, Noted, Said, Stamped, Step, Tokens, Used

TOOL = "llm"
_LOGS_MAX = 512 << 20


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    config = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return [environment.get("LLM_USER_PATH") or os.path.join(config, "io.datasette.llm")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the database in a folder, or a file: a database, or printed logs."""
    if os.path.isdir(path):
        for found in files_below(path, lambda one: os.path.basename(one) == "logs.db", 1):
            yield database(found)
    else:
        yield database(path) if is_database(path) else stamped(path)


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversations of a database, or of printed logs."""
    if not is_database(found.path):
        yield from _printed(found)
        return
    with reading(found.path) as connection:
        known = tables(connection)
        if {"threads", "turns", "messages", "parts"} <= known:
            yield from _threads(connection, found)
        if "responses" in known:
            yield from _responses(connection, found)
        elif "turns" not in known:
            raise FileCorrupt(f"{found.path} is not a database of llm's")


def _conversation(found: Stamped, external_id: str, title: Any, steps: Any, updated: Any) -> Conversation:
    return Conversation(
        tool=TOOL,
        external_id=external_id,
        path=found.path,
        title=first_line(text_in(title) or "", 60),
        updated_ms=time_ms(updated, found.updated_ms),
        stamp=found.stamp,
        read=lambda _: until_damaged(steps()),
    )


def _threads(connection: sqlite3.Connection, found: Stamped) -> Iterator[Conversation]:
    query = """SELECT threads.id, name, max(turns.datetime_utc) AS last
               FROM threads JOIN turns ON thread_id = threads.id GROUP BY threads.id ORDER BY threads.id"""
    for row in connection.execute(query).fetchall():
        thread = str(row["id"])
        yield _conversation(found, thread, row["name"], lambda one=thread: _thread(connection, one), row["last"])


def _thread(connection: sqlite3.Connection, thread: str) -> Iterator[Step]:
    """Yield a conversation whose messages are a chain: each turn has those since the turn before."""
    query = "SELECT * FROM turns WHERE thread_id = ? ORDER BY datetime_utc, id"
    known: set[str] = set()
    for turn in connection.execute(query, (thread,)).fetchall():
        at_ms = time_ms(turn["datetime_utc"], 0)
        done_ms = at_ms + count(dict(turn), "duration_ms")
        chain: list[sqlite3.Row] = []
        tip = turn["tip_message_hash"] or turn["parent_message_hash"]
        while tip and tip not in known:
            known.add(tip)
            row = connection.execute("SELECT hash, parent_hash, role FROM messages WHERE hash = ?", (tip,)).fetchone()
            if row is None:
                break
            chain.append(row)
            tip = row["parent_hash"]
        model = text_in(turn["resolved_model"]) or text_in(turn["model"])
        has_ended = False
        for row in reversed(chain):
            key = _key(turn, row)
            text, calls, results = _parts(connection, row["hash"])
            if row["role"] == "user":
                yield Asked(key, at_ms, text, turn=turn["id"])
            elif row["role"] == "system":
                yield Said([key], at_ms, "system", text)
            else:
                role = "tool" if row["role"] == "tool" or results else "assistant"
                yield Said([key], done_ms, role, text, calls or None, results or None, model)
                has_ended = role == "assistant" and not calls
        yield Used(str(turn["id"]), _tokens(dict(turn)), model)
        if has_ended:
            yield Ended(done_ms, "success")


def _key(turn: sqlite3.Row, message: sqlite3.Row) -> str:
    """Return what printed logs of the same turn call a message, so that both are one."""
    if message["hash"] == turn["tip_message_hash"]:
        return str(turn["id"])
    names = {"system": "system", "user": "prompt"}
    is_question = message["hash"] == turn["parent_message_hash"] or message["role"] == "system"
    name = names.get(message["role"]) if is_question else None
    return f"{turn['id']}:{name or message['hash']}"


def _parts(connection: sqlite3.Connection, message: str) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
    query = "SELECT id, type, tool_name, text, payload FROM parts WHERE message_hash = ? ORDER BY position"
    fragments = """SELECT content FROM part_fragments JOIN fragments ON fragments.id = fragment_id
                   WHERE part_id = ? ORDER BY "order" """
    texts, calls, results = [], [], []
    for part in connection.execute(query, (message,)).fetchall():
        payload = _object(part["payload"])
        call_id = str(payload.get("tool_call_id") or "")
        if part["type"] == "tool_call":
            arguments = payload.get("arguments")
            calls.append({"id": call_id, "tool": str(part["tool_name"] or ""), "args": _arguments(arguments)})
            continue
        if part["type"] == "reasoning":
            continue
        if part["type"] == "tool_result":
            results.append({"call_id": call_id})
            texts.append(text_in(part["text"]) or str(payload.get("output") or ""))
            continue
        whole = [row[0] for row in connection.execute(fragments, (part["id"],))]
        texts += [text for text in (*whole, part["text"]) if text_in(text)]
    return "\n".join(texts), calls, results


def _responses(connection: sqlite3.Connection, found: Stamped) -> Iterator[Conversation]:
    names = "SELECT id, name FROM conversations" if "conversations" in tables(connection) else "SELECT NULL, NULL"
    titles = dict(connection.execute(names).fetchall())
    query = """SELECT coalesce(conversation_id, id) AS one, max(datetime_utc) AS last FROM responses
               GROUP BY one ORDER BY min(datetime_utc)"""
    rows = "SELECT * FROM responses WHERE coalesce(conversation_id, id) = ? ORDER BY datetime_utc, id"
    for row in connection.execute(query).fetchall():
        one = str(row["one"])

        def steps(one: str = one) -> Iterator[Step]:
            yield from _exchanges(dict(each) for each in connection.execute(rows, (one,)))

        yield _conversation(found, one, titles.get(one), steps, row["last"])


def _printed(found: Stamped) -> Iterator[Conversation]:
    with open_history(found.path) as file:
        rows = whole_json(file.read(_LOGS_MAX))
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("id") for row in rows):
        raise FileCorrupt(f"{found.path} is not what llm logs --json prints")
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (str(row.get("datetime_utc")), str(row["id"]))):
        grouped.setdefault(str(row.get("conversation_id") or row["id"]), []).append(row)
    for external_id, told in grouped.items():
        title = told[0].get("conversation_name") or told[0].get("prompt")
        yield _conversation(
            found, external_id, title, lambda told=told: _exchanges(told), told[-1].get("datetime_utc")
        )  # fmt: skip


def _exchanges(rows: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """Yield a conversation whose rows are a question with its answer each."""
    instructions = None
    at_ms = 0
    for row in rows:
        key = str(row["id"])
        at_ms = time_ms(row.get("datetime_utc"), at_ms)
        model = text_in(row.get("resolved_model")) or text_in(row.get("model"))
        if row.get("system") and row["system"] != instructions:
            instructions = row["system"]
            yield Said([f"{key}:system"], at_ms, "system", str(instructions))
        if name := row.get("conversation_name"):
            yield Noted("title", str(name))
        results = _objects(row.get("tool_results"))
        for number, result in enumerate(results):
            link = {"call_id": str(result.get("tool_call_id") or "")}
            yield Said([f"{key}:result{number}"], at_ms, "tool", str(result.get("output") or ""), results=[link])
        if row.get("prompt") or not results:
            yield Asked(f"{key}:prompt", at_ms, str(row.get("prompt") or ""), turn=key)
        calls = [
            {
                "id": str(one.get("tool_call_id") or ""),
                "tool": str(one.get("name") or ""),
                "args": _arguments(one.get("arguments")),
            }
            for one in _objects(row.get("tool_calls"))
        ]
        done_ms = at_ms + count(row, "duration_ms")
        yield Said([key], done_ms, "assistant", str(row.get("response") or ""), calls or None, model=model)
        yield Used(key, _tokens(row), model)
        if not calls:
            yield Ended(done_ms, "success")


def _object(text: Any) -> dict[str, Any]:
    found = text if isinstance(text, dict) else whole_json(text)
    return found if isinstance(found, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _arguments(value: Any) -> Any:
    return _object(value) or ({} if not value else {"arguments": value})


def _tokens(row: dict[str, Any]) -> Tokens:
    """Return what an answer consumed: its input has what was cached in it, its output the reasoning."""
    details = _object(row.get("token_details"))
    read = count(details, "prompt_tokens_details", "cached_tokens") or count(
        details, "input_tokens_details", "cached_tokens"
    )
    thought = count(details, "completion_tokens_details", "reasoning_tokens")
    thought = thought or count(details, "output_tokens_details", "reasoning_tokens")
    sent = count(row, "input_tokens")
    return Tokens(max(0, sent - read), read, 0, count(row, "output_tokens"), thought)
