"""The lines of Claude Code's histories, and what each tells of the conversation."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from maestro_state.histories.lines import count, first_line, text_of, time_ms
from maestro_state.histories.values import Asked, Ended, Noted, Said, Step, Tokens, Used
from maestro_state.models.undecodable import UNDECODABLE

#: How Claude Code notes that somebody pressed a key to stop it, and what was typed to itself, not to the model.
INTERRUPTED = "[Request interrupted"
_COMMAND = re.compile(r"<command-(name|message)>")
_COMMAND_PART = re.compile(r"<command-(name|args)>(.*?)</command-\1>", re.DOTALL)
ASIDE = ("<local-command-", "<bash-stdout>", "<bash-stderr>")
#: What Claude Code adds for the model, which nobody typed.
_REMINDER = "<system-reminder>"
SYNTHETIC = "<synthetic>"
#: Why an answer ended that is the last one of its turn.
_STOPS = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal"})
#: Lines that are held at most until the one they follow is there: those of a first turn come in any order.
_HELD_MAX = 64


class _Message(msgspec.Struct):
    content: Any = ""
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    stopped: str | None = msgspec.field(name="stop_reason", default=None)


class Line(msgspec.Struct):
    """One line, as far as it is of interest here."""

    type: str = ""
    uuid: str | None = None
    parent: str | None = msgspec.field(name="parentUuid", default=None)
    timestamp: Any = None
    message: _Message | None = None
    sidechain: bool | None = msgspec.field(name="isSidechain", default=None)
    meta: bool | None = msgspec.field(name="isMeta", default=None)
    compacted: bool | None = msgspec.field(name="isCompactSummary", default=None)
    failed: bool | None = msgspec.field(name="isApiErrorMessage", default=None)
    result: msgspec.Raw = msgspec.field(name="toolUseResult", default=msgspec.Raw())
    attachment: msgspec.Raw = msgspec.Raw()
    cwd: str | None = None
    version: str | None = None
    branch: str | None = msgspec.field(name="gitBranch", default=None)
    session: str | None = msgspec.field(name="sessionId", default=None)
    subtype: str | None = None
    content: Any = None
    title: str | None = msgspec.field(name="aiTitle", default=None)
    own_title: str | None = msgspec.field(name="customTitle", default=None)
    summary: str | None = None
    cost: float | None = msgspec.field(name="costUSD", default=None)


class _Delegated(msgspec.Struct):
    agent: str | None = msgspec.field(name="agentId", default=None)
    content: Any = None


class _Queued(msgspec.Struct):
    type: str = ""
    prompt: Any = None


read_line = msgspec.json.Decoder(Line).decode
_delegated = msgspec.json.Decoder(_Delegated).decode
_queued = msgspec.json.Decoder(_Queued).decode


class Parser:
    """Turns lines into steps. Lines of one answer that follow each other are one thing said."""

    def __init__(self, seen: Container[str] = ()) -> None:
        """Take the keys that are known: their lines are passed over, as far as what was said goes."""
        self._seen = seen
        self._at_ms = 0
        self._answer: Said | None = None
        self._answer_id: str | None = None
        self._has_ended, self._ended_ms = False, 0
        self._command: Asked | None = None
        self._facts: dict[str, str] = {}
        self._known: set[str] = set()
        self._held: list[Line] = []

    def take(self, line: Line) -> Iterator[Step]:
        """Yield what a line tells, and those that were held for it."""
        if line.uuid is None:
            yield from self._told(line)
        elif line.parent is None or line.parent in self._known:
            yield from self._in_order(line, line.uuid)
        else:
            self._held.append(line)
            if len(self._held) > _HELD_MAX:
                yield from self._release()

    def _in_order(self, line: Line, uuid: str) -> Iterator[Step]:
        self._known.add(uuid)
        yield from self._told(line)
        for one in [one for one in self._held if one.parent == uuid]:
            self._held.remove(one)
            yield from self._in_order(one, one.uuid or "")

    def _release(self) -> Iterator[Step]:
        """Yield what lines tell whose beginning is not in this history."""
        held, self._held = sorted(self._held, key=lambda one: time_ms(one.timestamp, 0)), []
        self._known.update(one.uuid for one in held if one.uuid)
        for one in held:
            yield from self._told(one)

    def _told(self, line: Line) -> Iterator[Step]:
        self._at_ms = time_ms(line.timestamp, self._at_ms)
        if line.type == "assistant" and line.message:
            yield from self._assistant(line, line.message)
            return
        if line.type == "user" and line.message:
            yield from self._flush()
            yield from self._user(line, line.message)
        elif line.type == "attachment":
            yield from self._attachment(line)
        elif line.type == "system" and line.subtype == "compact_boundary" and line.uuid:
            yield from self._flush()
            yield Said([line.uuid], self._at_ms, "system", text_of(line.content) or "Conversation compacted")
        elif title := (line.own_title or line.title or (line.summary if line.type == "summary" else None)):
            yield from self._note("title", title)

    def rest(self) -> Iterator[Step]:
        """Yield what was held to see what follows."""
        yield from self._release()
        yield from self._flush()
        yield from self._typed_aside()

    def _note(self, name: str, value: str | None) -> Iterator[Step]:
        if value and self._facts.get(name) != value:
            self._facts[name] = value
            yield Noted(name, value)

    def _flush(self) -> Iterator[Step]:
        if self._answer is not None:
            yield self._answer
        if self._has_ended:
            yield Ended(self._ended_ms, "success")
        self._answer = self._answer_id = None
        self._has_ended = False

    def _typed_aside(self) -> Iterator[Step]:
        """Yield what was typed to the tool itself, which nobody answered."""
        if self._command:
            yield Said([self._command.key], self._command.at_ms, "user", self._command.text)
            self._command = None

    def _user(self, line: Line, message: _Message) -> Iterator[Step]:
        yield from self._note("version", line.version)
        yield from self._note("branch", line.branch)
        key = line.uuid or f"line@{self._at_ms}"
        results = results_in(message.content)
        if results:
            yield from self._result_steps(key, line, results)
            yield from self._said_beside(f"{key}:text", line, text_of(message.content))
            return
        text = text_of(message.content)
        if line.meta or not text.strip():
            return
        yield from self._typed_aside()
        if line.compacted:
            yield Said([key], self._at_ms, "system", text)
        elif text.startswith(INTERRUPTED):
            yield Ended(self._at_ms, "canceled", "interrupted")
        elif text.startswith(ASIDE):
            yield Said([key], self._at_ms, "system", text)
        elif _COMMAND.match(text):
            self._command = Asked(key, self._at_ms, typed(text))
        else:
            yield Asked(key, self._at_ms, text)

    def _result_steps(self, key: str, line: Line, results: list[dict[str, Any]]) -> Iterator[Step]:
        for number, result in enumerate(results):
            one = key if number == 0 else f"{key}:{number}"
            if one in self._seen:
                continue
            link: dict[str, Any] = {"call_id": str(result.get("tool_use_id") or "")}
            if result.get("is_error"):
                link["error"] = True
            text = text_of(result.get("content"))
            if (told := _told_by_agent(line.result)) is not None:
                text, link["agent"] = told
            yield Said([one], self._at_ms, "tool", text, results=[link])

    def _said_beside(self, key: str, line: Line, text: str) -> Iterator[Step]:
        """Yield what somebody typed while a tool was called: it comes in one line with the result."""
        if line.meta or not text.strip() or text.startswith(_REMINDER):
            return
        if text.startswith(INTERRUPTED):
            yield Ended(self._at_ms, "canceled", "interrupted")
        else:
            yield Said([key], self._at_ms, "user", text)

    def _attachment(self, line: Line) -> Iterator[Step]:
        if line.uuid and b'"queued_command"' in bytes(line.attachment):
            try:
                queued = _queued(line.attachment)
            except UNDECODABLE:
                return  # of another form than those that are known
            if queued.type == "queued_command" and (text := text_of(queued.prompt)):
                yield from self._flush()
                yield Said([line.uuid], self._at_ms, "user", text)

    def _assistant(self, line: Line, message: _Message) -> Iterator[Step]:
        if self._command:
            yield self._command
            self._command = None
        model = message.model if message.model != SYNTHETIC else None
        answer_id = message.id or line.uuid or ""
        if message.usage and model:
            yield Used(answer_id, _tokens(message.usage), model, line.cost)
        if self._answer_id != answer_id:
            yield from self._flush()
        key = line.uuid or answer_id
        if key not in self._seen:
            self._add(key, answer_id, message, model)
        self._has_ended, self._ended_ms = message.stopped in _STOPS and not line.failed, self._at_ms
        if line.failed:
            text = text_of(message.content)
            yield from self._flush()
            yield Ended(self._at_ms, "error", first_line(text, 200))

    def _add(self, key: str, answer_id: str, message: _Message, model: str | None) -> None:
        text, calls = text_of(message.content), _calls(message.content)
        before = self._answer
        if before is None:
            self._answer_id = answer_id
            self._answer = Said([key], self._at_ms, "assistant", text, calls or None, model=model)
            return
        joined = "\n\n".join(part for part in (before.text, text) if part)
        self._answer = Said(
            [*before.keys, key], before.at_ms, "assistant", joined, [*(before.calls or []), *calls] or None, model=model
        )


def results_in(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        return []
    return [part for part in content if isinstance(part, dict) and part.get("type") == "tool_result"]


def _calls(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        return []
    return [
        {"id": str(part.get("id") or ""), "tool": str(part.get("name") or ""), "args": part.get("input") or {}}
        for part in content
        if isinstance(part, dict) and part.get("type") in ("tool_use", "server_tool_use")
    ]


def _told_by_agent(result: msgspec.Raw) -> tuple[str, str] | None:
    """Return what a sub-agent answered and who it is; what the tool adds for the model is left out."""
    if b'"agentId"' not in bytes(result):
        return None
    try:
        told = _delegated(result)
    except UNDECODABLE:
        return None
    return (text_of(told.content), told.agent) if told.agent and told.content else None


def is_command(content: Any) -> bool:
    """Tell whether something was typed to the tool itself."""
    return bool(_COMMAND.match(text_of(content)))


def typed(text: str) -> str:
    """Return a command as it was typed."""
    if not _COMMAND.match(text):
        return text
    parts = dict(_COMMAND_PART.findall(text))
    return f"{parts.get('name', '')} {parts.get('args', '')}".strip() or text


def _tokens(usage: dict[str, Any]) -> Tokens:
    return Tokens(
        count(usage, "input_tokens"),
        count(usage, "cache_read_input_tokens"),
        count(usage, "cache_creation_input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "output_tokens_details", "thinking_tokens"),
    )
