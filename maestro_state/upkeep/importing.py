"""Importing histories: which files, whose conversations, what came of each. One that fails stops no other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import fsum

import msgspec

from maestro_state.errors import MaestroError, PathNotFound
from maestro_state.histories.facts import Facts, Written
from maestro_state.histories.lines import damage_in
from maestro_state.histories.naming import Names
from maestro_state.histories.readers import Reader
from maestro_state.histories.seen import Seen, SeenConversation, SeenFile
from maestro_state.histories.values import Conversation, Stamped, Tokens
from maestro_state.histories.writing import write
from maestro_state.local.project import IndexRow
from maestro_state.mirror.leaks import mark
from maestro_state.mirror.places import Places
from maestro_state.models.imports import Imported, ImportedTokens, ImportFailure, ImportReport
from maestro_state.upkeep.unlocked import once_unlocked

#: Sessions after which the index and the cache are written.
_BATCH = 100

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
        self._imported: list[Imported] = []
        self._errors: list[ImportFailure] = []
        self._index: list[IndexRow] = []
        self._left_out = 0

    def do(self, paths: list[str], roots: list[str], progress: Progress | None = None) -> ImportReport:
        """Import what is at some paths; where none are given, what is at the tool's own."""
        found = list(self._files(paths, roots))
        total, done = sum(one.size for one, _ in found), 0
        try:
            for one, is_named in found:
                self._take(one, is_named=is_named)
                done += one.size
                if progress:
                    progress(done, total)
                if len(self._index) >= _BATCH:
                    self._save()
        finally:
            self._save()
        return ImportReport(imported=self._imported, errors=self._errors, left_out=self._left_out, dry_run=self._dry)

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
            found = self._reader.files(path)
            while True:
                try:
                    one = next(found, None)
                except OSError as error:  # gone or closed to us since its folder was read: the others are read
                    self._fail(error.filename or path, os.strerror(error.errno or 0))
                    break
                if one is None:
                    break
                if self._since_ms is None or one.updated_ms >= self._since_ms:
                    yield one, is_named

    def _fail(self, path: str, reason: str) -> None:
        self._errors.append(ImportFailure(path, reason))

    def _take(self, found: Stamped, *, is_named: bool) -> None:
        """Import a file; what is wrong with it is noted, and stops no other."""
        tool = self._reader.TOOL
        known = self._seen.get(tool, found.path, found.stamp)
        if known and self._is_settled(known, is_named=is_named):
            for one in known.conversations:
                if one.row is None:
                    self._left_out += 1
                else:
                    row = msgspec.convert(one.row, Imported)
                    self._imported.append(msgspec.structs.replace(row, status="unchanged"))
            self._errors += [ImportFailure(path, reason) for path, reason in known.errors]
            return
        before = len(self._errors)
        seen: list[SeenConversation] = []
        try:
            is_any = False
            for conversation in self._reader.conversations(found):
                is_any = True
                if self._since_ms is not None and conversation.updated_ms < self._since_ms:
                    continue
                seen.append(SeenConversation(conversation.external_id, self._row(conversation, is_named=is_named)))
            if not is_any and found.path.endswith(".jsonl"):
                for broken in damage_in(found.path):
                    self._fail(found.path, f"line {broken.line}: {broken.reason}")
        except (MaestroError, OSError) as error:
            self._fail(found.path, str(error) if isinstance(error, MaestroError) else os.strerror(error.errno or 0))
            return
        if self._since_ms is None and not self._dry:
            errors = [(one.path, one.reason) for one in self._errors[before:]]
            self._seen.put(tool, found.path, SeenFile(found.stamp, seen, errors))

    def _is_settled(self, known: SeenFile, *, is_named: bool) -> bool:
        """Tell whether there is nothing to do for a file that did not change: its sessions are all there."""
        if any(one.row is None for one in known.conversations) and (self._any or is_named):
            return False
        rows = [one.row for one in known.conversations if one.row is not None]
        ids = [one for row in rows for one in (row["session_id"], *row["children"])]
        return all(map(self._names.has, ids))

    def _row(self, conversation: Conversation, *, is_named: bool) -> dict[str, object] | None:
        """Import a conversation with those of its sub-agents; None when it is left out, or nobody says anything."""
        if not (self._any or is_named or self._is_own(conversation)):
            self._left_out += 1
            return None
        facts = self._facts
        session_id, _ = self._names.of(conversation)
        children = []
        for child in conversation.children:
            child_id, _ = self._names.of(child)
            done = self._written(child_id, child, msgspec.structs.replace(facts, parent=session_id))
            if done.messages:
                children.append((child, done))
        links = [
            {"session_id": done.session_id, "external_id": child.external_id}
            | ({"tool_call_id": child.call_id} if child.call_id else {})
            for child, done in children
        ]
        done = self._written(session_id, conversation, msgspec.structs.replace(facts, children=links))
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
        self._imported.append(row)
        found: dict[str, object] = msgspec.to_builtins(row)
        return found

    def _is_own(self, conversation: Conversation) -> bool:
        roots = {self._project.path, self._project.checkout}
        return any(conversation.is_of(root) for root in roots)

    def _written(self, session_id: str, conversation: Conversation, facts: Facts) -> Written:
        done = once_unlocked(lambda: write(self._home, session_id, conversation, facts, dry_run=self._dry))
        for broken in done.broken:
            self._fail(conversation.path, f"line {broken.line}: {broken.reason}")
        if done.broken_count > len(done.broken):
            self._fail(conversation.path, f"{done.broken_count - len(done.broken)} more lines cannot be read")
        if done.session and not self._dry:
            self._index.append(IndexRow.of(done.session))
            with suppress(MaestroError, OSError):  # a help for exports: the archive is whole without
                mark(self._home, session_id)
        return done

    def _save(self) -> None:
        if self._dry:
            return
        rows, self._index = self._index, []
        if rows:
            self._project.index_add(rows)
        self._seen.save()
