"""Qwen Code: `projects/<folder>/chats/<uuid>.jsonl`.

What its answers consumed is told with them; calls that it makes beside the conversation only in `ui_telemetry`, which
tells of all others again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

import msgspec

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

TOOL = "qwen"


class _Message(msgspec.Struct):
    parts: Any = None


class _Line(msgspec.Struct):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    timestamp: Any = None
    message: _Message | None = None
    usage: Any = msgspec.field(name="usageMetadata", default=None)
    system: Any = msgspec.field(name="systemPayload", default=None)
    result: Any = msgspec.field(name="toolCallResult", default=None)
    model: str | None = None
    cwd: str | None = None
    version: str | None = None
    branch: str | None = msgspec.field(name="gitBranch", default=None)


_line = msgspec.json.Decoder(_Line).decode


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    return [os.path.join(environment.get("QWEN_HOME") or os.path.join(home, ".qwen"), "projects")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the histories below a folder, or a file."""
    for found in files_below(path, lambda one: one.endswith(".jsonl") and "/chats/" in one):
        yield stamped(found)


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversation of a file."""
    path = found.path
    title = cwd = None
    is_any = False
    with open_history(path) as file:
        for number, (_, line) in enumerate(decoded(file, _line)):
            if isinstance(line, Broken):
                continue
            cwd = cwd or line.cwd
            if line.type in ("user", "assistant") and line.message:
                is_any = True
                title = title or (first_line(text_of(line.message.parts)) if line.type == "user" else None)
            if (title and cwd) or number >= HEAD_LINES:
                break
    if is_any:
        yield Conversation(
            tool=TOOL,
            external_id=os.path.basename(path).removesuffix(".jsonl"),
            path=path,
            title=title,
            cwd=cwd,
            updated_ms=found.updated_ms,
            stamp=found.stamp,
            read=lambda seen: _steps(path, seen),
        )


def _steps(path: str, seen: Container[str]) -> Iterator[Step]:
    del seen
    parser = Parser()
    with open_history(path) as file:
        for _, line in decoded(file, _line):
            yield from (line,) if isinstance(line, Broken) else parser.take(line)


def tail(seen: Container[str]) -> Tail[_Line]:
    """Return what reads a conversation that goes on."""
    del seen
    return Tail(_line, Parser().take)


class Parser:
    """Turns lines into steps."""

    def __init__(self) -> None:
        """Begin before the first line."""
        self._at_ms = 0
        #: What answers, and what telemetry, told of that the other has not.
        self._answers: Counter[Tokens] = Counter()
        self._told: Counter[Tokens] = Counter()
        self._facts: set[str] = set()

    def take(self, line: _Line) -> Iterator[Step]:
        """Yield what a line tells."""
        self._at_ms = time_ms(line.timestamp, self._at_ms)
        key = line.uuid or f"line@{self._at_ms}"
        parts = line.message.parts if line.message else None
        if line.type == "user" and parts:
            for name, value in (("version", line.version), ("branch", line.branch)):
                if value and name not in self._facts:
                    self._facts.add(name)
                    yield Noted(name, value)
            if text := text_of(parts):
                yield Asked(key, self._at_ms, text)
        elif line.type == "assistant" and line.message:
            if line.usage:
                yield from self._answer(key, _tokens(line.usage), line.model)
            text, calls = text_of(parts), _calls(parts)
            if text or calls:
                yield Said([key], self._at_ms, "assistant", text, calls or None, model=line.model)
                if text.startswith("[API Error:"):
                    yield Ended(self._at_ms, "error", first_line(text, 200))
                elif not calls:
                    yield Ended(self._at_ms, "success")
        elif line.type == "tool_result":
            yield from _results(key, self._at_ms, parts)
        elif line.type == "system":
            yield from self._system(key, line)

    def _answer(self, key: str, tokens: Tokens, model: str | None) -> Iterator[Step]:
        if self._told[tokens]:
            self._told[tokens] -= 1
            return
        self._answers[tokens] += 1
        yield Used(key, tokens, model)

    def _system(self, key: str, line: _Line) -> Iterator[Step]:
        payload = line.system if isinstance(line.system, dict) else {}
        if line.subtype == "ui_telemetry":
            event = payload.get("uiEvent")
            name = event.get("event.name") if isinstance(event, dict) else None
            if isinstance(event, dict) and isinstance(name, str) and name.endswith("api_response"):
                tokens = _counted(event)
                if self._answers[tokens]:
                    self._answers[tokens] -= 1
                elif tokens.total:
                    self._told[tokens] += 1
                    yield Used(str(event.get("response_id") or key), tokens, event.get("model"))
        elif line.subtype == "chat_compression":
            yield Said([key], self._at_ms, "system", "Conversation compacted")
        elif line.subtype == "custom_title" and isinstance(payload.get("customTitle"), str):
            yield Noted("title", payload["customTitle"])


def _parts(parts: Any, name: str) -> Iterator[dict[str, Any]]:
    for part in parts if isinstance(parts, list) else ():
        found = part.get(name) if isinstance(part, dict) else None
        if isinstance(found, dict):
            yield found


def _calls(parts: Any) -> list[dict[str, Any]]:
    return [
        {"id": str(call.get("id") or ""), "tool": str(call.get("name") or ""), "args": call.get("args") or {}}
        for call in _parts(parts, "functionCall")
    ]


def response_text(response: Any) -> tuple[str, bool]:
    """Return what a tool answered, and whether that is an error."""
    if not isinstance(response, dict):
        return text_of(response), False
    for name in ("output", "error", "result"):
        if name in response:
            value = response[name]
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            return text, name == "error"
    return msgspec.json.encode(response).decode(), False


def _results(key: str, at_ms: int, parts: Any) -> Iterator[Step]:
    for number, found in enumerate(_parts(parts, "functionResponse")):
        text, is_error = response_text(found.get("response"))
        link: dict[str, Any] = {"call_id": str(found.get("id") or "")} | ({"error": True} if is_error else {})
        yield Said([key if number == 0 else f"{key}:{number}"], at_ms, "tool", text, results=[link])


def _tokens(usage: Any) -> Tokens:
    sent, read = count(usage, "promptTokenCount"), count(usage, "cachedContentTokenCount")
    said, thought = count(usage, "candidatesTokenCount"), count(usage, "thoughtsTokenCount")
    total = count(usage, "totalTokenCount")
    return Tokens(max(0, sent - read), read, 0, max(total - sent, said) if total else said + thought, thought)


def _counted(event: dict[str, Any]) -> Tokens:
    sent, read = count(event, "input_token_count"), count(event, "cached_content_token_count")
    said, thought = count(event, "output_token_count"), count(event, "thoughts_token_count")
    total = count(event, "total_token_count")
    return Tokens(max(0, sent - read), read, 0, max(total - sent, said) if total else said, thought)
