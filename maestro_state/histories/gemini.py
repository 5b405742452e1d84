"""Gemini CLI: `tmp/<project>/chats/session-<time>-<id>.jsonl`, earlier `.json`; sub-agents in `chats/<id>/`.

The file is a log of changes: a message told again replaces itself, `$set.messages` replaces all, `$rewindTo` cuts off.
Here what was said once stays, with the time it was said at; of a message told again the last form counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt, MaestroError
from maestro_state.histories.lines import (
    count,
    decoded,
    files_below,
    first_line,
    json_in,
    open_history,
    readable,
    stamped,
    text_of,
    time_ms,
)
from maestro_state.histories.qwen import response_text
from maestro_state.histories.values import Asked, Broken, Conversation, Ended, Noted, Said, Stamped, Step, Tokens, Used
from maestro_state.models.undecodable import UNDECODABLE

TOOL = "gemini"

#: Largest history that is taken: it has to be read whole, since any line may change any other.
SIZE_MAX = 512 << 20
#: What it says itself in the user's name, before the first question.
_OWN_WORDS = ("<session_context>", "This is the Gemini CLI.", "This is Gemini CLI")
#: How it notes that somebody pressed a key to stop it.
_CANCELLED = ("Request cancelled", "User cancelled the request")

#: How names of histories end, and how much is read of the log of questions.
_SHORT_ID = re.compile(r"-([0-9a-f]{8})\.jsonl?$")
_LOG_MAX = 16 << 20


class _Logged(msgspec.Struct):
    session: str = msgspec.field(name="sessionId", default="")


_decode: Callable[[bytes], Any] = msgspec.json.Decoder(dict[str, Any]).decode


def roots(environment: Mapping[str, str], home: str) -> list[str]:
    """Return where it keeps its histories."""
    return [os.path.join(environment.get("GEMINI_CLI_HOME") or home, ".gemini", "tmp")]


def files(path: str) -> Iterator[Stamped]:
    """Yield the histories below a folder, or a file; those of sub-agents belong to their conversation's."""
    for found in files_below(path, _is_history):
        yield stamped(found)


def _is_history(path: str) -> bool:
    folder, name = os.path.split(path)
    return os.path.basename(folder) == "chats" and name.startswith("session-") and name.endswith((".jsonl", ".json"))


def conversations(found: Stamped) -> Iterator[Conversation]:
    """Yield the conversation of a file, with those of its sub-agents."""
    one = _found(found)
    if one is None:
        return
    below = os.path.join(os.path.dirname(found.path), one.external_id)
    # The id is only data: one that is a path leads nowhere.
    if os.path.basename(one.external_id) == one.external_id not in ("", ".", "..") and os.path.isdir(below):
        paths = files_below(below, lambda one: one.endswith(".jsonl"), 0)
        one.children, one.unreadable = readable(paths, lambda path: _found(stamped(path)))
    yield one


def _found(found: Stamped) -> Conversation | None:
    log = _Log(found.path)
    title = next((first_line(text) for text in map(_question, log.messages.values()) if text), None)
    if not any(row.get("type") in ("user", "gemini") for row in log.messages.values()):
        return None
    cwd = _cwd(found.path)
    name = os.path.splitext(os.path.basename(found.path))[0]
    return Conversation(
        tool=TOOL,
        external_id=str(log.header.get("sessionId") or _id_in_log(found.path) or name),
        path=found.path,
        title=title,
        cwd=cwd,
        project=str(log.header["projectHash"]) if log.header.get("projectHash") else None,
        updated_ms=found.updated_ms,
        stamp=found.stamp,
        read=log.steps,
    )


def _cwd(path: str) -> str | None:
    """Return the folder that a project's own folder is of, where it says so."""
    folder = path.partition("/chats/")[0]
    try:
        with open_history(os.path.join(folder, ".project_root")) as file:
            return file.read(4096).decode(errors="replace").strip() or None
    except MaestroError:
        return None


def _id_in_log(path: str) -> str | None:
    """Return the id of a conversation whose history has no head: another gemini that starts takes histories away in
    which nothing was said yet, and the first question begins the file anew. The log of questions names it.
    """
    folder, _, name = path.partition("/chats/")
    short = _SHORT_ID.search(name)
    if short is None:
        return None
    try:
        with open_history(os.path.join(folder, "logs.json")) as file:
            rows = msgspec.json.decode(file.read(_LOG_MAX), type=list[_Logged])
    except (MaestroError, OSError, *UNDECODABLE):
        return None
    return next((row.session for row in reversed(rows) if row.session.startswith(f"{short[1]}-")), None)


def _question(row: dict[str, Any]) -> str | None:
    text = text_of(row.get("content")) if row.get("type") == "user" else ""
    return text if text.strip() and not text.lstrip().startswith(_OWN_WORDS) else None


class _Log:
    """A history, folded: every message there ever was, in the order in which they were first told."""

    def __init__(self, path: str) -> None:
        self.header: dict[str, Any] = {}
        self.messages: dict[str, dict[str, Any]] = {}
        self._broken: list[Broken] = []
        with open_history(path) as file:
            if os.fstat(file.fileno()).st_size > SIZE_MAX:
                raise FileCorrupt(f"{path} is larger than any history")
            if path.endswith(".json"):
                self._document(file.read(), path)
                return
            for _, line in decoded(file, _decode):
                if isinstance(line, Broken):
                    self._broken.append(line)
                else:
                    self._line(line)

    def _document(self, content: bytes, path: str) -> None:
        try:
            document = json_in(_decode, content)
        except UNDECODABLE as error:
            raise FileCorrupt(f"{path} is not JSON, or being written") from error
        self._all(document.pop("messages", None))
        self._head(document)

    def _line(self, line: dict[str, Any]) -> None:
        if isinstance(line.get("$set"), dict):
            self._all(line["$set"].pop("messages", None))
            self._head(line["$set"])
        elif isinstance(line.get("id"), str):
            self._tell(line["id"], line)
        elif "sessionId" in line:
            self._head(line)

    def _head(self, told: dict[str, Any]) -> None:
        """Note what is told of the conversation; a start that goes on with it begins with a time of its own."""
        began = self.header.get("startTime")
        self.header |= told
        if began is not None:
            self.header["startTime"] = began

    def _tell(self, key: str, row: dict[str, Any]) -> None:
        """Note a message. Going on with a conversation tells all of it again, with the time of that, and without what
        was consumed: what is told then is added to what is known.
        """
        if (known := self.messages.get(key)) is not None:
            at = {"timestamp": known["timestamp"]} if "timestamp" in known else {}
            row = {**known, **{name: value for name, value in row.items() if value is not None}, **at}
        self.messages[key] = row

    def _all(self, rows: Any) -> None:
        for number, row in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(row, dict) and row.get("id"):
                self._tell(str(row["id"]), row)
            elif isinstance(row, dict):
                self.messages[str(number)] = row

    def steps(self, seen: Container[str]) -> Iterator[Step]:
        yield from self._broken
        if isinstance(self.header.get("summary"), str):
            yield Noted("title", self.header["summary"])
        at_ms = time_ms(self.header.get("startTime"), 0)
        for key, row in self.messages.items():
            at_ms = time_ms(row.get("timestamp"), at_ms)
            kind = row.get("type")
            if kind == "user":
                if text := _question(row):
                    yield Asked(key, at_ms, text)
            elif kind == "gemini":
                yield from _answer(key, at_ms, row, seen)
            elif kind == "info" and text_of(row.get("content")).startswith(_CANCELLED):
                yield Ended(at_ms, "canceled", "interrupted")
            elif kind == "error":
                yield Ended(at_ms, "error", first_line(text_of(row.get("content")), 200))


def _answer(key: str, at_ms: int, row: dict[str, Any], seen: Container[str]) -> Iterator[Step]:
    model = row.get("model") if isinstance(row.get("model"), str) else None
    found = row.get("toolCalls")
    calls = [one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict)]
    if row.get("tokens"):
        yield Used(key, _tokens(row["tokens"]), model)
    # Told again with more calls than before: what is new of it is said now.
    fresh = [one for one in calls if f"{key}#{one.get('id')}" not in seen]
    text = text_of(row.get("content")) if key not in seen else ""
    asked = [{"id": str(one.get("id") or ""), "tool": str(one.get("name") or ""), "args": one.get("args") or {}}
             for one in fresh]  # fmt: skip
    if text or asked or not calls:
        keys = [key, *(f"{key}#{one.get('id')}" for one in fresh)]
        yield Said(keys, at_ms, "assistant", text, asked or None, model=model)
    for one in calls:
        if one.get("result") is not None or one.get("resultDisplay"):
            done, is_error = _result(one)
            link: dict[str, Any] = {"call_id": str(one.get("id") or "")} | ({"error": True} if is_error else {})
            yield Said([f"{key}={one.get('id')}"], time_ms(one.get("timestamp"), at_ms), "tool", done, results=[link])
    if not calls and text_of(row.get("content")):
        yield Ended(at_ms, "success")


def _result(call: dict[str, Any]) -> tuple[str, bool]:
    parts = call.get("result")
    texts = []
    for part in parts if isinstance(parts, list) else ():
        response = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(response, dict):
            texts.append(response_text(response.get("response"))[0])
    text = "\n".join(texts) or text_of(parts) or text_of(call.get("resultDisplay"))
    return text, call.get("status") in ("error", "cancelled")


def _tokens(usage: Any) -> Tokens:
    read, thought = count(usage, "cached"), count(usage, "thoughts")
    sent = count(usage, "input") + count(usage, "tool")
    return Tokens(max(0, sent - read), read, 0, count(usage, "output") + thought, thought)
