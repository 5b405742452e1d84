"""Importing histories: which files, whose conversations, what came of each. One that fails stops no other."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import fsum
from threading import Lock, get_ident
from typing import TypeVar

import msgspec

from maestro_state.errors import MaestroError, PathNotFound
from maestro_state.fs.grouping import SyncGroup
from maestro_state.fs.handles import sharing
from maestro_state.histories.archiving import write
from maestro_state.histories.deduplication import Followed
from maestro_state.histories.facts import Facts, Written
from maestro_state.histories.import_cache import ImportCache, SeenConversation, SeenFile
from maestro_state.histories.lines import damage_in
from maestro_state.histories.naming import Names
from maestro_state.histories.readers import Reader
from maestro_state.histories.values import Broken, Conversation, Stamped, Tokens
from maestro_state.local.project import IndexRow
from maestro_state.mirror.places import Places
from maestro_state.models.imports import Imported, ImportedTokens, ImportFailure, ImportReport
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.upkeep.process_pool import cores, in_processes, shared_out

#: Sessions after which the index and the cache are written.
_BATCH = 100

#: Files that are taken at the same time: writing mostly waits for the disk, and one sync serves all that wait.
_THREADS = 4

#: Bytes from which on an import is worth several processes.
_LARGE = 24 << 20

#: What ids of conversations look like at the end of files' names; and characters of one, where there is only that.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_SHORT_ID = 8

_T = TypeVar("_T")

#: Told bytes done and bytes in all, for people who wait.
Progress = Callable[[int, int], None]


def _conversation_in(path: str) -> str:
    """Return what histories of one conversation have in common, which lie at two places or have a file a start: one
    process names it. Names of files end with its id, or with how that begins.
    """
    name = os.path.basename(path).partition(".")[0]
    found = _ID.search(name)
    return found[0] if found else name[-_SHORT_ID:]


class _NotHereError(Exception):
    """A file is not for a child to take."""


class Import:
    """One import under way: over files, then conversations, each by itself."""

    def __init__(
        self,
        places: Places,
        reader: Reader,
        facts: Facts,
        *,
        any_project: bool = False,
        since_ms: int | None = None,
        dry_run: bool = False,
        followed: Callable[[Conversation], Followed | None] = lambda _: None,
        is_followed: Callable[[Conversation], bool] = lambda _: False,
    ) -> None:
        """Take where archives go, what reads the histories, what no history tells of a session, and the limits;
        `followed` tells what of a conversation a session has already, `is_followed` whether there may be such a part.
        """
        self._reader, self._facts, self._followed, self._is_followed = reader, facts, followed, is_followed
        self._any, self._since_ms, self._dry = any_project, since_ms, dry_run
        self._home, self._project = places.own, places.project
        self._names = Names(self._home)
        self._seen = ImportCache(self._project)
        self._naming, self._has_index = Lock(), False

    def do(self, paths: list[str], roots: list[str], progress: Progress | None = None) -> ImportReport:
        """Import what is at some paths; where none are given, what is at the tool's own."""
        total = _Taken()
        found = list(self._files(paths, roots))
        size, done = sum(one.size for one, _ in found), 0
        waiting: dict[int, _Taken] = {}
        following = 0
        try:
            for number, taken in self._all(found):
                waiting[number] = taken
                done += found[number][0].size
                if progress:
                    progress(done, size)
                while following in waiting:  # told in the order of the files
                    total.add(waiting.pop(following))
                    following += 1
                if len(total.index) >= _BATCH:
                    self._save(total)
        finally:
            for taken in waiting.values():
                total.add(taken)
            self._save(total)
        return ImportReport(
            imported=_once(total.rows), errors=total.errors, left_out=total.left_out, dry_run=self._dry
        )  # fmt: skip

    def _all(self, found: list[tuple[Stamped, bool]]) -> Iterator[tuple[int, _Taken]]:
        """Yield what came of each file. Many megabytes are taken by several processes, the rest is by this one."""
        left = dict.fromkeys(range(len(found)))
        tool = self._reader.TOOL
        new = {
            number: one.size for number, (one, _) in enumerate(found) if not self._seen.get(tool, one.path, one.stamp)
        }
        if sum(new.values()) >= _LARGE and len(new) > 1 and (count := cores()) > 1:
            if not self._dry:
                self._make_index()
            shares = shared_out(new, lambda number: _conversation_in(found[number][0].path), count)
            for number, taken in in_processes(shares, lambda share: self._in_child(found, share)):
                if taken is not None:
                    del left[number]
                    yield number, taken
        yield from self._in_threads(found, list(left), self._take)

    def _in_child(self, found: list[tuple[Stamped, bool]], share: list[int]) -> Iterator[tuple[int, _Taken | None]]:
        """Yield what came of a share; nothing of a file whose conversation was followed: what sessions have of it is
        asked of the server, over a connection that is the parent's.
        """
        asked = self._followed

        def followed(one: Conversation) -> Followed | None:
            if self._is_followed(one):
                raise _NotHereError
            return asked(one)

        def take(one: tuple[Stamped, bool]) -> _Taken | None:
            try:
                return self._take(one)
            except _NotHereError:
                return None

        self._followed = followed
        yield from self._in_threads(found, share, take)

    def _in_threads(
        self, found: list[tuple[Stamped, bool]], numbers: list[int], take: Callable[[tuple[Stamped, bool]], _T]
    ) -> Iterator[tuple[int, _T]]:
        """Yield what came of some files, several at a time: while one waits for the disk, the others are read."""
        group = SyncGroup()
        executor = ThreadPoolExecutor(_THREADS, "import", lambda: sharing.setdefault(get_ident(), group))
        try:
            yield from zip(numbers, executor.map(take, [found[number] for number in numbers]), strict=True)
        finally:
            executor.shutdown(cancel_futures=True)
            for thread in [one for one, its in sharing.items() if its is group]:
                del sharing[thread]

    def _files(self, paths: list[str], roots: list[str]) -> Iterator[tuple[Stamped, bool]]:
        """Yield the files, and whether somebody named each; a place that no tool has used yet has none."""
        places = [(os.path.abspath(path), True) for path in paths]
        places = places or [(path, False) for path in roots]
        for path, is_given in places:
            if not os.path.exists(path):
                if is_given:
                    raise PathNotFound(f"{path} is not there", hint="give a history's file, or a folder with some")
                continue
            is_named = is_given and not os.path.isdir(path)
            for one in self._reader.files(path):
                if self._since_ms is None or one.updated_ms >= self._since_ms:
                    yield one, is_named

    def _take(self, found: tuple[Stamped, bool]) -> _Taken:
        """Import a file; what is wrong with it is noted, and stops no other."""
        one, is_named = found
        taken = _Taken()
        known = self._seen.get(self._reader.TOOL, one.path, one.stamp)
        if known and self._is_settled(known, is_named=is_named):
            taken.repeat(known)
            return taken
        seen: list[SeenConversation] = []
        is_any, is_whole = False, True
        try:
            for conversation in self._reader.conversations(one):
                is_any = True
                if self._since_ms is not None and conversation.updated_ms < self._since_ms:
                    continue
                try:
                    row = self._row(conversation, taken, is_named=is_named)
                except (MaestroError, OSError) as error:  # a database has others
                    taken.fail(conversation.path, error)
                    is_whole = False
                else:
                    seen.append(SeenConversation(conversation.external_id, row))
            if not is_any and one.path.endswith(".jsonl"):
                taken.broken(one.path, *damage_in(one.path))
        except (MaestroError, OSError) as error:
            taken.fail(one.path, error)
            return taken
        if is_whole and self._since_ms is None and not self._dry:
            errors = [(error.path, error.reason) for error in taken.errors]
            taken.seen = [(one.path, SeenFile(one.stamp, seen, errors))]
        return taken

    def _is_settled(self, known: SeenFile, *, is_named: bool) -> bool:
        """Tell whether there is nothing to do for a file that did not change: its sessions are all there."""
        if any(one.row is None for one in known.conversations) and (self._any or is_named):
            return False
        rows = [one.row for one in known.conversations if one.row is not None]
        ids = [one for row in rows for one in (row["session_id"], *row["children"])]
        return all(map(self._names.has, ids))

    def _row(self, conversation: Conversation, taken: _Taken, *, is_named: bool) -> dict[str, object] | None:
        """Import a conversation with those of its sub-agents; None when it is left out, or nobody says anything."""
        if not (self._any or is_named or self._is_own(conversation)):
            taken.left_out += 1
            return None
        facts = self._facts
        for path, error in conversation.unreadable:
            taken.fail(path, error)
        followed = self._followed(conversation)
        is_all_there = False
        if followed is not None:
            conversation, is_all_there = followed.rest_of(conversation)
        session_id = followed.session_id if followed and is_all_there else self._name(conversation)
        children = []
        for child in conversation.children:
            child_id = self._name(child)
            done = self._written(child_id, child, taken, msgspec.structs.replace(facts, parent=session_id))
            if done.messages:
                children.append((child, done))
        links = [
            {"session_id": done.session_id, "external_id": child.external_id}
            | ({"tool_call_id": child.call_id} if child.call_id else {})
            for child, done in children
        ]
        if followed is not None and is_all_there:
            done = followed.told()
        else:
            done = self._written(session_id, conversation, taken, msgspec.structs.replace(facts, children=links))
        if not done.messages:
            return None
        both = [done, *(one for _, one in children)]
        costs = [one.cost for one in both if one.cost is not None]
        changed = {one.status for one in both} - {"unchanged"}
        row = Imported(
            source=conversation.tool,
            external_id=conversation.external_id,
            session_id=session_id,
            status=done.status if done.status != "unchanged" or not changed else "updated",
            messages=done.messages,
            runs=done.runs,
            tokens=ImportedTokens(*msgspec.structs.astuple(sum((one.tokens for one in both), Tokens()))),
            cost=round(fsum(costs), 9) if costs else None,
            children=[one.session_id for _, one in children],
        )
        taken.rows.append(row)
        found: dict[str, object] = msgspec.to_builtins(row)
        return found

    def _name(self, conversation: Conversation) -> str:
        with self._naming:
            if not self._dry:
                self._make_index()
            return self._names.of(conversation)[0]

    def _make_index(self) -> None:
        """Have an index before there are archives: one that is missing beside some is taken for a damage."""
        if not self._has_index:
            self._has_index = True
            if not self._project.index():
                self._project.index_rebuild(self._project.read_rows())

    def _is_own(self, conversation: Conversation) -> bool:
        roots = {self._project.path, self._project.checkout}
        return any(conversation.is_of(root) for root in roots)

    def _written(self, session_id: str, conversation: Conversation, taken: _Taken, facts: Facts) -> Written:
        done = once_unlocked(lambda: write(self._home, session_id, conversation, facts, dry_run=self._dry))
        taken.broken(conversation.path, done.broken, done.broken_count)
        if done.session and not self._dry:
            taken.index.append(IndexRow.of(done.session))
        return done

    def _save(self, total: _Taken) -> None:
        if self._dry:
            return
        if total.index:
            self._home.sync()  # before the index and the cache say that they are there
            self._project.index_add(total.index)
        for path, seen in total.seen:
            self._seen.put(self._reader.TOOL, path, seen)
        total.index, total.seen = [], []
        self._seen.save()


#: Statuses by what they say: the first one that a file of a conversation has is its row's.
_BY_NEWS = ("new", "updated", "unchanged")


def _once(rows: list[Imported]) -> list[Imported]:
    """Return a row a conversation: of one that has several files, that of who wrote last, which has the most in it."""
    found: dict[tuple[str, str, str], Imported] = {}
    for row in rows:
        key = (row.source, row.external_id, row.session_id)
        before = found.get(key, row)
        whole = max(before, row, key=lambda one: (one.messages, one.runs, len(one.children)))
        status = min(before.status, row.status, key=_BY_NEWS.index)
        found[key] = msgspec.structs.replace(whole, status=status)
    return list(found.values())


class _Taken:
    """What came of one file, or of all."""

    def __init__(self) -> None:
        self.rows: list[Imported] = []
        self.errors: list[ImportFailure] = []
        self.index: list[IndexRow] = []
        self.seen: list[tuple[str, SeenFile]] = []
        self.left_out = 0

    def add(self, other: _Taken) -> None:
        self.rows += other.rows
        self.errors += other.errors
        self.index += other.index
        self.seen += other.seen
        self.left_out += other.left_out

    def fail(self, path: str, error: MaestroError | OSError) -> None:
        self.errors.append(ImportFailure.of(path, error))

    def broken(self, path: str, lines: list[Broken], count: int) -> None:
        self.errors += [ImportFailure(path, f"line {one.line}: {one.reason}") for one in lines]
        if count > len(lines):
            more = count - len(lines)
            self.errors.append(ImportFailure(path, f"{more} more {'line' if more == 1 else 'lines'} cannot be read"))

    def repeat(self, known: SeenFile) -> None:
        """Tell again of a file that did not change."""
        for one in known.conversations:
            if one.row is None:
                self.left_out += 1
            else:
                self.rows.append(msgspec.structs.replace(msgspec.convert(one.row, Imported), status="unchanged"))
        self.errors += [ImportFailure(path, reason) for path, reason in known.errors]
