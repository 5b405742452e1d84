"""A thread of LangGraph: what is read of it, what is said in it, and what a removal must leave of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maestro_state.adapters import langgraph_checkpoints as form
from maestro_state.adapters import langgraph_messages as talk
from maestro_state.adapters.binding import Binding, Entries
from maestro_state.adapters.langgraph_checkpoints import CHECKPOINT, HEAD, SAID, VALUE, WRITES, name
from maestro_state.adapters.view import View
from maestro_state.models.message import Message

#: From how many messages on it is asked first which of them were said already.
_MANY = 8

#: Namespace and id of a checkpoint.
Place = tuple[str, str]

#: Path and id of a task: the order in which the writes of a step are applied.
TaskOrder = tuple[str, str]


class Due(NamedTuple):
    """What tasks wrote that is said with the next checkpoint: what each channel says, and what it takes back."""

    said: dict[str, list[talk.Said]]
    removed: dict[str, set[str]]


class Thread:
    """What is known of a thread; whether it still holds is found out by the step that writes."""

    def __init__(self, binding: Binding) -> None:
        """Know nothing yet."""
        self.binding = binding
        self._session: str | None = None
        self.heads: dict[str, str] = {}
        #: Namespaces → the newest checkpoint and the names of its values, when they were last seen.
        self.newest: dict[str, tuple[str, list[str]]] = {}
        #: What was said → the digest of what it was then; empty where another process said it.
        self.said: dict[str, str] = {}
        self._writes: dict[Place, list[tuple[TaskOrder, str, Any]]] = {}

    def is_in(self, session_id: str) -> None:
        """Note the session that is written to: what was known of another one, deleted maybe, holds no more."""
        if self._session not in (None, session_id):
            self.heads.clear()
            self.newest.clear()
            self.said.clear()
        self._session = session_id

    def view(self) -> View:
        """Return what is read by, for one call."""
        return View(self.binding)

    async def head(self, view: View, namespace: str) -> str | None:
        """Return the id of the newest checkpoint of a namespace."""
        return self.note_head(namespace, (await view.read([name(HEAD, namespace)])).get(name(HEAD, namespace)))

    def note_head(self, namespace: str, found: bytes | None) -> str | None:
        """Note which checkpoint is the newest one; return its id."""
        if found is None:
            self.heads.pop(namespace, None)
            return None
        self.heads[namespace] = found.decode()
        return found.decode()

    def note_newest(self, namespace: str, checkpoint_id: str, versions: Mapping[str, Any]) -> None:
        """Note what the newest checkpoint is made of: who asks for it next is likely to get it at once."""
        self.newest[namespace] = checkpoint_id, [name(VALUE, namespace, *pair) for pair in versions.items()]

    def added(self, namespace: str, checkpoint_id: str, versions: Mapping[str, Any], said: Mapping[str, str]) -> None:
        """Note that a checkpoint was added, and what was said with it."""
        self.heads[namespace] = head = max(checkpoint_id, self.heads.get(namespace, ""))
        self.note_newest(namespace, head, versions)
        self.said.update(said)

    def note_writes(
        self, namespace: str, checkpoint_id: str, task: TaskOrder, writes: Sequence[tuple[str, Any]]
    ) -> None:
        """Note what a task says and takes back after a checkpoint: it is said with the checkpoint that comes of it.

        The framework hands over writes and checkpoints side by side: the writes of a step may be here before the
        checkpoint that the step began with.
        """
        noted = [
            (task, channel, value)
            for channel, value in writes
            if talk.removed_in(value) or any(talk.messages_in(channel, value))
        ]
        if noted:
            self._writes.setdefault((namespace, checkpoint_id), []).extend(noted)

    def due(self, namespace: str, parent: str | None) -> Due:
        """Return, once, what was written up to the step after a checkpoint."""
        places = sorted(place for place in self._writes if place[0] == namespace and parent and place[1] <= parent)
        said: dict[str, list[talk.Said]] = {}
        removed: dict[str, set[str]] = {}
        for place in places:
            for (_, task_id), channel, value in sorted(self._writes.pop(place), key=lambda noted: noted[0]):
                said.setdefault(channel, []).extend(talk.messages_in(channel, value, f"{place[1]} {task_id} "))
                removed.setdefault(channel, set()).update(talk.removed_in(value))
        return Due(said, {channel: keys for channel, keys in removed.items() if keys})

    async def say(
        self, namespace: str, parent: str | None, values: Mapping[str, Any], versions: Mapping[str, Any], due: Due
    ) -> tuple[Entries, dict[str, str]]:
        """Say what was said in a checkpoint and not before it, and take back what is there no more: the step that does,
        and what is said by then.
        """
        step, (written, removed) = Entries(), due
        is_rewound = await self._take_back(step, namespace, parent, values, removed)
        found: dict[str, talk.Said] = {}
        for channel in dict.fromkeys([*versions, *(values if is_rewound else ())]):
            # A channel without a value is kept as what was written to it.
            said = talk.messages_in(channel, values[channel]) if channel in values else written.get(channel, [])
            found.update((one.key, one) for one in said)
        rewritten = {one.key: found[one.key] for some in written.values() for one in some if one.key in found}
        new = found.keys() - self.said.keys()
        if len(new) > _MANY or (parent and not self.said and rewritten):
            known = await self.view().read([name(SAID, key) for key in new])
            self.said.update((key, "") for key in new if name(SAID, key) in known)
        replaced = await self._take_back_replaced(step, rewritten)
        new = found.keys() - self.said.keys() | replaced
        for one in found.values():
            if one.key in new:
                talk.say(step, namespace, one)
        return step, {key: talk.digest_of(found[key].item) for key in (*new, *rewritten)}

    async def _take_back_replaced(self, step: Entries, rewritten: Mapping[str, talk.Said]) -> set[str]:
        """Take back what was said under the id of a message that says something else now; return what is said anew."""
        doubtful = {
            key: one for key, one in rewritten.items() if self.said.get(key) not in (None, talk.digest_of(one.item))
        }
        replaced: set[str] = set()
        for message in await self.binding.messages() if doubtful else ():
            place = talk.place_of(message)
            if place is None or (one := doubtful.get(place[2])) is None or talk.is_same(message, one.item):
                continue
            step.retract(message.id).drop(name(SAID, one.key))
            replaced.add(one.key)
        return replaced

    async def _take_back(
        self,
        step: Entries,
        namespace: str,
        parent: str | None,
        values: Mapping[str, Any],
        removed: Mapping[str, set[str]],
    ) -> bool:
        """Take back messages that were removed, and in a thread that goes on from an earlier checkpoint those that came
        after it; tell whether it does.
        """
        if parent and namespace not in self.heads:
            await self.head(self.view(), namespace)
        is_rewound = bool(parent) and parent != self.heads.get(namespace, parent)
        channels = {*removed, *(values if is_rewound else ())}
        if not channels:
            return False
        there = {one.key for channel, value in values.items() for one in talk.messages_in(channel, value)}
        for message in await self.binding.messages():
            place = talk.place_of(message)
            if place is None or place[0] != namespace or place[1] not in channels or place[2] in there:
                continue
            if is_rewound or removed.get(place[1], set()) & {place[2], talk.ALL}:
                step.retract(message.id).drop(name(SAID, place[2]))
                self.said.pop(place[2], None)
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


def copy_of(messages: Sequence[Message], kept: Mapping[str, bytes]) -> Entries:
    """Make one step of everything in a thread, for another one."""
    step = Entries()
    for message in messages:
        if (place := talk.place_of(message)) is not None:
            step.once(name(SAID, place[2]))
            step.message(message.role, message.content, metadata=message.metadata,
                         tool_calls=message.tool_calls, tool_results=message.tool_results)  # fmt: skip
    for named, value in kept.items():
        if form.parts_of(HEAD, [named]):
            step.highest(named, value)
        elif not form.parts_of(SAID, [named]):
            step.set(named, value)
    return step
