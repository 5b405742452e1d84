"""Claude Code: `projects/<folder>/<uuid>.jsonl`, sub-agents in `<uuid>/subagents/agent-<id>.jsonl` beside it.

Every line of an answer repeats the whole usage: it is counted by the answer's id. Earlier versions have sub-agents'
lines among the others (`isSidechain`): each chain of them is a conversation of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import msgspec

from maestro_state.errors import MaestroError
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
from maestro_state.histories.values import (
    Asked,
    Broken,
    Conversation,
    Ended,
    Noted,
    Said,
    Stamped,
    Step,
    Tokens,
    Used,
)

TOOL = "claude"

#: How Claude Code notes that somebody pressed a key to stop it, and what was typed to itself, not to the model.
_INTERRUPTED = "[Request interrupted"
_COMMAND = re.compile(r"<command-(name|message)>")
_COMMAND_PART = re.compile(r"<command-(name|args)>(.*?)</command-\1>", re.DOTALL)
_ASIDE = ("<local-command-", "<bash-stdout>", "<bash-stderr>")
_SYNTHETIC = "<synthetic>"
_SIDECHAIN = (b'"isSidechain":true', b'"isSidechain": true')


class _Message(msgspec.Struct):
    content: Any = ""
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


class _Line(msgspec.Struct):
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


class _Meta(msgspec.Struct):
    call: str | None = msgspec.field(name="toolUseId", default=None)
    about: str | None = msgspec.field(name="description", default=None)


class _Queued(msgspec.Struct):
    type: str = ""
    prompt: Any = None


_line = msgspec.json.Decoder(_Line).decode
_delegated = msgspec.json.Decoder(_Delegated).decode
_queued = msgspec.json.Decoder(_Queued).decode
_meta = msgspec.json.Decoder(_Meta).decode


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    base = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    return [os.path.join(base, "projects")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the histories below a folder, or a file; those of sub-agents belong to their conversation's."""
    for found in files_below(path, lambda one: one.endswith(".jsonl")):
        if os.path.isdir(path) and os.path.basename(os.path.dirname(found)) == "subagents":
            continue
        yield stamped(found, *_agents_of(found))


def _agents_of(path: str) -> list[str]:
    folder = os.path.join(path.removesuffix(".jsonl"), "subagents")
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in names if name.startswith("agent-") and name.endswith(".jsonl")]


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversation of a file, with those of its sub-agents."""
    path = found.path
    one = _found(path, found, os.path.basename(path).removesuffix(".jsonl"), lambda line: not line.sidechain)
    if one is None:
        return
    one.children = [child for agent in _agents_of(path) if (child := _agent(agent))]
    one.children += _inline(path, found)
    yield one


def _found(path: str, stamp: Stamped, external_id: str, is_own: Callable[[_Line], bool]) -> Conversation | None:
    """Read the head of a file; None when nobody says anything in it."""
    title = cwd = None
    is_any = False
    with open_history(path) as file:
        for number, (_, line) in enumerate(decoded(file, _line)):
            if isinstance(line, Broken) or not is_own(line):
                continue
            cwd = cwd or line.cwd
            if line.type in ("user", "assistant") and line.message:
                is_any = True
                if title is None and line.type == "user" and not line.meta and not line.compacted:
                    title = _spoken_title(line.message.content)
            if (title and cwd) or (number >= HEAD_LINES and is_any):
                break
    if not is_any:
        return None
    return Conversation(
        tool=TOOL,
        external_id=external_id,
        path=path,
        title=title,
        cwd=cwd,
        updated_ms=stamp.updated_ms,
        stamp=stamp.stamp,
        read=lambda seen: _steps(path, is_own, seen),
    )


def _spoken_title(content: Any) -> str | None:
    if _results(content):
        return None
    text = text_of(content)
    if text.startswith((*_ASIDE, _INTERRUPTED)):
        return None
    return first_line(_typed(text))


def _agent(path: str) -> Conversation | None:
    name = os.path.basename(path).removesuffix(".jsonl").removeprefix("agent-")
    one = _found(path, stamped(path), name, lambda _: True)
    if one is not None:
        try:
            with open_history(path.removesuffix(".jsonl") + ".meta.json") as file:
                meta = _meta(file.read(1 << 20))
        except (MaestroError, msgspec.MsgspecError, UnicodeDecodeError):
            return one  # it only tells what the conversation is about
        one.call_id, one.title = meta.call, meta.about or one.title
    return one


def _inline(path: str, stamp: Stamped) -> list[Conversation]:
    """Return the chains of sub-agents' lines in a conversation's own file; most have none."""
    with open_history(path) as file:
        rest = b""
        while piece := file.read(1 << 20):
            if any(mark in rest + piece for mark in _SIDECHAIN):
                break
            rest = piece[-32:]
        else:
            return []
        file.seek(0)
        chains: dict[str, str] = {}
        for _, line in decoded(file, _line):
            if not isinstance(line, Broken) and line.sidechain and line.uuid:
                chains[line.uuid] = chains.get(line.parent or "", line.uuid)
    children = []
    for first in dict.fromkeys(chains.values()):
        own = frozenset(uuid for uuid, chain in chains.items() if chain == first)
        child = _found(path, stamp, first, lambda line, own=own: line.uuid in own)  # type: ignore[misc]
        children += [child] if child else []
    return children


def _steps(path: str, is_own: Callable[[_Line], bool], seen: Container[str]) -> Iterator[Step]:
    parser = Parser(seen)
    with open_history(path) as file:
        for _, line in decoded(file, _line):
            if isinstance(line, Broken):
                yield line
            elif is_own(line):
                yield from parser.take(line)
    yield from parser.rest()


def tail(seen: Container[str]) -> Tail[_Line]:
    """Return what reads a conversation that goes on; sub-agents' lines are not its own."""
    parser = Parser(seen)
    return Tail(_line, lambda line: iter(()) if line.sidechain else parser.take(line), parser.rest)


class Parser:
    """Turns lines into steps. Lines of one answer that follow each other are one thing said."""

    def __init__(self, seen: Container[str] = ()) -> None:
        """Take the keys that are known: their lines are passed over, as far as what was said goes."""
        self._seen = seen
        self._at_ms = 0
        self._answer: Said | None = None
        self._answer_id: str | None = None
        self._command: Asked | None = None
        self._facts: dict[str, str] = {}

    def take(self, line: _Line) -> Iterator[Step]:
        """Yield what a line tells."""
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
        yield from self._flush()
        yield from self._typed_aside()

    def _note(self, name: str, value: str | None) -> Iterator[Step]:
        if value and self._facts.get(name) != value:
            self._facts[name] = value
            yield Noted(name, value)

    def _flush(self) -> Iterator[Step]:
        if self._answer is not None:
            yield self._answer
        self._answer = self._answer_id = None

    def _typed_aside(self) -> Iterator[Step]:
        """Yield what was typed to the tool itself, which nobody answered."""
        if self._command:
            yield Said([self._command.key], self._command.at_ms, "user", self._command.text)
            self._command = None

    def _user(self, line: _Line, message: _Message) -> Iterator[Step]:
        yield from self._note("version", line.version)
        yield from self._note("branch", line.branch)
        key = line.uuid or f"line@{self._at_ms}"
        results = _results(message.content)
        if results:
            yield from self._result_steps(key, line, results)
            return
        text = text_of(message.content)
        if line.meta or not text.strip():
            return
        yield from self._typed_aside()
        if line.compacted:
            yield Said([key], self._at_ms, "system", text)
        elif text.startswith(_INTERRUPTED):
            yield Ended(self._at_ms, "canceled", "interrupted")
        elif text.startswith(_ASIDE):
            yield Said([key], self._at_ms, "system", text)
        elif _COMMAND.match(text):
            self._command = Asked(key, self._at_ms, _typed(text))
        else:
            yield Asked(key, self._at_ms, text)

    def _result_steps(self, key: str, line: _Line, results: list[dict[str, Any]]) -> Iterator[Step]:
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

    def _attachment(self, line: _Line) -> Iterator[Step]:
        if line.uuid and b'"queued_command"' in bytes(line.attachment):
            queued = _queued(line.attachment)
            if queued.type == "queued_command" and (text := text_of(queued.prompt)):
                yield from self._flush()
                yield Said([line.uuid], self._at_ms, "user", text)

    def _assistant(self, line: _Line, message: _Message) -> Iterator[Step]:
        if self._command:
            yield self._command
            self._command = None
        model = message.model if message.model != _SYNTHETIC else None
        answer_id = message.id or line.uuid or ""
        if message.usage and model:
            yield Used(answer_id, _tokens(message.usage), model, line.cost)
        if self._answer_id != answer_id:
            yield from self._flush()
        key = line.uuid or answer_id
        if key not in self._seen:
            self._add(key, answer_id, message, model)
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


def _results(content: Any) -> list[dict[str, Any]]:
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
    except msgspec.MsgspecError:
        return None
    return (text_of(told.content), told.agent) if told.agent and told.content else None


def _typed(text: str) -> str:
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
