"""Discussions on disk: `docs/maestro/sessions/discuss/<id>/meta.json` and `transcript.jsonl`.

A transcript is only ever appended to: one write of whole lines, synced, by whoever holds the file. A last line that a
killed writer left unfinished is cut off before the next is written; what cannot be had again from the server is kept
in an `error` event. `meta.json` is replaced whole, after the transcript: where they disagree, the transcript is right.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from maestro_state.errors import DiscussionNotFound, FileCorrupt, WorkFailed
from maestro_state.fs.handles import Folder
from maestro_state.fs.opening import append_whole
from maestro_state.mirror.layouts.plan import open_folder
from maestro_state.models import strict_json
from maestro_state.models.discussion import (
    ERROR,
    Discussion,
    Meta,
    Transcript,
    TranscriptEvent,
    line_of,
    meta_document,
    micros_of,
    read_event,
    read_meta,
    read_transcript,
    text_of,
)

HOME = ("docs", "maestro", "sessions", "discuss")
META, TRANSCRIPT = "meta.json", "transcript.jsonl"

#: Largest files that are read.
META_LIMIT = 64 * 1024 * 1024
TRANSCRIPT_LIMIT = 256 * 1024 * 1024

_LEFT_ASIDE = re.compile(r"\.meta\.json\.[0-9a-f]+\.tmp", re.ASCII)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def is_discussion_id(text: str) -> bool:
    """Tell whether the text may name a discussion: the only names that become folders or keys."""
    return _ID.fullmatch(text) is not None


class DiscussionFiles:
    """The discussions of one project."""

    def __init__(self, root: Path) -> None:
        """Take the project's root; nothing is written before something is said."""
        self.root = root

    def path(self, discussion_id: str) -> str:
        """Return where a discussion is, as text for people and documents."""
        return "/".join((*HOME, discussion_id))

    def _open(self, *names: str, create: bool = False) -> Folder:
        return open_folder(self.root, *HOME, *names, create=create)

    def ids(self) -> list[str]:
        """List the discussions there are, by name."""
        try:
            with self._open() as home:
                names = [name for name in home.names() if is_discussion_id(name)]
                return [name for name in names if os.path.isdir(os.path.join(home.path, name))]
        except FileNotFoundError:
            return []

    def has(self, discussion_id: str) -> bool:
        """Tell whether a discussion is here; without its record, which is written last, it is not yet."""
        try:
            with self._open(discussion_id) as folder:
                return META in folder.names()
        except FileNotFoundError:
            return False

    def metas(self) -> tuple[dict[str, Meta], dict[str, str]]:
        """Read every record: folder → record, and folder → why it cannot be read."""
        found: dict[str, Meta] = {}
        damaged: dict[str, str] = {}
        names = self.ids()
        if not names:
            return found, damaged
        with self._open() as home:
            for name in names:
                try:
                    with home.child(name) as folder:
                        found[name] = load_meta(folder)
                except FileNotFoundError:
                    continue  # removed while we looked
                except WorkFailed as error:
                    damaged[name] = str(error)
        return found, damaged

    def meta(self, discussion_id: str) -> Meta:
        """Read a discussion's record."""
        try:
            with self._open(discussion_id) as folder:
                return load_meta(folder)
        except FileNotFoundError:
            raise DiscussionNotFound(discussion_id) from None

    def load(self, discussion_id: str) -> Discussion:
        """Read a discussion; what cannot be read of its transcript is named, not raised."""
        try:
            with self._open(discussion_id) as folder:
                found = load(folder)
                if found.transcript.torn is not None:
                    # Perhaps not torn but being written: look again when its writer is done, if we may.
                    with suppress(WorkFailed), folder.appending(TRANSCRIPT):
                        found = load(folder)
                return found
        except FileNotFoundError:
            raise DiscussionNotFound(discussion_id) from None

    def last_micros(self, discussion_id: str) -> int | None:
        """Return the time of the last event on disk; None when there is none."""
        try:
            with self._open(discussion_id) as folder, folder.appending(TRANSCRIPT) as transcript:
                return _read_tail(transcript).micros
        except FileNotFoundError:
            return None

    def follow(self, meta: Meta, events: Sequence[TranscriptEvent]) -> None:
        """Bring a discussion's files up to what the server has; events that are there already are left out."""
        with self._open(meta.session_id, create=True) as folder, folder.appending(TRANSCRIPT) as transcript:
            tail = _read_tail(transcript)
            after = -1 if tail.micros is None else tail.micros
            missing = [event for event in events if micros_of(event.ts) > after]
            if missing:
                _append(transcript, tail, b"".join(line_of(event) for event in missing))
            # Two terminals may come in the other order than they asked the server: the newer record stays.
            if META not in folder.names() or load_meta(folder).updated_at <= meta.updated_at:
                _put_meta(folder, meta)

    def record(self, discussion_id: str, now_micros: int, events: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Append events that only the disk has, at this time or, if a later one is there, just after it."""
        with self._open(discussion_id) as folder, folder.appending(TRANSCRIPT) as transcript:
            tail = _read_tail(transcript)
            if tail.torn:
                torn = {"message": "an unfinished last line was removed", "details": tail.torn}
                events = [(ERROR, torn), *events]
            at = max(now_micros, 0 if tail.micros is None else tail.micros + 1)
            lines = [line_of(TranscriptEvent(text_of(at + n), *event)) for n, event in enumerate(events)]
            _append(transcript, tail, b"".join(lines))

    def close(self, discussion_id: str) -> None:
        """Note in the record that the transcript has its final_json."""
        with self._open(discussion_id) as folder, folder.appending(TRANSCRIPT):
            _put_meta(folder, msgspec.structs.replace(load_meta(folder), status="closed", final_json_present=True))

    def take_in(self, found: Discussion) -> bool:
        """Write a discussion read elsewhere; False when it is there already. Raise FileCorrupt for another one."""
        if found.transcript.damaged:
            raise FileCorrupt(f"{found.path} is damaged: {found.warnings()[0]}", hint="restore it from git")
        lines = b"".join(line_of(event) for event in found.transcript.events)
        with self._open(found.meta.session_id, create=True) as folder, folder.appending(TRANSCRIPT) as transcript:
            content = _read_from(transcript, 0)
            is_whole = META in folder.names()  # it is written last
            if is_whole and content.startswith(lines):
                return False
            if is_whole or not lines.startswith(content):
                raise FileCorrupt(
                    f"{self.path(found.meta.session_id)} holds another discussion", hint="rename one of the two"
                )
            append_whole(transcript, lines[len(content) :])
            _put_meta(folder, found.meta)
            return True


def load(folder: Folder) -> Discussion:
    content = folder.read(TRANSCRIPT, limit=TRANSCRIPT_LIMIT)
    transcript = Transcript() if content is None else read_transcript(content)
    return Discussion(meta=load_meta(folder), transcript=transcript, path=folder.path)


def load_meta(folder: Folder) -> Meta:
    """Read the record in a folder."""
    content = folder.read(META, limit=META_LIMIT)
    if content is None:
        raise FileCorrupt(f"{folder.path} has no {META}", hint="restore it from git")
    try:
        return read_meta(content)
    except ValueError as error:
        raise FileCorrupt(f"{folder.path}/{META} cannot be read: {error}", hint="restore it from git") from error


class _Tail:
    """The end of a transcript: where to write on, and after what time."""

    def __init__(self, content: bytes, start: int) -> None:
        """Look at the last lines of a file, which begin at `start` in it."""
        self.end = start + len(content)  #: what lies after it is torn
        self.torn = ""
        self.micros: int | None = None  #: time of the last event that can be read
        at, is_last = len(content), True
        while at > 0 and self.micros is None:
            begin = content.rfind(b"\n", 0, at - 1) + 1
            line = content[begin:at]
            if line.strip():
                self._take_line(line, start + begin, is_last=is_last)
                is_last = False
            at = begin

    def _take_line(self, line: bytes, begin: int, *, is_last: bool) -> None:
        try:
            self.micros = micros_of(read_event(line).ts)
        except ValueError:
            if is_last and not strict_json.is_whole(line):
                self.end, self.torn = begin, line.decode("utf-8", "backslashreplace")


def _read_tail(descriptor: int) -> _Tail:
    """Read only as much of the end of a transcript as it takes to know it."""
    size, span = os.fstat(descriptor).st_size, 1 << 16
    while span < size:
        content = _read_from(descriptor, size - span)
        whole = content.find(b"\n") + 1  # what comes before is the end of a line that begins earlier
        tail = _Tail(content[whole:], size - span + whole)
        if whole and tail.micros is not None:
            return tail
        span *= 8
    return _Tail(_read_from(descriptor, 0), 0)


def _read_from(descriptor: int, at: int) -> bytes:
    parts = []
    while part := os.pread(descriptor, 1 << 24, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _append(descriptor: int, tail: _Tail, lines: bytes) -> None:
    """Write whole lines after the last whole line."""
    if tail.end < os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, tail.end)
    if tail.end and os.pread(descriptor, 1, tail.end - 1) != b"\n":
        lines = b"\n" + lines  # a whole event without its line's end: another program's way of writing
    append_whole(descriptor, lines)


def _put_meta(folder: Folder, meta: Meta) -> None:
    """Replace the record if it is another one; whoever calls this holds the transcript."""
    content = strict_json.page(meta_document(meta))
    if folder.read(META, limit=META_LIMIT) == content:
        return
    for name in folder.names():
        if _LEFT_ASIDE.fullmatch(name):  # by somebody who was killed: nobody else writes now
            folder.remove(name)
    folder.replace(META, content, mode=0o666)
