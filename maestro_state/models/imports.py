"""What an import tells."""

from __future__ import annotations

import os

import msgspec

from maestro_state.errors import MaestroError


class ImportedTokens(msgspec.Struct, frozen=True):
    """What a conversation and its sub-agents consumed: input without what was cached, output with reasoning."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


class Imported(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One conversation."""

    source: str  #: the tool it was held with, or the file it was exported to
    external_id: str  #: its id there
    session_id: str
    status: str  #: new, updated or unchanged
    messages: int
    runs: int
    tokens: ImportedTokens
    cost: float | None = None
    children: list[str]  #: the sessions of its sub-agents


class ImportFailure(msgspec.Struct, frozen=True):
    """What could not be read; everything else was."""

    path: str
    reason: str

    @classmethod
    def of(cls, path: str, error: MaestroError | OSError) -> ImportFailure:
        """Return what an error says of a file, without its path once more."""
        reason = str(error) if isinstance(error, MaestroError) else os.strerror(error.errno or 0)
        return cls(path, reason.removeprefix(f"{path} "))


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `maestro import` tells."""

    imported: list[Imported]
    errors: list[ImportFailure]
    left_out: int = 0  #: conversations of other projects
    dry_run: bool = False
