"""What a recorder hands to its writer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maestro_state.clock import new_idempotency_key
from maestro_state.models.claim import Claim
from maestro_state.recording.serialization import Spent


@dataclass(eq=False)
class Target:
    """Where a recorder's entries go: a session by its name or reference; None is the one that the checkout is on."""

    name: str | None
    ttl_seconds: int | None = None
    session_id: str | None = None  #: once it is found or made, until it has ended


@dataclass(eq=False)
class Block:
    """One `with`, or one call of a decorated function: a run of the session. The writer's own after it is begun."""

    agent: str
    claim: Claim | None = None
    run_id: str | None = None
    answer: str = ""
    spent: list[Spent] = field(default_factory=list)


@dataclass(eq=False)
class Said:
    """A message."""

    target: Target
    block: Block | None
    role: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    spent: Spent | None = None
    key: str = field(default_factory=new_idempotency_key)

    @property
    def size(self) -> int:
        """About how much memory it takes: the texts of calls and results are its content's."""
        return 500 + 2 * len(self.content)


@dataclass(eq=False)
class Left:
    """The end of a block."""

    target: Target
    block: Block
    error: str | None
    key: str = field(default_factory=new_idempotency_key)
    size: int = 500


Entry = Said | Left
