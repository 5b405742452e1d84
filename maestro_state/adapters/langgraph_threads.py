"""A thread of LangGraph: what is read of it, what is said in it, and what a removal must leave of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maestro_state.adapters import checkpoints as form
from maestro_state.adapters import langgraph_messages as talk
from maestro_state.adapters.binding import Binding, Entries
from maestro_state.adapters.checkpoints import CHECKPOINT, HEAD, SAID, VALUE, WRITES, name
from maestro_state.adapters.view import View

#: From how many messages on it is asked first which of them were said already.
_MANY = 8

#: Namespace and id of a checkpoint.
Place = tuple[str, str]


class Thread:
    """What is known of a thread; whether it still holds is found out by the step that writes."""

    def __init__(self, binding: Binding) -> None:
        """Know nothing yet."""
        self.binding = binding
        self.heads: dict[str, str] = {}
        self.said: set[str] = set()
        self._removed: dict[tuple[str, str], set[str]] = {}
        self._written: dict[tuple[str, str], list[talk.Said]] = {}

    def view(self) -> View:
        """Return what is read by, for one call."""
        return View(self.binding)

    async def head(self, view: View, namespace: str) -> str | None:
        """Return the id of the newest checkpoint of a namespace."""
        found = (await view.read([name(HEAD, namespace)])).get(name(HEAD, namespace))
        if found is None:
            self.heads.pop(namespace, None)
            return None
        self.heads[namespace] = found.decode()
        return found.decode()

    def added(self, namespace: str, checkpoint_id: str, said: set[str]) -> None:
        """Note that a checkpoint was added, and what was said with it."""
        self.heads[namespace] = max(checkpoint_id, self.heads.get(namespace, ""))
        self.said |= said

    def note_writes(self, namespace: str, place: str, writes: Sequence[tuple[str, Any]]) -> None:
        """Note what a task says and takes back: it is said with the checkpoint after it, in their order."""
        for channel, value in writes:
            if removed := talk.removed_in(value):
                self._removed.setdefault((namespace, channel), set()).update(removed)
            if found := [*talk.messages_in(channel, value, place)]:
                self._written.setdefault((namespace, channel), []).extend(found)

    async def say(
        self, step: Entries, namespace: str, parent: str | None, values: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> set[str]:
        """Add to a step what was said in a checkpoint and not before it, and take back what is there no more."""
        is_rewound = await self._take_back(step, namespace, parent, values)
        found: list[talk.Said] = []
        for channel in dict.fromkeys([*versions, *(values if is_rewound else ())]):
            # A channel without a value is kept as what was written to it.
            written = self._written.pop((namespace, channel), [])
            found += talk.messages_in(channel, values[channel]) if channel in values else written
        new = {one.key: one for one in found if one.key not in self.said}
        if len(new) > _MANY:
            known = await self.view().read([name(SAID, key) for key in new])
            self.said |= {key for key in new if name(SAID, key) in known}
        for one in new.values():
            if one.key not in self.said:
                talk.say(step, namespace, one)
        return {*new}

    async def _take_back(self, step: Entries, namespace: str, parent: str | None, values: Mapping[str, Any]) -> bool:
        """Take back messages that were removed, and in a thread that goes on from an earlier checkpoint those that came
        after it; tell whether it does.
        """
        if parent and namespace not in self.heads:
            await self.head(self.view(), namespace)
        is_rewound = bool(parent) and parent != self.heads.get(namespace, parent)
        channels = {channel for where, channel in self._removed if where == namespace}
        if is_rewound:
            channels |= values.keys()
        if not channels:
            return False
        there = {one.key for channel, value in values.items() for one in talk.messages_in(channel, value)}
        removed = {channel: self._removed.pop((namespace, channel), set()) for channel in channels}
        for message in await self.binding.messages():
            place = talk.place_of(message)
            if place is None or place[0] != namespace or place[1] not in channels or place[2] in there:
                continue
            if is_rewound or removed[place[1]] & {place[2], talk.ALL}:
                step.retract(message.id).drop(name(SAID, place[2]))
                self.said.discard(place[2])
        return is_rewound


def kept_along(
    rows: Mapping[Place, form.Stored],
    versions: Mapping[Place, Mapping[str, Any]],
    written: Mapping[Place, set[str]],
    names: set[str],
    keep_last: int,
) -> set[Place]:
    """Return the newest checkpoints of each namespace, and the ancestors that they are rebuilt from: a channel without
    a value is what was written to it since the last one that has a value.
    """
    kept: set[Place] = set()
    for namespace in {place[0] for place in rows}:
        newest = sorted((place for place in rows if place[0] == namespace), reverse=True)[:keep_last]
        for place in newest:
            kept.add(place)
            for channel, version in versions[place].items():
                is_whole = name(VALUE, namespace, channel, version) in names
                if not is_whole and not channel.startswith(("branch:", "__")):
                    kept |= _rebuilt_from(place, channel, rows, versions, written, names)
    return kept


def _rebuilt_from(
    place: Place,
    channel: str,
    rows: Mapping[Place, form.Stored],
    versions: Mapping[Place, Mapping[str, Any]],
    written: Mapping[Place, set[str]],
    names: set[str],
) -> set[Place]:
    namespace, passed, needed = place[0], [], 0
    while (parent := rows[place].parent) and (namespace, parent) in rows:
        place = (namespace, parent)
        passed.append(place)
        if channel in written[place]:
            needed = len(passed)
        version = versions[place].get(channel)
        if version is not None and name(VALUE, namespace, channel, version) in names:
            return set(passed)
    return set(passed[:needed])


def removal(names: set[str], versions: Any, doomed: set[Any], heads: dict[str, bytes]) -> Entries:
    """Make one step of a removal, if no checkpoint is added meanwhile."""
    step, left = Entries(), [place for place in versions if place not in doomed]
    used = {name(VALUE, place[0], *pair) for place in left for pair in versions[place].items()}
    for namespace in sorted({place[0] for place in doomed}):
        head = name(HEAD, namespace)
        step.expect(head, heads.get(head))
        newest = max((place[1] for place in left if place[0] == namespace), default=None)
        step.drop(head) if newest is None else step.set(head, newest)
    for place in doomed:
        step.drop(name(CHECKPOINT, *place)).drop(name(WRITES, *place))
        step.event("checkpoint.removed", checkpoint=place[1], namespace=place[0])
    for row in form.parts_of(VALUE, names):
        if (named := name(VALUE, *row)) not in used:
            step.drop(named)
    return step
