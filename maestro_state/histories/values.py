"""A conversation as a reader tells it: found cheaply, then read step by step, so that none has to fit into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator
from typing import Any

import msgspec

from maestro_state.errors import MaestroError


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """What answers consumed: input without what was cached, output with reasoning (which is also told by itself)."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        """Add two up."""
        return Tokens(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        """How many there are in all."""
        return self.input + self.cache_read + self.cache_write + self.output


class Asked(msgspec.Struct, frozen=True):
    """Somebody asked something: a turn begins."""

    key: str
    at_ms: int
    text: str
    turn: str | None = None  #: the tool's id of the turn, where it has one beside that of the question


class Said(msgspec.Struct, frozen=True):
    """Something else was said: an answer, the result of a tool, an instruction."""

    keys: list[str]  #: the tool's ids of what it is made of
    at_ms: int
    role: str
    text: str
    calls: list[dict[str, Any]] | None = None
    results: list[dict[str, Any]] | None = None
    model: str | None = None


class Used(msgspec.Struct, frozen=True):
    """What one answer consumed; told again under the same key, the last word counts."""

    key: str
    tokens: Tokens
    model: str | None = None
    cost: float | None = None


class Ended(msgspec.Struct, frozen=True):
    """How the present turn ended, where the history tells."""

    at_ms: int
    status: str  #: success, error or canceled
    error: str | None = None


class Noted(msgspec.Struct, frozen=True):
    """A fact about the conversation: title, version, branch."""

    name: str
    value: str


class Broken(msgspec.Struct, frozen=True):
    """A line that cannot be read; the others are."""

    line: int
    reason: str


Step = Asked | Said | Used | Ended | Noted | Broken


class Conversation(msgspec.Struct, kw_only=True):
    """One conversation as a reader found it, unread."""

    tool: str
    external_id: str
    path: str
    title: str | None = None  #: what its session is named after
    cwd: str | None = None  #: the folder it was held in
    updated_ms: int = 0
    stamp: list[int] = []  #: changes whenever the conversation does
    read: Callable[[Container[str]], Iterator[Step]]  #: takes the keys that are known already
    children: list[Conversation] = []  #: what its sub-agents said
    unreadable: list[tuple[str, MaestroError]] = []  #: files of its sub-agents that cannot be read, and why
    call_id: str | None = None  #: of a child: the call that started it
    project: str | None = None  #: the folder of its project by its SHA-256, where no path is told

    def is_of(self, root: str) -> bool:
        """Tell whether it was held in a project, or in a folder of it."""
        if self.cwd is None:
            if self.project is None:
                return False
            import hashlib

            return self.project == hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()
        cwd = os.path.normpath(self.cwd)
        # Some tools note the way somebody came by, through a link, and a project is the folder that it leads to.
        return _is_in(cwd, root) or (os.path.isabs(cwd) and "\0" not in cwd and _is_in(os.path.realpath(cwd), root))


def _is_in(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


class Stamped(msgspec.Struct, frozen=True):
    """A file that a reader found, and what tells whether it has changed."""

    path: str
    stamp: list[int]
    size: int
    updated_ms: int
