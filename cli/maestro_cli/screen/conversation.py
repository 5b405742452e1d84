"""Events of a session as a conversation: who asked what, what the tool does, its answer as text, how it ended.

Lines of a run begin with its number and a sign: `?` what was asked, `│` the answer, `·` what the tool does meanwhile,
`✓` or `✗` the end. However small the pieces an answer comes in, a line is shown when it is whole, or as soon as it
fills the screen's width.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from maestro_cli import output
from maestro_cli.screen import figures
from maestro_cli.screen.authors import author
from maestro_cli.screen.columns import rows_of

if TYPE_CHECKING:
    from maestro_state.models.message import Event
    from maestro_state.models.run import Run

#: Colours of runs, in turn.
_COLOURS = ("cyan", "yellow", "green", "blue")
#: Lines of a question or a message that are shown; the whole is a command away.
_MOST_LINES = 12
#: Narrowest room for text: below that the terminal breaks lines.
_LEAST_COLUMNS = 20

#: What an activity's kind says before its name: the quiet one nothing.
_KINDS = {"tool_call": "", "denied": "not allowed: "}

#: Longest call of a tool that is shown, in characters.
_CALL_MAX = 200

#: Events that tell people nothing more than others do: the answer of a run is shown as it comes.
_SILENT = ("run.claimed", "terminal.attached", "terminal.detached", "session.kept")


class Runs(Protocol):
    """Where runs are looked up."""

    def read(self, run_id: str) -> Run | None: ...

    def prompt(self, run: Run) -> bytes: ...


class Conversation:
    """What has been shown of each run so far, and what waits for the end of its line."""

    def __init__(self, runs: Runs, owner: str) -> None:
        """Take what looks runs up, and whose session it is: events name only others."""
        self._runs = runs
        self._owner = owner
        self._answers: dict[str, _Answer] = {}
        self._denied: dict[str, int] = {}
        self._joined: set[str] = set()

    def join(self, run: Run) -> Iterator[str]:
        """Yield who asked what in a run that was open before anybody watched."""
        self._joined.add(run.id)
        clock = output.colour(output.local_time(run.created_at, "%H:%M:%S"), dim=True)
        yield from self._question(clock, run.id, run, run.tool, run.user or self._owner)

    def take(self, event: Event) -> Iterator[str]:
        """Yield the lines an event brings."""
        data = event.data
        run_id = str(data.get("run", ""))
        match event.type:
            case "run.started":
                yield from self._asked(event, run_id)
            case "run.output":
                yield from self._answer(run_id).take(event.output())
            case "run.activity":
                yield from self._activity(run_id, data)
            case "run.requeued":
                self._answers.pop(run_id, None)
                yield _line(run_id, "!", "its worker was lost; it starts over")
            case "run.cancel_requested":
                yield from self._pause(run_id)
                yield _line(run_id, "!", f"{self._who(data)} cancels it")
            case "run.finished":
                yield from self._ended(run_id, data)
            case "message.added":
                yield from _message(event)
            case _:
                if event.type not in _SILENT:
                    yield f"{_clock(event)} {_gist(event, self._who(data))}"

    def rest(self) -> Iterator[str]:
        """Yield what still waits for the end of its line, when nothing more is shown."""
        for run_id in list(self._answers):
            yield from self._pause(run_id)

    def _who(self, data: dict[str, Any]) -> str:
        return str(data.get("user") or self._owner)

    def _answer(self, run_id: str) -> _Answer:
        return self._answers.setdefault(run_id, _Answer(run_id))

    def _pause(self, run_id: str) -> Iterator[str]:
        if run_id in self._answers:
            yield from self._answers[run_id].end()

    def _asked(self, event: Event, run_id: str) -> Iterator[str]:
        if run_id in self._joined:  # its beginning came as an event after all
            return
        tool = str(event.data.get("tool", ""))
        yield from self._question(_clock(event), run_id, self._runs.read(run_id), tool, self._who(event.data))

    def _question(self, clock: str, run_id: str, run: Run | None, tool: str, asker: str) -> Iterator[str]:
        who = (figures.asker(run) if run else "") or asker
        on = f", going on from {run.continues}" if run and run.continues else ""
        yield f"{clock} {output.colour(who, bold=True)} asks {output.colour(tool, bold=True)}{on}"
        if run:
            text = self._runs.prompt(run).decode(errors="replace")
            yield from _rows(run_id, "?", text, f"maestro show {run_id} --prompt", bold=True)

    def _activity(self, run_id: str, data: dict[str, Any]) -> Iterator[str]:
        yield from self._pause(run_id)
        kind, name, summary = (str(data.get(field) or "") for field in ("kind", "name", "summary"))
        if kind == "denied":
            self._denied[run_id] = self._denied.get(run_id, 0) + 1
        match kind:  # the names of these two are the tool's own words for them
            case "retry":
                words = f"tries again: {summary or name}"
            case "file_change":
                words = f"changed {summary or name}"
            case _:
                words = _KINDS.get(kind, f"{kind}: ") + ": ".join(part for part in (name, summary) if part)
        prefix = _prefix(run_id, "·")
        yield prefix + output.colour(_one_line(words, prefix), dim=True)

    def _ended(self, run_id: str, data: dict[str, Any]) -> Iterator[str]:
        yield from self._pause(run_id)
        self._answers.pop(run_id, None)
        run = self._runs.read(run_id)
        status = str(data.get("status", ""))
        denied = self._denied.pop(run_id, 0)
        words = figures.ending(run) if run else status
        if denied:
            words += f" · {denied} not allowed"
        colour = output.STATE_COLOURS.get(status)
        yield _prefix(run_id, "✓" if status == "success" else "✗") + output.colour(words, colour)
        if error := data.get("error"):
            yield from _rows(run_id, " ", str(error), f"maestro show {run_id} --meta")


class _Answer:
    """The answer of one run, put together from its pieces."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._blank = 0  # lines of nothing are shown when something follows

    def take(self, piece: bytes) -> Iterator[str]:
        """Yield the lines that are whole now."""
        *whole, self._open = (self._open + self._decoder.decode(piece)).split("\n")
        for line in whole:
            yield from self._show(line.rstrip("\r"))
        if output.is_terminal() and self._open:  # a paragraph without an end is read as it comes
            *full, self._open = rows_of(self._open, _room(self._run_id))
            for row in full:
                yield from self._show(row)

    def end(self) -> Iterator[str]:
        """Yield the line that is not whole."""
        line, self._open = self._open, ""
        yield from self._show(line)
        self._blank = 0

    def _show(self, line: str) -> Iterator[str]:
        if not line.strip():
            self._blank += 1
            return
        yield from (_line(self._run_id, "│", "") for _ in range(min(self._blank, 1)))
        self._blank = 0
        for row in rows_of(output.safe(line), _room(self._run_id)) if output.is_terminal() else [line]:
            yield _line(self._run_id, "│", row)


def _prefix(run_id: str, sign: str) -> str:
    number = int(run_id) if run_id.isdecimal() else 0
    return output.colour(f"{run_id} {sign}", _COLOURS[number % len(_COLOURS)]) + " "


def _line(run_id: str, sign: str, text: str) -> str:
    return (_prefix(run_id, sign) + output.safe(text)).rstrip()


def _room(run_id: str) -> int:
    return max(_LEAST_COLUMNS, output.screen_columns() - len(run_id) - 3)


def _rows(run_id: str, sign: str, text: str, more: str, *, bold: bool = False) -> Iterator[str]:
    """Yield the beginning of a text, line by line, and where the rest is."""
    lines = [line.rstrip() for line in output.safe(text.strip("\n")).split("\n")]
    if output.is_terminal():
        lines = [row for line in lines for row in rows_of(line, _room(run_id))]
    for line in lines[:_MOST_LINES]:
        yield (_prefix(run_id, sign) + output.colour(line, bold=bold)).rstrip()
    if len(lines) > _MOST_LINES:
        yield _prefix(run_id, sign) + output.colour(f"… {len(lines) - _MOST_LINES} more lines: {more}", dim=True)


def _one_line(text: str, prefix: str) -> str:
    text = " ".join(output.safe(text).split())
    return output.clip(text, output.screen_columns() - output.width_of(prefix)) if output.is_terminal() else text


def _clock(event: Event) -> str:
    return output.colour(output.local_time(event.ts, "%H:%M:%S"), dim=True)


def _message(event: Event) -> Iterator[str]:
    """Yield a message, unless it is the question or the answer of a run, which is shown as the run does it."""
    data = event.data
    if "run" in data or "run" in (data.get("metadata") or {}):
        return
    role = str(data.get("role", ""))
    who = author(data.get("user"), data.get("metadata"), role)
    head = f"{_clock(event)} {output.colour(role, bold=True)}{who}"
    lines = output.safe(str(data.get("content", "")).strip("\n")).split("\n")
    calls = [f"→ {_one_line(_call(one), '  → ')}" for one in data.get("tool_calls") or [] if isinstance(one, dict)]
    if lines == [""]:
        if calls:
            yield f"{head} {calls[0]}"
            yield from (f"  {call}" for call in calls[1:])
        elif "adk" not in (data.get("metadata") or {}):  # an event that only changes the state: it is told as such
            yield f"{head}:"
        return
    if len(lines) == 1:
        yield f"{head}: {lines[0]}"
        yield from (f"  {call}" for call in calls)
        return
    yield head
    yield from (f"  {line}".rstrip() for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield output.colour(f"  … {len(lines) - _MOST_LINES} more lines: maestro messages", dim=True)
    yield from (f"  {call}" for call in calls)


def _call(call: dict[str, Any]) -> str:
    """Say a call of a tool: its name, and what it was asked as far as a line goes."""
    import msgspec

    asked = call.get("arguments")
    text = asked if isinstance(asked, str) else "" if asked is None else msgspec.json.encode(asked).decode()
    return f"{call.get('tool') or call.get('name') or 'tool'} {text}".rstrip()[:_CALL_MAX]


def _gist(event: Event, who: str) -> str:
    """Say an event that is neither a message nor of a run in one sentence."""
    data = event.data
    match event.type:
        case "session.started":
            told = f"{who} started {data.get('name', '')}"
        case "session.updated":
            told = f"{who} set {data.get('field', '')} (revision {data.get('revision', '')})"
        case "context.added":
            instead = f" instead of {data['replaces']}" if "replaces" in data else ""
            of_run = "of run " if data.get("kind") == "output" and data.get("source") else ""
            added = f"{data.get('item', '')} {data.get('kind', '')} {of_run}{data.get('source', '')}".rstrip()
            told = f"{who} added {added}{instead}"
        case "context.removed":
            told = f"{who} took {data.get('item', '')} out of the context"
        case "tool.selected":
            told = f"{who} chose {data.get('tool', '')}: runs of this session use it from now on"
        case "run.previewed":
            told = f"{who} previewed what {data.get('tool', '')} would be sent (dry run {data.get('run', '')})"
        case "message.retracted":
            told = "messages were taken back"
        case "checkpoint.added":
            inside = f" in {data['namespace']}" if data.get("namespace") else ""
            told = f"checkpoint of step {data.get('step', '')} ({data.get('source', '')}){inside}"
        case "state.changed":
            told = f"the state changed: {data.get('keys', '')}"
        case "session.finalized":
            told = f"{who} ended the session" if "user" in data else "the session ended"
        case "session.aborted":
            told = f"{who} gave the session up: {data.get('reason', '')}"
        case _:
            rest = " ".join(f"{name}={value}" for name, value in data.items() if name != "user")
            told = f"{event.type} {rest}".rstrip() + (f" ({who})" if "user" in data else "")
    return " ".join(output.safe(told).split())
