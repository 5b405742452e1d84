"""The context of a session: add, list, show, remove, clear, promote outputs, refresh."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing

from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state.clock import iso
from maestro_state.errors import InvalidTransition, ItemNotFound, MaestroError
from maestro_state.local.project import Project
from maestro_state.models.context import Added, ContextItem, ListedItem
from maestro_state.models.run import RelevantOutput, Run
from maestro_state.state.calls import claims as claim_ops
from maestro_state.state.calls import context as ops
from maestro_state.state.calls import runs as run_ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.state.calls.contents import read_items, read_runs
from maestro_state.state.scripts import Call
from maestro_state.vocabulary import FROZEN

#: What `list` returns; inside the class, `list` is the verb.
Listed = list[ListedItem]
Items = list[ContextItem]
NewItems = list[ops.NewItem]

#: Told after each batch: how many are added, how many there are in all.
Progress = Callable[[int, int], None]


class Context:
    """What runs of a session are sent along."""

    def __init__(self, server: Server, sessions: Records, project: Project) -> None:
        self._server = server
        self._sessions = sessions
        self._project = project

    def add(
        self,
        *arguments: str | bytes,
        ref: str | None = None,
        kind: str | None = None,
        labels: Iterable[str] = (),
        note: str | None = None,
        follow: bool = False,
        again: bool = False,
        force: bool = False,
        folder: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Added:
        """Add files, folders, globs and texts, with a snapshot of each.

        A text names a file if there is one of that name (seen from `folder`, by default the current one), else is added
        itself, unless it looks like a path; `kind` file or text decides it for all, and bytes are always a text.
        Items are added in batches, each whole or not at all; `progress` is told after each. A file that is an active
        item already, with the same content, is not added a second time unless `again`; two that add it at the same
        moment both do. A file that looks as if it held a secret is refused, and left out of a folder or glob, unless
        `force`.
        """
        from maestro_state.context.chosen_files import choose
        from maestro_state.context.new_items import Making
        from maestro_state.context.read_ahead import ahead
        from maestro_state.context.reading import Tree

        session_id, terms = self._sessions.resolve(ref), self._server.terms
        checked = ops.check_labels(labels)
        with Tree(self._project.checkout) as tree:
            where = os.fspath(folder or os.getcwd())
            choice = choose(tree, arguments, folder=where, kind=kind, follow=follow, limit=terms.max_value_bytes)
            making = Making(tree, terms, self._server.now_ms(), checked, note, force=force)
            making.check_named(choice.entries)
            texts = [making.text(entry) for entry in choice.entries if isinstance(entry, bytes)]
            total, added, unchanged = len(choice.entries), Items(), Items()
            batches = making.batches(choice.entries, texts)
            # A few files are not worth a thread. Closed before the tree is: its thread reads from there.
            with closing(ahead(batches) if total > ops.AHEAD_ITEMS else batches) as coming:
                for batch in self._add_all(session_id, coming, None if again else unchanged):
                    added += batch
                    if progress:
                        progress(len(added) + len(unchanged), total)
            if not added:
                self._check_open(session_id)
        return Added([*unchanged, *added], [*choice.skipped, *making.skipped], [item.id for item in unchanged])

    def _files_there(self, session_id: str) -> dict[tuple[str, str], ContextItem]:
        """Return the files among the active items, by path and digest."""
        items = self._server.fetch(read_items(self._server.terms, session_id))
        files = (item for item in items if item.state == "active" and item.kind == "file")
        return {(str(item.source.get("path_rel")), item.snapshot.digest): item for item in files}

    def _check_open(self, session_id: str) -> None:
        """Refuse what takes no context, also where there is nothing to write."""
        session = self._sessions.read(session_id)
        if session.state in FROZEN:
            raise InvalidTransition(session_id, session.state, "adding context")

    def list(self, ref: str | None = None, *, everything: bool = False) -> Listed:
        """List the active items, or `everything` that ever was one, each file with how it compares now."""
        from maestro_state.context.drift import with_drift

        items = self._items(self._sessions.resolve(ref))
        return with_drift(self._project.checkout, (item for item in items if everything or item.state == "active"))

    def stale(self, ref: str | None = None) -> Listed:
        """List the active files that are not any more as they were added; checks each file, reads few."""
        from maestro_state.context.drift import with_drift

        items = self._items(self._sessions.resolve(ref))
        files = [item for item in items if item.state == "active" and item.kind == "file"]
        return [item for item in with_drift(self._project.checkout, files) if item.drift != "same"] if files else []

    def show(self, item_id: str, ref: str | None = None) -> tuple[ContextItem, bytes]:
        """Return an item, removed ones too, with its content."""
        session_id = self._sessions.resolve(ref)
        item = _find(session_id, self._items(session_id), ops.item_id_of(item_id))
        return item, self._sessions.source(session_id).snapshot(item)

    def remove(self, *item_ids: str, ref: str | None = None) -> Items:
        """Take items out of the active list, at most 1000 and all or none of them; they stay in the history."""
        wanted, session_id = ops.check_removable(item_ids), self._sessions.resolve(ref)
        call = ops.remove_context(self._server.terms, self._server.stamp(), session_id, wanted)
        self._server.change(session_id, call)
        gone = set(wanted)
        return [item for item in self._items(session_id) if item.id in gone]

    def clear(self, ref: str | None = None) -> int:
        """Take every item out of the active list; return how many there were."""
        session_id, removed = self._sessions.resolve(ref), 0
        active = [item.id for item in self._items(session_id) if item.state == "active"]
        for at in range(0, len(active), ops.BATCH_ITEMS) or (0,):
            ids, stamp = active[at : at + ops.BATCH_ITEMS], self._server.stamp()
            call = ops.remove_context(self._server.terms, stamp, session_id, ids, is_clearing=True)
            removed += int(self._server.change(session_id, call))
        return removed

    def use_output(
        self, run: str = "last", ref: str | None = None, *, lines: str | None = None, note: str | None = None
    ) -> Added:
        """Promote a run's output, or the lines `A-B` of it, to an item, and mark the run as relevant."""
        session_id, terms = self._sessions.resolve(ref), self._server.terms
        found = ops.pick_run(session_id, self._server.fetch(read_runs(terms, session_id)), run)
        ops.check_promotable(terms, found, lines)
        content, stamp = self._output(session_id, found, ops.last_line_of(lines)), self._server.stamp()
        asked = self._server.fetch(claim_ops.read_blobs(terms, session_id, [found.prompt_digest or ""]))
        item = ops.new_output(
            terms, stamp.now_ms, found, content, lines, question=asked[0] or b"", is_last=run == "last", notes=note
        )
        mark = RelevantOutput(run_id=found.id, added_at=iso(stamp.now_ms), note=item.notes)
        return Added(self._add(session_id, [item], mark))

    def refresh(self, *item_ids: str, ref: str | None = None, force: bool = False) -> Added:
        """Take a new snapshot of files that changed, as new items in the place of the old ones, which stay in history.

        Without ids: of all active files; those that are gone, or look as if they held a secret by now, are skipped, and
        said. `force` takes the latter too.
        """
        from maestro_state.context.new_items import Making
        from maestro_state.context.reading import Tree

        session_id, terms = self._sessions.resolve(ref), self._server.terms
        items = self._items(session_id)
        chosen = [_find(session_id, items, ops.item_id_of(one)) for one in dict.fromkeys(item_ids)]
        for item in chosen:
            ops.check_refreshable(item)
        files = chosen or [item for item in items if item.state == "active" and item.kind == "file"]
        added = Items()
        with Tree(self._project.checkout) as tree:
            making = Making(tree, terms, self._server.now_ms(), force=force)
            for batch in making.refreshed(files, is_named=bool(chosen)):
                added += self._add(session_id, batch)
        return Added(added, making.skipped)

    def _items(self, session_id: str) -> Items:
        terms = self._server.terms
        life = session_ops.read_life(terms, session_id, self._server.now_ms())
        found: Items
        (is_live, is_over), found = self._server.fetch_all([life, read_items(terms, session_id)])
        if is_live and not is_over:
            return found
        return self._sessions.source(session_id).items()  # it is only on disk, its time is over, or it is not there

    def _add(self, session_id: str, items: NewItems, mark: RelevantOutput | None = None) -> Items:
        """Add one batch."""
        missing = self._server.run(self._missing(session_id, items))
        added, _ = self._add_batch(session_id, items, missing, mark)
        return added

    def _add_all(self, session_id: str, coming: Iterator[NewItems], unchanged: Items | None) -> Iterator[Items]:
        """Add batch after batch, each in one round trip: it also asks what the next one has to bring along.

        With `unchanged`, files that are active items already go there instead.
        """
        there: dict[tuple[str, str], ContextItem] | None = None
        batch, trouble = next(coming, None), None
        missing: AbstractSet[str] = self._server.run(self._missing(session_id, batch)) if batch else frozenset()
        while batch is not None:
            following = None
            try:
                following = next(coming, None)
            except MaestroError as error:
                trouble = error  # with the next one: this one is added first
            then = self._missing(session_id, following) if following else None
            # What the session has no content of is no item of it: only of what it has, items are worth reading.
            if unchanged is not None and any(item.kind == "file" and item.digest not in missing for item in batch):
                there = self._files_there(session_id) if there is None else there
                unchanged += [there[item.place] for item in batch if item.place in there]
                batch = [item for item in batch if item.place not in there]
            if batch:
                added, missing = self._add_batch(session_id, batch, missing, then=then)
            else:
                added, missing = Items(), self._server.run(then) if then else frozenset()
            yield added
            batch = following
        if trouble is not None:
            raise trouble

    def _missing(self, session_id: str, items: NewItems) -> Call:
        return ops.missing_blobs(self._server.terms, session_id, list({item.digest: None for item in items}))

    def _add_batch(
        self,
        session_id: str,
        items: NewItems,
        missing: AbstractSet[str],
        mark: RelevantOutput | None = None,
        *,
        then: Call | None = None,
    ) -> tuple[Items, AbstractSet[str]]:
        """Add the contents the session has not got, then the items, in one step; return them and what `then` found."""
        terms, calls = self._server.terms, []
        # A sequence each: sent again, both must be the last of theirs.
        with self._server.sequence() as contents, self._server.sequence() as sequence:
            wanted = {item.digest: item.content for item in items if item.digest in missing}
            if wanted:
                stamp = self._server.stamp(contents.next_key())
                calls.append(ops.put_blobs(terms, stamp, session_id, wanted))
            stamp = self._server.stamp(sequence.next_key())
            calls.append(ops.add_context(terms, stamp, session_id, items, mark))
            values = self._server.change_all(session_id, calls, then)
        first = int(values[len(calls) - 1])
        return [item.as_item(first + at) for at, item in enumerate(items)], values[-1] if then else frozenset()

    def _output(self, session_id: str, run: Run, last_line: int | None) -> bytes:
        """Read what a run printed: whole, or at least up to a line."""
        terms, parts, lines = self._server.terms, list[bytes](), 0
        bounds = self._server.fetch(run_ops.output_range(terms, session_id, run.id))
        start, end = bounds or (None, "")
        while start is not None and (last_line is None or lines < last_line):
            page, after = self._server.fetch(run_ops.output_page(terms, session_id, run.id, start, end))
            start = f"({after}" if after else None
            parts += page
            lines += sum(chunk.count(b"\n") for chunk in page)
        content = b"".join(parts)
        if start is None:
            ops.check_output(run, content)
        return content


def _find(session_id: str, items: Items, item_id: str) -> ContextItem:
    for item in items:
        if item.id == item_id:
            return item
    raise ItemNotFound(session_id, item_id)
