"""What of a conversation a session has already, because it was followed or a run held it: that is not imported once
more.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import fsum

import msgspec

from maestro_state.histories.facts import Written
from maestro_state.histories.values import Asked, Conversation, Said, Step, Tokens, Used


class Followed(msgspec.Struct, kw_only=True):
    """The part of a conversation that is in sessions."""

    session_id: str  #: the last of them
    turns: set[str]
    keys: set[str]
    asked: list[tuple[int, int]] = []  #: when runs asked in it themselves, from when to when
    runs: int = 0  #: turns that the conversation has, and
    messages: int = 0  #: what is said in it, where all of it is there
    used: dict[str, Used] = {}

    def rest_of(self, one: Conversation) -> tuple[Conversation, bool]:
        """Return the conversation without that part, and whether nothing is left of it then."""
        rest = msgspec.structs.replace(one, read=lambda seen: self._without(one, seen))
        is_all_there = not any(isinstance(step, Asked | Said) for step in rest.read(()))
        if is_all_there:
            self._count(one)
        return rest, is_all_there

    def _count(self, one: Conversation) -> None:
        """Count what the conversation has: its session may have those of others besides."""
        said: set[str] = set()
        turns: set[str] = set()
        for step in one.read(()):
            if isinstance(step, Used):
                self.used[step.key] = step
            elif isinstance(step, Asked | Said):
                turns.update([step.turn or step.key] if isinstance(step, Asked) else [])
                keys = [step.key] if isinstance(step, Asked) else step.keys
                self.messages += not said.issuperset(keys)
                said.update(keys)
        self.runs = len(turns)

    def _is_there(self, asked: Asked) -> bool:
        is_followed = (asked.turn or asked.key) in self.turns
        return is_followed or any(first <= asked.at_ms <= last for first, last in self.asked)

    def _without(self, one: Conversation, seen: Container[str]) -> Iterator[Step]:
        is_there = False
        before: list[Step] | None = []  #: what the first question finds there: it is of its turn
        for step in one.read(seen):
            if isinstance(step, Asked):
                is_there = self._is_there(step)
                yield from () if is_there else before or ()
                before = None
            is_said = isinstance(step, Said) and all(key in self.keys for key in step.keys)
            if is_said or (is_there and isinstance(step, Asked | Said | Used)):
                continue
            if before is not None and isinstance(step, Said | Used):
                before.append(step)
            else:
                yield step
        yield from before or ()

    def told(self) -> Written:
        """Return it as an import tells of what did not change."""
        costs = [one.cost for one in self.used.values() if one.cost is not None]
        return Written(
            session_id=self.session_id,
            status="unchanged",
            messages=self.messages,
            runs=self.runs,
            tokens=sum((one.tokens for one in self.used.values()), Tokens()),
            cost=round(fsum(costs), 9) if costs else None,
            session=None,
            broken=[],
            broken_count=0,
        )
