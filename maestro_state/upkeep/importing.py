"""Importing histories: which files, whose conversations, what came of each. One that fails stops no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import fsum
from threading import Lock, get_ident

import msgspec

from maestro_state.errors import MaestroError, PathNotFound
from maestro_state.fs.grouping import SyncGroup
from maestro_state.fs.handles import sharing
from maestro_state.histories.facts import Facts, Written
from maestro_state.histories.lines import damage_in
from maestro_state.histories.naming import Names
from maestro_state.histories.readers import Reader
from maestro_state.histories.seen import Seen, SeenConversation, SeenFile
from maestro_state.histories.values import Broken, Conversation, Stamped, Tokens
from maestro_state.histories.writing import write
from maestro_state.local.project import IndexRow
from maestro_state.mirror.places import Places
from maestro_state.models.imports import Imported, ImportedTokens, ImportFailure, ImportReport
from maestro_state.upkeep.unlocked import once_unlocked

#: Sessions after which the index and the cache are written.
_BATCH = 100

#: Files that are taken at the same time: writing mostly waits for the disk, and one sync serves all that wait.
_THREADS = 8

#: Told bytes done and bytes in all, for people who wait.
Progress = Callable[[int, int], None]


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
    ) -> None:
        """Take where archives go, what reads the histories, what no history tells of a session, and the limits."""
        self._reader, self._facts = reader, facts
        self._any, self._since_ms, self._dry = any_project, since_ms, dry_run
        self._home, self._project = places.own, places.project
        self._names = Names(self._home)
        self._seen = Seen(self._project)
        self._naming, self._has_index = Lock(), False

    def do(self, paths: list[str], roots: list[str], progress: Progress | None = None) -> ImportReport:
        """Import what is at some paths; where none are given, what is at the tool's own. Files are taken several at a
        time: while one waits for the disk, the others are read.
        """
        total = _Taken()
        found = list(self._files(paths, roots, total))
        size, done = sum(one.size for one, _ in found), 0
        group = SyncGroup()
        executor = ThreadPoolExecutor(_THREADS, "import", lambda: sharing.setdefault(get_ident(), group))
        try:
            for (one, _), taken in zip(found, executor.map(self._take, found), strict=True):
                total.add(taken)
                done += one.size
                if progress:
                    progress(done, size)
                if len(total.index) >= _BATCH:
                    self._save(total)
        finally:
            executor.shutdown(cancel_futures=True)
            for thread in [one for one, its in sharing.items() if its is group]:
                del sharing[thread]
            self._save(total)
        return ImportReport(
            imported=total.rows, errors=total.errors, left_out=total.left_out, dry_run=self._dry
        )  # fmt: skip

    def _files(self, paths: list[str], roots: list[str], total: _Taken) -> Iterator[tuple[Stamped, bool]]:
        """Yield the files, and whether somebody named each; a place that no tool has used yet has none."""
        places = [(os.path.abspath(path), True) for path in paths]
        places = places or [(path, False) for path in roots]
        for path, is_given in places:
            if not os.path.exists(path):
                if is_given:
                    raise PathNotFound(f"{path} is not there", hint="give a history's file, or a folder with some")
                continue
            is_named = is_given and not os.path.isdir(path)
            found = self._reader.files(path)
            while True:
                try:
                    one = next(found, None)
                except OSError as error:  # gone or closed to us since its folder was read: the others are read
                    total.fail(error.filename or path, os.strerror(error.errno or 0))
                    break
                if one is None:
                    break
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
        try:
            is_any = False
            for conversation in self._reader.conversations(one):
                is_any = True
                if self._since_ms is None or conversation.updated_ms >= self._since_ms:
                    row = self._row(conversation, taken, is_named=is_named)
                    seen.append(SeenConversation(conversation.external_id, row))
            if not is_any and one.path.endswith(".jsonl"):
                taken.broken(one.path, damage_in(one.path))
        except (MaestroError, OSError) as error:
            taken.fail(one.path, str(error) if isinstance(error, MaestroError) else os.strerror(error.errno or 0))
            return taken
        if self._since_ms is None and not self._dry:
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
        session_id = self._name(conversation)
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
            if not self._dry and not self._has_index:
                # Before there are archives: an index that is missing beside some is taken for a damage.
                self._has_index = True
                if not self._project.index():
                    self._project.index_rebuild(self._project.read_rows())
            return self._names.of(conversation)[0]

    def _is_own(self, conversation: Conversation) -> bool:
        roots = {self._project.path, self._project.checkout}
        return any(conversation.is_of(root) for root in roots)

    def _written(self, session_id: str, conversation: Conversation, taken: _Taken, facts: Facts) -> Written:
        done = once_unlocked(lambda: write(self._home, session_id, conversation, facts, dry_run=self._dry))
        taken.broken(conversation.path, done.broken)
        if done.broken_count > len(done.broken):
            taken.fail(conversation.path, f"{done.broken_count - len(done.broken)} more lines cannot be read")
        if done.session and not self._dry:
            taken.index.append(IndexRow.of(done.session))
        return done

    def _save(self, total: _Taken) -> None:
        if self._dry:
            return
        if total.index:
            self._project.index_add(total.index)
        for path, seen in total.seen:
            self._seen.put(self._reader.TOOL, path, seen)
        total.index, total.seen = [], []
        self._seen.save()


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

    def fail(self, path: str, reason: str) -> None:
        self.errors.append(ImportFailure(path, reason))

    def broken(self, path: str, lines: list[Broken]) -> None:
        self.errors += [ImportFailure(path, f"line {one.line}: {one.reason}") for one in lines]

    def repeat(self, known: SeenFile) -> None:
        """Tell again of a file that did not change."""
        for one in known.conversations:
            if one.row is None:
                self.left_out += 1
            else:
                self.rows.append(msgspec.structs.replace(msgspec.convert(one.row, Imported), status="unchanged"))
        self.errors += [ImportFailure(path, reason) for path, reason in known.errors]
