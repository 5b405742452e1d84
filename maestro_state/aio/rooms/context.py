# Generated from maestro_state.api.context by `make generate`. Do not edit.
"""The context of a session: add, list, show, remove, clear, promote outputs, refresh."""

from __future__ import annotations

import os
from collections.abc import Iterable

from maestro_state.aio.companion import Room
from maestro_state.api.context import Context, Items, Listed, Progress
from maestro_state.models.context import Added, ContextItem


class AsyncContext(Room[Context]):
    """What runs of a session are sent along."""

    async def add(
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
        return await self._call(
            lambda room: room.add(
                *arguments,
                ref=ref,
                kind=kind,
                labels=labels,
                note=note,
                follow=follow,
                again=again,
                force=force,
                folder=folder,
                progress=progress,
            )
        )

    async def list(self, ref: str | None = None, *, everything: bool = False) -> Listed:
        """List the active items, or `everything` that ever was one, each file with how it compares now."""
        return await self._call(lambda room: room.list(ref, everything=everything))

    async def stale(self, ref: str | None = None) -> Listed:
        """List the active files that are not any more as they were added; checks each file, reads few."""
        return await self._call(lambda room: room.stale(ref))

    async def show(self, item_id: str, ref: str | None = None) -> tuple[ContextItem, bytes]:
        """Return an item, removed ones too, with its content."""
        return await self._call(lambda room: room.show(item_id, ref))

    async def remove(self, *item_ids: str, ref: str | None = None) -> Items:
        """Take items out of the active list, at most 1000 and all or none of them; they stay in the history."""
        return await self._call(lambda room: room.remove(*item_ids, ref=ref))

    async def clear(self, ref: str | None = None) -> int:
        """Take every item out of the active list; return how many there were."""
        return await self._call(lambda room: room.clear(ref))

    async def use_output(
        self, run: str = "last", ref: str | None = None, *, lines: str | None = None, note: str | None = None
    ) -> Added:
        """Promote a run's output, or the lines `A-B` of it, to an item, and mark the run as relevant."""
        return await self._call(lambda room: room.use_output(run, ref, lines=lines, note=note))

    async def refresh(self, *item_ids: str, ref: str | None = None, force: bool = False) -> Added:
        """Take a new snapshot of files that changed, as new items in the place of the old ones, which stay in history.

        Without ids: of all active files; those that are gone, or look as if they held a secret by now, are skipped, and
        said. `force` takes the latter too.
        """
        return await self._call(lambda room: room.refresh(*item_ids, ref=ref, force=force))
