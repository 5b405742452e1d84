"""Items of context. Field names are those of the files the archive writes, so that a live session and an archived one
are the same values.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Snapshot(msgspec.Struct, frozen=True):
    """The content of an item as it was when it was added."""

    blob: str  #: where the archive has it, relative to `context/items/`
    digest: str  #: SHA-256, lower-case hex


class ContextItem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One item of context: `context/items/ctx-0001.json`."""

    id: str
    kind: str  #: file, text or output
    source: dict[str, Any]
    labels: list[str] = []
    snapshot: Snapshot
    state: str  #: active or removed
    removed_at: str | None = None
    notes: str | None = None


class ListedItem(ContextItem, frozen=True, omit_defaults=True, kw_only=True):
    """An item as `context list` shows it."""

    drift: str | None  #: same, changed or missing: a file now, beside its snapshot; null for what is no file


class Skipped(msgspec.Struct, frozen=True):
    """Something a folder or pattern led to that was not added."""

    path: str
    reason: str


class Added(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a command added to the context."""

    items: list[ContextItem]  #: those that were there already too, unchanged
    skipped: list[Skipped] = []
    unchanged: list[str] = []  #: ids of those that were there already
