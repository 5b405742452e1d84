"""Which conversations belong to one start of a tool: told by the tool's own traces, never guessed where two run.

Claude Code says which session each of its processes is in; Codex has its history open; opencode's log has a number for
each process; llm makes a conversation's id when it starts. Gemini and Qwen are given an id; further conversations of
theirs are taken only if no other one of them has worked in the same folder meanwhile.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from maestro_state.errors import FileCorrupt, PathNotFound
from maestro_state.fs.opening import open_regular
from maestro_state.histories.lines import stamped
from maestro_state.histories.readers import Reader, reader_of
from maestro_state.histories.values import Conversation, Stamped
from maestro_state.local import process_tree as processes
from maestro_state.models.undecodable import UNDECODABLE

#: Where the history of a conversation is below a tool's place, by its id.
_PLACES = {
    "claude": "*/{id}.jsonl",
    "codex": "*/*/*/rollout-*-{id}.jsonl",
    "gemini": "*/chats/session-*-{short}.jsonl",
    "qwen": "*/chats/{id}.jsonl",
}
#: What ids of conversations look like: whatever else calls itself one is not searched for.
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ROLLOUT = re.compile(r"rollout-.*-([0-9a-f-]{36})\.jsonl$")
_LOGGED = re.compile(rb"\brun=(\w+) .*?(?:session\.id|message=created id)=(ses_\w+)")
#: The alphabet of ids that begin with a time, and how many characters of one that is.
_BASE32, _TIME_CHARS = "0123456789abcdefghjkmnpqrstvwxyz", 10
#: Longest time llm takes to start, in milliseconds; and how long before ours another may have been started that makes
#: its conversation after it.
_STARTING_MS, _LOADING_MS = 60_000, 15_000
#: Most of a log that is read at a time.
_LOG_MAX = 4 << 20


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a tool in somebody's terminal."""

    tool: str
    pid: int
    started_ms: int
    folder: str
    conversation: str | None = None  #: the id it was given, or the one it goes on with
    mark: str | None = None  #: a path that only this start has heard of


class OwnedConversations:
    """Finds the conversations of one start as they begin."""

    def __init__(self, start: Start, environment: Mapping[str, str], home: str) -> None:
        """Take the start, and where the tool keeps things."""
        self._start, self._environment, self._home = start, environment, home
        self._reader: Reader = reader_of(start.tool)
        self._roots = self._reader.roots(environment, home)
        self._ids: set[str] = {start.conversation} if start.conversation else set()
        self._stamps: dict[str, list[int]] = {}
        self._is_told = False  #: the tool says itself which conversations are its own: never guess again
        self._was_alone = True  #: when it was last looked
        self._doubtful: set[str] = set()  #: conversations that somebody else may have begun
        self._made: dict[int, str] = {}  #: llm's conversations since the start, by when they were made
        self._others: set[int] = set()  #: when other llm were started that were seen to write there

    def find(self, known: set[str]) -> list[Conversation]:
        """Return the conversations of this start that are not known yet."""
        traces = getattr(self, f"_by_{self._start.tool}", None)
        # A tool that has ended says nothing any more, and what others said meanwhile is still not its own.
        self._is_told |= traces is not None and traces()
        found = by_ids(self._reader, self._roots, self._ids - known)
        if not self._is_told and self._start.tool != "llm" and not self._tells_later():
            found += self._new(known | {one.external_id for one in found})
        self._ids |= {one.external_id for one in found}
        return found

    def in_doubt(self) -> set[str]:
        """Return the conversations that were begun meanwhile, by this start or by another: nothing tells."""
        if self._start.tool == "llm":
            return set() if self._ids else set(self._made.values())
        return set() if self._is_told else self._doubtful - self._ids

    def _by_claude(self) -> bool:
        """Read which sessions its processes are in."""
        base = self._environment.get("CLAUDE_CONFIG_DIR") or os.path.join(self._home, ".claude")
        told = {one for pid in processes.tree_of(self._start.pid) if (one := _session_of(base, pid))}
        self._ids |= told
        return bool(told)

    def _tells_later(self) -> bool:
        """Tell whether the tool still runs, and has its history open as soon as there is one."""
        return self._start.tool == "codex" and processes.start_of(self._start.pid) is not None

    def _by_codex(self) -> bool:
        """Read which histories it has open. One that answers a single question may be gone before it was looked."""
        names = (_ROLLOUT.search(path) for path in processes.open_files(processes.tree_of(self._start.pid)))
        self._ids |= {name[1] for name in names if name}
        if not self._ids:
            self._was_alone &= self._is_alone()
        return bool(self._ids)

    def _by_opencode(self) -> bool:
        """Read which sessions its log names beside the number of this process."""
        if self._start.mark is None:
            return False
        for root in self._roots:
            log = _read_end(os.path.join(root, "log", "opencode.log"))
            mark = re.search(rb"\brun=(\w+) [^\n]*" + re.escape(os.fsencode(self._start.mark)), log)
            if mark:
                self._ids |= {id_.decode() for run, id_ in _LOGGED.findall(log) if run == mark[1]}
                return True
        return False

    def _by_llm(self) -> bool:
        """Take the first conversation made since the start, unless another llm that writes there began about then."""
        if self._ids:
            return True
        for one in self._changed():
            at_ms = _time_in(one.external_id)
            if at_ms is not None and 0 <= at_ms - self._start.started_ms <= _STARTING_MS:
                self._made[at_ms] = one.external_id
        own = processes.tree_of(self._start.pid)
        others = [pid for pid in processes.running("llm") if pid not in own and self._writes_here(pid)]
        self._others |= {
            processes.started_ms(pid) or 0 for pid in others
        }  # also of those that leave before it is asked
        if self._made:
            at_ms = min(self._made)
            if not any(self._start.started_ms - _LOADING_MS < other <= at_ms for other in self._others):
                self._ids.add(self._made[at_ms])
        return True

    def _writes_here(self, pid: int) -> bool:
        return any(os.path.dirname(path) in self._roots for path in processes.open_files([pid]))

    def _new(self, known: set[str]) -> list[Conversation]:
        """Return what was begun in this folder since the start, if nobody else can have begun it: who was there a
        moment ago may have, and what is in doubt once stays so when they have left.
        """
        found = [
            one
            for one in self._changed()
            if one.external_id not in known | self._doubtful
            and one.cwd
            and os.path.realpath(one.cwd) == self._start.folder
        ]
        was_alone, self._was_alone = self._was_alone, self._is_alone()
        if was_alone and self._was_alone:
            return found
        self._doubtful |= {one.external_id for one in found}
        return []

    def _is_alone(self) -> bool:
        own = processes.tree_of(self._start.pid)
        others = (pid for pid in processes.running(self._start.tool) if pid not in own)
        return not any(processes.folder_of(pid) == self._start.folder for pid in others)

    def _changed(self) -> Iterator[Conversation]:
        """Yield the conversations of files that were made since the start and changed since they were read."""
        for one in self._files():
            if one.updated_ms < self._start.started_ms or self._stamps.get(one.path) == one.stamp:
                continue
            with suppress(FileCorrupt, PathNotFound):  # being made: it changes again
                yield from _new_in(self._reader, one, self._start.started_ms)
                self._stamps[one.path] = one.stamp

    def _files(self) -> Iterator[Stamped]:
        for root in self._roots:
            if os.path.exists(root):
                yield from self._reader.files(root)


def by_ids(reader: Reader, roots: list[str], ids: Iterable[str]) -> list[Conversation]:
    """Return conversations by their ids, where they are there; cheaply: an interactive tool is polled like this."""
    pattern = _PLACES.get(reader.TOOL)
    wanted = {one for one in ids if _ID.fullmatch(one)}
    if pattern is None and wanted:
        stored = [file for root in roots if os.path.exists(root) for file in reader.files(root)]
        return [one for file in stored for one in _in_file(reader, file) if one.external_id in wanted]
    found: list[Conversation] = []
    for external_id in wanted:
        name = (pattern or "").format(id=external_id, short=external_id[:8])
        for root in roots:
            for path in glob.glob(os.path.join(glob.escape(root), name)):
                found += [one for one in _in_file(reader, path) if one.external_id == external_id]
    return found


def _new_in(reader: Reader, found: Stamped, since_ms: int) -> Iterator[Conversation]:
    for one in reader.conversations(found):
        first = next((step for step in one.read(()) if hasattr(step, "at_ms")), None)
        if first is not None and first.at_ms >= since_ms:
            yield one


def _in_file(reader: Reader, file: Stamped | str) -> list[Conversation]:
    try:
        return list(reader.conversations(stamped(file) if isinstance(file, str) else file))
    except (OSError, FileCorrupt, PathNotFound):
        return []  # being made or replaced


def _session_of(base: str, pid: int) -> str | None:
    try:
        with os.fdopen(open_regular(os.path.join(base, "sessions", f"{pid}.json")), "rb") as file:
            told = msgspec.json.decode(file.read(65536))
    except (OSError, *UNDECODABLE):
        return None  # a version that does not say so, or being written
    found = told.get("sessionId") if isinstance(told, dict) else None
    return found if isinstance(found, str) else None


def _read_end(path: str) -> bytes:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_MAX))
            return file.read(_LOG_MAX)
    except OSError:
        return b""


def _time_in(external_id: str) -> int | None:
    """Return the time that an id begins with, in milliseconds."""
    number = 0
    for char in external_id.lower()[:_TIME_CHARS]:
        if char not in _BASE32:
            return None
        number = number * 32 + _BASE32.index(char)
    return number
