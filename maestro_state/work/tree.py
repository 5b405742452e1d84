"""Work sessions as the tree they form: who is under whom, and which of them a filter leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from maestro_state.clock import from_iso
from maestro_state.models.work import WorkSession


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What --type, --status, --depth, --since and --until leave; times in milliseconds, the first one excluded."""

    session_type: str | None = None
    status: str | None = None
    depth: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def has_session(self, record: WorkSession) -> bool:
        """Tell whether a work session is of the type and status."""
        return self.session_type in (None, record.session_type) and self.status in (None, record.status)

    def has_time(self, at_ms: int) -> bool:
        """Tell whether a moment is inside."""
        after = self.since_ms is None or at_ms > self.since_ms
        return after and (self.until_ms is None or at_ms <= self.until_ms)

    @property
    def picks_breadcrumbs(self) -> bool:
        """Tell whether single breadcrumbs must be looked at, not only whole work sessions."""
        return (self.depth, self.since_ms, self.until_ms) != (None, None, None)


class Node(msgspec.Struct, frozen=True):
    """A work session with those under it."""

    record: WorkSession
    children: tuple[Node, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the node as `wsession tree` prints it."""
        return msgspec.structs.asdict(self.record) | {"children": [child.document() for child in self.children]}

    def walk(self, depth: int = 0) -> Iterator[tuple[int, WorkSession]]:
        """Yield every work session with its depth, parents first."""
        yield depth, self.record
        for child in self.children:
            yield from child.walk(depth + 1)


def tree_of(records: Iterable[WorkSession], root: str | None = None) -> list[Node]:
    """Build the trees that records form, oldest first; one whose parent is not among them stands at the top.

    With `root`, only the tree under that one. Records that name each other as parents are not entered twice.
    """
    by_id = {record.session_id: record for record in records}
    children: dict[str | None, list[WorkSession]] = {}
    for record in sorted(by_id.values(), key=lambda one: (one.created, one.session_id)):
        parent = record.parent_session_id
        children.setdefault(parent if parent in by_id and parent != record.session_id else None, []).append(record)
    entered: set[str] = set()

    def node(record: WorkSession) -> Node:
        entered.add(record.session_id)
        under = [one for one in children.get(record.session_id, []) if one.session_id not in entered]
        return Node(record, tuple(node(one) for one in under))

    if root is not None:
        return [node(by_id[root])] if root in by_id else []
    nodes = [node(record) for record in children.get(None, [])]
    # A circle of parents has no top: enter it where it is oldest.
    return nodes + [node(record) for record in by_id.values() if record.session_id not in entered]


def pruned(nodes: Iterable[Node], filters: Filters) -> list[Node]:
    """Leave what the filters want, and the parents that lead to it."""
    kept = []
    for node in nodes:
        under = tuple(pruned(node.children, filters))
        wanted = filters.has_session(node.record) and filters.has_time(from_iso(node.record.modified))
        if under or wanted:
            kept.append(Node(node.record, under))
    return kept
