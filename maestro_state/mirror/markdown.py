"""A session as a page to read: Markdown in which nothing that somebody stored can pass for the page's own words.

Fields are escaped, character by character that means something to any reader of Markdown; contents stand in fences
longer than any inside.
"""

from __future__ import annotations

import codecs
import re
from typing import Any, BinaryIO

from maestro_state.mirror.export import Clean, People, text_of, unchanged
from maestro_state.mirror.spool import Redaction, Spool
from maestro_state.models.context import ContextItem
from maestro_state.models.message import Event, Message
from maestro_state.models.run import RelevantOutput, Run, SentItem
from maestro_state.models.session import Session

#: Ending of a file → what a fence calls its language, where the two differ.
_LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "rs": "rust", "rb": "ruby", "md": "markdown"}
#: What steers a terminal or turns the direction of a text.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#&~$!@^]|:(?=//)|(?<=\bwww)\.)")


class MarkdownExport:
    """The session as a page to read."""

    def __init__(self, file: BinaryIO, people: People, clean: Clean = unchanged) -> None:
        self._file = file
        self._people = people
        self._clean = clean

    def _plain(self, text: str) -> str:
        return escaped(self._clean(text))

    def _mark(self, user: str | None) -> str:
        """Return what to say of somebody who is not the owner; the owner is named once, at the top."""
        return f"by {self._plain(user)}" if user and user != self._people.owner else ""

    def _line(self, text: str = "") -> None:
        self._file.write(text.encode("utf-8", "replace") + b"\n")

    def begin(self, session: Session, notes: list[str]) -> None:
        """Write the head of the page."""
        stats = session.stats
        self._line(f"# {self._plain(session.slug)}\n")
        for note in notes:
            self._line(f"> **Note:** {self._plain(note)}\n")
        rows = [
            ("session", self._code(session.id)),
            ("state", self._plain(session.state)),
            ("started", f"{self._plain(session.created_at)} by {self._plain(session.user_id) or 'unknown'}"),
            ("last activity", self._plain(session.last_activity)),
            ("tool", self._plain(session.tool_active or "none")),
            ("runs", f"{stats.runs_total} ({stats.runs_success} ok, {stats.runs_error} failed)"),
        ]
        optional = {"note": session.notes, "reason": session.abort_reason, "forked from": session.forked_from}
        rows += [(name, self._plain(value)) for name, value in optional.items() if value]
        self._line("| | |\n|---|---|")
        for name, value in rows:
            self._line(f"| {name} | {value} |")
        self._line()
        if session.context_summary:
            self._line("## Summary\n")
            self._block(session.context_summary, "")

    def _code(self, text: str) -> str:
        return code_span(self._clean(text))

    def section(self, name: str) -> None:
        """Open a part of the page."""
        title = {"context": "Context", "runs": "Runs", "messages": "Conversation", "events": "What happened"}[name]
        self._line(f"## {title}\n")

    def end_section(self) -> None:
        self._line()

    def _block(self, text: str, language: str) -> None:
        """Write a text as it is, in a fence that nothing inside can close."""
        body = _CONTROL.sub("\ufffd", self._clean(text))
        fence = _fence(max((len(run) for run in re.findall(r"`+", body)), default=0))
        self._line(f"{fence}{language}\n{body}{'' if body.endswith(chr(10)) else chr(10)}{fence}\n")

    def item(self, item: ContextItem, content: bytes) -> None:
        path = str(item.source.get("path_rel") or "")
        title = f"{self._plain(item.kind)} {self._code(path)}" if path else self._plain(item.kind)
        removed = " (removed)" if item.state == "removed" else ""
        who = self._mark(self._people.of(item.id))
        self._line(f"### {self._plain(item.id)}: {title}{removed}\n")
        facts = [f"added {who}"] if who else []
        facts += [f"labels {', '.join(map(self._plain, item.labels))}"] if item.labels else []
        facts += [f"note {self._plain(item.notes)}"] if item.notes else []
        if facts:
            self._line("; ".join(facts) + "\n")
        text = text_of(content)
        if text is None:
            self._line(f"*{len(content)} bytes that are not text, SHA-256 {self._code(item.snapshot.digest)}*\n")
        else:
            ending = path.rpartition(".")[2].lower() if "." in path else ""
            self._block(text, _LANGUAGES.get(ending, ending if ending.isalnum() and ending.isascii() else ""))

    def begin_run(self, run: Run, prompt: bytes, sent: list[SentItem]) -> None:
        """Write how a run was asked for."""
        self._line(f"### Run {self._plain(run.id)}: {self._plain(run.tool)}, {self._plain(run.status)}\n")
        who = self._mark(self._people.of(run.id))
        facts = [f"started {self._plain(run.started_at or run.created_at)} {who}".rstrip()]
        facts += [f"finished {self._plain(run.finished_at)}"] if run.finished_at else []
        facts += [f"exit code {run.exit_code}"] if run.exit_code is not None else []
        facts += [f"given {', '.join(self._plain(one.id) for one in sent)}"] if sent else []
        self._line("; ".join(facts) + "\n")
        if run.error:
            self._line(f"**Error:** {self._plain(run.error)}\n")
        if not run.removed_at:
            self._line("**Prompt**\n")
            self._block(prompt.decode("utf-8", "replace"), "")

    def output(self, spool: Spool, redaction: Redaction | None = None) -> None:
        """Write a run's output."""
        if not spool.size:
            return
        self._line("**Output**\n")
        if not spool.is_text:
            self._line(f"*{spool.size} bytes that are not text*\n")
            return
        fence, last = _fence(spool.longest_ticks), ""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line(fence)
        for piece in spool.pieces(redaction):
            text = _CONTROL.sub("\ufffd", decoder.decode(piece))
            self._file.write(text.encode())
            last = text or last
        self._line(f"{'' if last.endswith(chr(10)) else chr(10)}{fence}\n")

    def removed(self, removed_at: str) -> None:
        """Say that a run's output, or the run, is not there any more."""
        self._line(f"*Removed by cleanup on {self._plain(removed_at)}.*\n")

    def end_run(self, damage: list[str]) -> None:
        for reason in damage:
            self._line(f"> **Note:** {self._plain(reason)}\n")

    def message(self, message: Message) -> None:
        who = self._mark(message.user)
        self._line(f"**{self._plain(message.role)}** · {message.timestamp} {who}".rstrip() + "\n")
        if message.content:
            self._block(message.content, "")
        for call in message.tool_calls or []:
            tool = str(call.get("tool") or call.get("name") or "a tool")
            self._line(f"- calls {self._plain(tool)} ({self._code(str(call.get('id')))})")
        for result in message.tool_results or []:
            self._line(f"- result of {self._code(str(result.get('call_id')))}")
        self._line()

    def event(self, event: Event) -> None:
        if event.type in ("run.output", "message.added"):
            return
        facts = " ".join(f"{self._plain(name)}={self._plain(str(value))}" for name, value in event.data.items())
        self._line(f"- {event.ts} {self._plain(event.type)} {facts}".rstrip())

    def end(self, relevant: list[RelevantOutput], last: dict[str, Any] | None) -> None:
        """Write which outputs matter."""
        del last
        if relevant:
            self._line("## Relevant outputs\n")
            for one in relevant:
                self._line(f"- run {self._plain(one.run_id)}" + (f": {self._plain(one.note)}" if one.note else ""))


def _fence(longest: int) -> str:
    return "`" * max(3, longest + 1)


def escaped(text: str) -> str:
    """Return a text that stays on its line and in its cell, and is taken for nothing but text."""
    return _MARKUP.sub(r"\\\1", _CONTROL.sub("\ufffd", " ".join(text.split())))


def code_span(text: str) -> str:
    """Return a text as code, on one line and in one cell, with more backticks around than any row inside has."""
    flat = _CONTROL.sub("\ufffd", " ".join(text.split())).replace("|", "\u00a6")
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", flat)), default=0))
    return f"{ticks} {flat} {ticks}" if "`" in flat or not flat else f"{ticks}{flat}{ticks}"
