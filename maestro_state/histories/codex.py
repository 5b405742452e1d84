"""Codex: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, also compressed (`.zst`, with the package zstandard).

Each message is there twice, as an item and as an event: it is taken once. Tokens are those of `token_usage_record`, by
response; earlier versions have only running totals, of which the growth counts.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec

from maestro_state.errors import FileCorrupt
from maestro_state.histories.lines import (
    HEAD_LINES,
    count,
    decoded,
    files_below,
    first_line,
    open_history,
    stamped,
    text_of,
    time_ms,
)
from maestro_state.histories.tail import Tail
from maestro_state.histories.values import Asked, Broken, Conversation, Ended, Noted, Said, Stamped, Step, Tokens, Used
from maestro_state.models.undecodable import UNDECODABLE

TOOL = "codex"

#: What Codex itself says in the user's name.
_OWN_WORDS = ("<environment_context>", "<user_instructions>", "<permissions", "# AGENTS.md instructions",
              "<turn_aborted>", "<collaboration_mode>", "<skill", "<INSTRUCTIONS>", "<app-context>",
              "<personality_spec>")  # fmt: skip
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")


class _Line(msgspec.Struct):
    type: str = ""
    timestamp: Any = None
    payload: Any = None


_line = msgspec.json.Decoder(_Line).decode


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    base = environment.get("CODEX_HOME") or os.path.join(home, ".codex")
    return [os.path.join(base, "sessions"), os.path.join(base, "archived_sessions")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the histories below a folder, or a file."""
    for found in files_below(path, _is_history):
        yield stamped(found)


def _is_history(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("rollout-") and name.endswith((".jsonl", ".jsonl.zst"))


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversation of a file."""
    path = found.path
    meta: dict[str, Any] | None = None
    title = None
    with _opened(path) as file:
        for number, (_, line) in enumerate(decoded(file, _line)):
            if isinstance(line, Broken) or not isinstance(line.payload, dict):
                continue
            payload = line.payload
            if line.type == "session_meta" and meta is None:
                meta = payload
            elif title is None and (text := _asked(line.type, payload)):
                title = first_line(text)
            if (meta and title) or number >= HEAD_LINES:
                break
    if meta is None and title is None:
        return
    meta = meta or {}
    external_id = meta.get("id") or os.path.basename(path).removesuffix(".zst").removesuffix(".jsonl")[-36:]
    yield Conversation(
        tool=TOOL,
        external_id=str(external_id),
        path=path,
        title=title,
        cwd=str(meta["cwd"]) if meta.get("cwd") else None,
        updated_ms=found.updated_ms,
        stamp=found.stamp,
        read=lambda seen: _steps(path, seen),
    )


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a history; a compressed one is read as it is unpacked."""
    with open_history(path) as file:
        if not path.endswith(".zst"):
            yield file
            return
        try:
            import zstandard
        except ImportError:
            told = f"{path} is compressed, and nothing here can read that: pip install zstandard, or zstd -d it"
            raise FileCorrupt(told) from None
        try:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file) as unpacked:
                yield io.BufferedReader(unpacked)
        except zstandard.ZstdError as error:
            raise FileCorrupt(f"{path} cannot be unpacked: {error}") from error


def _asked(kind: str, payload: dict[str, Any]) -> str | None:
    """Return what a person asked in a line, if it is that."""
    if kind == "event_msg" and payload.get("type") == "user_message":
        return str(payload.get("message") or "")
    if kind == "response_item" and payload.get("type") == "message" and payload.get("role") == "user":
        text = text_of(payload.get("content"))
        return None if text.lstrip().startswith(_OWN_WORDS) else text
    return None


def _steps(path: str, seen: Container[str]) -> Iterator[Step]:
    del seen
    parser = Parser()
    with _opened(path) as file:
        for _, line in decoded(file, _line):
            if isinstance(line, Broken):
                yield line
            elif isinstance(line.payload, dict):
                yield from parser.take(line.type, line.payload, line.timestamp)


def tail(seen: Container[str]) -> Tail[_Line]:
    """Return what reads a conversation that goes on."""
    del seen
    parser = Parser()

    def take(line: _Line) -> Iterator[Step]:
        if isinstance(line.payload, dict):
            yield from parser.take(line.type, line.payload, line.timestamp)

    return Tail(_line, take)


class Parser:
    """Turns lines into steps. Items have no ids of their own: they are counted within their turn."""

    def __init__(self) -> None:
        """Begin before the first turn."""
        self._at_ms = 0
        self._model: str | None = None
        self._turn: str | None = None
        self._next_turn: str | None = None
        self._has_turn_id = False  #: Codex gave the turn one; else it is counted
        self._turns = 0
        self._items = 0
        self._times: Counter[tuple[str, str, str]] = Counter()
        self._total = Tokens()
        self._has_records = False
        self._facts: dict[str, str] = {}

    def take(self, kind: str, payload: dict[str, Any], timestamp: Any) -> Iterator[Step]:
        """Yield what a line tells."""
        self._at_ms = time_ms(timestamp, self._at_ms)
        if kind == "response_item":
            yield from self._item(payload)
        elif kind == "event_msg":
            yield from self._event(payload)
        elif kind == "turn_context":
            self._model = payload.get("model") or self._model
            self._begin(payload.get("turn_id"))
        elif kind == "token_usage_record":
            yield from self._record(payload)
        elif kind == "compacted":
            text = payload.get("message")
            yield Said([self._key()], self._at_ms, "system", text if isinstance(text, str) and text else "compacted")
        elif kind == "session_meta":
            git = payload.get("git")
            yield from self._note("version", payload.get("cli_version"))
            yield from self._note("branch", git.get("branch") if isinstance(git, dict) else None)

    def _note(self, name: str, value: Any) -> Iterator[Step]:
        if isinstance(value, str) and value and name not in self._facts:
            self._facts[name] = value
            yield Noted(name, value)

    def _begin(self, turn_id: Any) -> None:
        if isinstance(turn_id, str) and turn_id and turn_id != self._turn:
            self._next_turn = turn_id

    def _key(self) -> str:
        self._items += 1
        return f"{self._turn or 'start'}:{self._items}"

    def _is_second(self, way: str, role: str, text: str) -> bool:
        """Tell whether this is the other form of something that was said already in this turn."""
        other = "event" if way == "item" else "item"
        mark = text.strip()
        self._times[way, role, mark] += 1
        return self._times[way, role, mark] <= self._times[other, role, mark]

    def _ask(self, way: str, text: str) -> Iterator[Step]:
        if not text.strip() or text.lstrip().startswith(_OWN_WORDS):
            return
        if self._next_turn is None and self._is_second(way, "user", text):
            return
        if self._next_turn is None and self._has_turn_id:
            yield Said([self._key()], self._at_ms, "user", text)  # said while the turn was under way
            return
        self._turns += 1
        self._turn = self._next_turn or f"turn-{self._turns}"
        self._has_turn_id = self._next_turn is not None
        self._next_turn = None
        self._items = 0
        self._times.clear()
        self._times[way, "user", text.strip()] += 1
        yield Asked(f"{self._turn}:0", self._at_ms, text, turn=self._turn)

    def _item(self, payload: dict[str, Any]) -> Iterator[Step]:
        kind = payload.get("type")
        if kind == "message":
            text, role = text_of(payload.get("content")), payload.get("role")
            if role == "user":
                yield from self._ask("item", text)
            elif role == "assistant" and text and not self._is_second("item", "assistant", text):
                yield Said([self._key()], self._at_ms, "assistant", text, model=self._model)
        elif kind in _CALLS:
            call = {"id": _call_id(payload), "tool": str(payload.get("name") or kind), "args": _arguments(payload)}
            yield Said([self._key()], self._at_ms, "assistant", "", [call], model=self._model)
        elif kind in _OUTPUTS:
            text = _output(payload.get("output"))
            yield Said([self._key()], self._at_ms, "tool", text, results=[{"call_id": _call_id(payload)}])

    def _event(self, payload: dict[str, Any]) -> Iterator[Step]:
        kind = payload.get("type")
        if kind in ("task_started", "turn_started"):
            self._begin(payload.get("turn_id"))
        elif kind == "user_message":
            yield from self._ask("event", str(payload.get("message") or ""))
        elif kind == "agent_message":
            text = str(payload.get("message") or "")
            if text and not self._is_second("event", "assistant", text):
                yield Said([self._key()], self._at_ms, "assistant", text, model=self._model)
        elif kind == "token_count":
            yield from self._count(payload.get("info"))
        elif kind in ("task_complete", "turn_complete"):
            failed = payload.get("error")
            reason = failed.get("message") if isinstance(failed, dict) else failed
            yield Ended(self._at_ms, "error" if failed else "success", first_line(str(reason), 200) if failed else None)
        elif kind == "turn_aborted":
            yield Ended(self._at_ms, "canceled", str(payload.get("reason") or "interrupted"))
        elif kind == "error" and payload.get("message"):
            yield Ended(self._at_ms, "error", first_line(str(payload["message"]), 200))
        elif kind == "thread_name_updated":
            yield from self._note("title", payload.get("thread_name"))

    def _record(self, payload: dict[str, Any]) -> Iterator[Step]:
        if not self._has_records and self._turn:
            yield Used(f"{self._turn}:total", Tokens(), self._model)
        self._has_records = True
        key = payload.get("response_id") or f"{self._turn}:{self._at_ms}"
        yield Used(str(key), _tokens(payload.get("usage")), self._model)

    def _count(self, info: Any) -> Iterator[Step]:
        if self._has_records or not isinstance(info, dict):
            return
        total = _tokens(info.get("total_token_usage"))
        grown = Tokens(*(max(0, now - before) for now, before in zip(_each(total), _each(self._total), strict=True)))
        if total.total < self._total.total:  # it began to count anew
            grown = _tokens(info.get("last_token_usage"))
        self._total = total
        if grown.total:
            yield Used(f"{self._turn}:{total.total}", grown, self._model)


def _each(tokens: Tokens) -> tuple[int, ...]:
    return tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.reasoning


def _tokens(usage: Any) -> Tokens:
    """Return what a response consumed: its input has what was cached in it, its output the reasoning."""
    read, written = count(usage, "cached_input_tokens"), count(usage, "cache_write_input_tokens")
    return Tokens(
        max(0, count(usage, "input_tokens") - read - written),
        read,
        written,
        count(usage, "output_tokens"),
        count(usage, "reasoning_output_tokens"),
    )


def _call_id(payload: dict[str, Any]) -> str:
    return str(payload.get("call_id") or payload.get("id") or "")


def _arguments(payload: dict[str, Any]) -> Any:
    for name in ("arguments", "input", "action"):
        value = payload.get(name)
        if isinstance(value, dict):
            return value
        if isinstance(value, str) and value:
            try:
                found = msgspec.json.decode(value)
            except UNDECODABLE:
                found = None
            return found if isinstance(found, dict) else {name: value}
    return {}


def _output(value: Any) -> str:
    """Return what a tool answered; some versions wrap it in JSON."""
    if isinstance(value, dict):
        value = value.get("content") or value.get("output") or value.get("content_items")
    if isinstance(value, str) and value.startswith("{"):
        try:
            found = msgspec.json.decode(value)
        except UNDECODABLE:
            return value
        if isinstance(found, dict) and isinstance(found.get("output"), str):
            return str(found["output"])
    return text_of(value)
