"""Checkpoints of LangGraph, kept in Maestro.

    with MaestroSaver() as saver:                  # or async with
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "hello")]}, {"configurable": {"thread_id": "customer-42"}})

A thread is one session. What is said in the graph is a message of it, and every checkpoint an event; checkpoints,
writes and values are kept beside, each value once. A put is one step on the server, and so is a removal.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from maestro_state.adapters import langgraph_checkpoints as form
from maestro_state.adapters.binding import Adapter, Entries
from maestro_state.adapters.blocking import OwnLoop
from maestro_state.adapters.langgraph_checkpoints import CHECKPOINT, HEAD, VALUE, WRITES, name
from maestro_state.errors import Conflict, InvalidValue, MaestroError, SessionNotFound

try:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
except ImportError as error:
    raise ImportError("this needs LangGraph: pip install 'maestro-state[langgraph]'") from error

from maestro_state.adapters.langgraph_blocking import BlockingHalf
from maestro_state.adapters.langgraph_threads import Thread, copy_of, kept_along, removal
from maestro_state.adapters.lru_cache import LRUCache
from maestro_state.adapters.view import Read

KIND = "langgraph"
#: Threads whose sessions are remembered.
_REMEMBERED = 1024
#: Checkpoints that a list reads at a time.
_PAGE = 20
#: How often a removal is tried again when somebody adds a checkpoint meanwhile.
_TRIES = 20

Config = Any
Rows = list[list[Any]]


class MaestroSaver(BlockingHalf, BaseCheckpointSaver[str]):  # type: ignore[misc]  # may not be installed
    """A checkpointer for LangGraph, both halves of it: blocking and awaited."""

    def __init__(self, *, serde: Any = None, on_conflict: str = "fork", **options: Any) -> None:
        """Take `project`, `maestro`, `ttl_seconds` and settings; nothing is opened yet.

        With `on_conflict="reject"` a checkpoint whose parent is not the newest one is refused.
        """
        if on_conflict not in ("fork", "reject"):
            raise InvalidValue(f"on_conflict '{str(on_conflict)[:40]}' is unknown", hint="one of fork, reject")
        Adapter.__init__(self, **options)
        BaseCheckpointSaver.__init__(self, serde=serde)
        self.on_conflict = on_conflict
        self._own = OwnLoop()
        self._threads = LRUCache(lambda key: Thread(self.binding(KIND, key)), _REMEMBERED)

    @classmethod
    def from_conn_string(cls, url: str, **options: Any) -> Self:
        """Use the server at an address; the same as the setting `redis_url`."""
        return cls(redis_url=url, **options)

    def _thread(self, config: Config) -> Thread:
        return self._thread_of(config["configurable"]["thread_id"])

    def _thread_of(self, thread_id: Any) -> Thread:
        return self._threads.of(str(thread_id))

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """Return a checkpoint with its values and pending writes: the one named, or the newest of its namespace."""
        asked = config["configurable"]
        namespace, thread = asked.get("checkpoint_ns", ""), self._thread(config)
        view, wanted = thread.view(), get_checkpoint_id(config)
        # What it was when we last looked is asked for along with the head: mostly it still is, and that is all.
        guess, values = thread.newest.get(namespace, (None, []))
        names = [] if wanted else [name(HEAD, namespace)]
        for likely in filter(None, (wanted or guess,)):
            names += [name(CHECKPOINT, namespace, likely), name(WRITES, namespace, likely)]
            names += values if likely == guess else []
        read = Read(view, names, await view.read(names))
        chosen = wanted or thread.note_head(namespace, read.found.get(name(HEAD, namespace)))
        if not chosen:
            return None
        named = name(CHECKPOINT, namespace, chosen), name(WRITES, namespace, chosen)
        await read.more([*named])
        if named[0] not in read.found:
            return None
        if not wanted:
            config = _config(asked["thread_id"], namespace, chosen)
        stored = form.unpack_checkpoint(read.found[named[0]])
        found = await self._tuple(read, config, stored, read.found.get(named[1], b""))
        if not wanted:
            thread.note_newest(namespace, chosen, found.checkpoint["channel_versions"])
        return found

    async def _tuple(self, read: Read, config: Config, stored: form.Stored, log: bytes) -> CheckpointTuple:
        asked = config["configurable"]
        namespace = asked.get("checkpoint_ns", "")
        checkpoint = self.serde.loads_typed(stored.checkpoint)
        names = {
            channel: name(VALUE, namespace, channel, version)
            for channel, version in checkpoint["channel_versions"].items()
        }
        values = await read.more([*names.values()])
        return CheckpointTuple(
            config=config,
            checkpoint=checkpoint | {
                "channel_values": {
                    channel: self._load(values[named]) for channel, named in names.items() if named in values
                }
            },
            metadata=self.serde.loads_typed(stored.metadata),
            parent_config=_config(asked["thread_id"], namespace, stored.parent) if stored.parent else None,
            pending_writes=[self._pending(write) for write in form.unpack_writes(log)],
        )  # fmt: skip

    def _load(self, data: bytes) -> Any:
        return self.serde.loads_typed(form.unpack(data))

    def _pending(self, write: form.Write) -> tuple[str, str, Any]:
        return write.task_id, write.channel, self.serde.loads_typed(write.value)

    async def alist(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # the framework's name
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of a thread, or of all threads one after another."""
        asked = config["configurable"] if config else {}
        thread_ids = [asked["thread_id"]] if config else await self._all_threads()
        wanted = asked.get("checkpoint_ns"), get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        left = limit
        for thread_id in thread_ids:
            view = self._thread_of(thread_id).view()
            rows = [
                row
                for row in form.parts_of(CHECKPOINT, await view.names())
                if wanted[0] in (None, row[0]) and wanted[1] in (None, "", row[1]) and (not end or row[1] < end)
            ]
            rows.sort(key=lambda row: (row[1], row[0]), reverse=True)
            for at in range(0, len(rows), _PAGE):
                if left is not None and left <= 0:
                    return
                for found in await self._page(view, thread_id, rows[at : at + _PAGE], filter or {}, left):
                    yield found
                    left = None if left is None else left - 1

    async def _page(
        self, view: Any, thread_id: Any, rows: Rows, wanted: dict[str, Any], limit: int | None
    ) -> Sequence[CheckpointTuple]:
        found = await view.read([name(kind, *row) for row in rows for kind in (CHECKPOINT, WRITES)])
        read, page = Read(view, (), {}), list[Any]()
        if not wanted:  # the values of all of them at once; which a filter passes is not known yet
            await read.more(self._values_of(rows[:limit], found))
        for namespace, checkpoint_id in rows:
            data = found.get(name(CHECKPOINT, namespace, checkpoint_id))
            if data is None or (limit is not None and len(page) >= limit):
                continue  # removed meanwhile
            stored = form.unpack_checkpoint(data)
            metadata = self.serde.loads_typed(stored.metadata) if wanted else {}
            if all(metadata.get(key) == value for key, value in wanted.items()):
                log = found.get(name(WRITES, namespace, checkpoint_id), b"")
                config = _config(thread_id, namespace, checkpoint_id)
                page.append(await self._tuple(read, config, stored, log))
        return page

    def _values_of(self, rows: Rows, found: Mapping[str, bytes]) -> list[str]:
        """Return the names of the values of some checkpoints."""
        names = dict[str, None]()
        for namespace, checkpoint_id in rows:
            if data := found.get(name(CHECKPOINT, namespace, checkpoint_id)):
                versions = self._versions(form.unpack_checkpoint(data))
                names |= dict.fromkeys(name(VALUE, namespace, *pair) for pair in versions.items())
        return [*names]

    async def _all_threads(self) -> Sequence[str]:
        here = await self.here()
        found: dict[str, None] = {}
        for row in await self.maestro.sessions.list(everything=True):
            if row.orphan or (row.bound_to and row.bound_to.kind != KIND):
                continue
            if row.bound_to:
                found[row.bound_to.key] = None
                continue
            with suppress(MaestroError):  # each is a compartment: one that cannot be read is not a thread
                if form.parts_of(HEAD, await (await here.records.source(row.id)).kept_names()):
                    found[row.id] = None
        return [*found]

    async def aget_delta_channel_history(self, *, config: Config, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return what ancestors of a checkpoint wrote to channels, back to the last whole value of each."""
        namespace, view = config["configurable"].get("checkpoint_ns", ""), self._thread(config).view()
        chosen = get_checkpoint_id(config) or await self._thread(config).head(view, namespace)
        writes: dict[str, Any] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        remaining = set(channels)
        stored, _ = await self._stored(view, namespace, chosen)
        while stored is not None and stored.parent and remaining:
            stored, log = await self._stored(view, namespace, stored.parent)
            if stored is None:
                break
            for write in reversed(form.unpack_writes(log)):
                if write.channel in remaining:
                    writes[write.channel].append(self._pending(write))
            versions = self.serde.loads_typed(stored.checkpoint)["channel_versions"]
            names = {
                channel: name(VALUE, namespace, channel, versions[channel])
                for channel in remaining
                if channel in versions
            }
            values = await view.read([*names.values()])
            seeds |= {channel: self._load(values[named]) for channel, named in names.items() if named in values}
            remaining -= seeds.keys()
        return {
            channel: {"writes": writes[channel][::-1]} | ({"seed": seeds[channel]} if channel in seeds else {})
            for channel in channels
        }

    async def _stored(self, view: Any, namespace: str, chosen: str | None) -> tuple[form.Stored | None, bytes]:
        if not chosen:
            return None, b""
        named = [name(kind, namespace, chosen) for kind in (CHECKPOINT, WRITES)]
        found = await view.read(named)
        data = found.get(named[0])
        return (None if data is None else form.unpack_checkpoint(data)), found.get(named[1], b"")

    async def amaestro_id(self, thread_id: str) -> str | None:
        """Return the id of the session that a thread is in; None when there is none."""
        return await self._thread_of(thread_id).binding.find()

    async def aput(self, config: Config, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]) -> Config:
        """Add a checkpoint in one step, with the values that are new and what was said."""
        asked, thread = config["configurable"], self._thread(config)
        namespace, parent = asked.get("checkpoint_ns", ""), asked.get("checkpoint_id")
        kept, values, due = Entries(), checkpoint["channel_values"], thread.due(namespace, parent)
        for channel, version in new_versions.items():
            if channel in values:
                kept.set(name(VALUE, namespace, channel, version), form.pack(self.serde.dumps_typed(values[channel])))
        rest = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        noted = get_checkpoint_metadata(config, metadata)
        stored = form.Stored(parent, self.serde.dumps_typed(rest), self.serde.dumps_typed(noted))
        kept.set(name(CHECKPOINT, namespace, checkpoint["id"]), form.pack_checkpoint(stored))
        kept.highest(name(HEAD, namespace), checkpoint["id"])
        kept.event("checkpoint.added", checkpoint=checkpoint["id"], namespace=namespace, parent=parent or "",
                   source=str(noted.get("source", "")), step=str(noted.get("step", "")))  # fmt: skip
        if self.on_conflict == "reject":
            kept.expect(name(HEAD, namespace), parent)

        async def put(here: Any, session_id: str) -> None:
            thread.is_in(session_id)
            step, said = await thread.say(namespace, parent, values, new_versions, due)
            await here.keys.write(session_id, step.and_then(kept))
            thread.added(namespace, checkpoint["id"], checkpoint["channel_versions"], said)

        try:
            await thread.binding.change(put)
        except Conflict as conflict:
            raise Conflict(
                f"thread '{str(asked['thread_id'])[:80]}' went on meanwhile: {parent or 'nothing'} is not its newest "
                "checkpoint",
                hint="read the state anew and run again from there",
            ) from conflict
        return _config(asked["thread_id"], namespace, checkpoint["id"])

    async def aput_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote for the step after a checkpoint, which may come later itself."""
        asked, thread = config["configurable"], self._thread(config)
        namespace, step = asked.get("checkpoint_ns", ""), Entries()
        rows = [
            form.Write(task_id, WRITES_IDX_MAP.get(channel, number), channel, self.serde.dumps_typed(value), task_path)
            for number, (channel, value) in enumerate(writes)
        ]
        if not rows:
            return
        thread.note_writes(namespace, asked["checkpoint_id"], (task_path, task_id), writes)
        step.append(name(WRITES, namespace, asked["checkpoint_id"]), form.pack_writes(rows))
        await thread.binding.write(step)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread: its session, archives and binding."""
        thread = self._thread_of(thread_id)
        self._threads.forget(str(thread_id))
        await thread.binding.delete()

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, in all threads."""
        doomed = set(run_ids)
        if not doomed:
            return
        for thread_id in await self._all_threads():
            await self._remove(
                thread_id,
                lambda rows: [
                    row
                    for row, stored in rows.items()
                    if self.serde.loads_typed(stored.metadata).get("run_id") in doomed
                ],
            )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", keep_last: int = 1) -> None:
        """Remove threads, or all but the newest checkpoints of each namespace and what those are rebuilt from."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidValue(f"strategy '{str(strategy)[:40]}' is unknown", hint="one of keep_latest, delete")
        if not isinstance(keep_last, int) or keep_last < 1:
            raise InvalidValue("keep_last must be at least 1", hint='strategy="delete" removes all checkpoints')
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
            else:
                await self._remove(thread_id, None, keep_last)

    async def _remove(self, thread_id: str, choose: Any, keep_last: int = 0) -> None:
        """Remove checkpoints with their writes, and values that no other checkpoint has, in one step."""
        thread = self._thread_of(thread_id)
        for _ in range(_TRIES):
            view = thread.view()
            names = set(await view.names())
            places = [tuple(row) for row in form.parts_of(CHECKPOINT, names)]
            found = await view.read([name(CHECKPOINT, *place) for place in places])
            rows = {
                place: form.unpack_checkpoint(found[named])
                for place in places
                if (named := name(CHECKPOINT, *place)) in found
            }
            versions = {place: self._versions(stored) for place, stored in rows.items()}
            if choose is not None:
                doomed = set(choose(rows))
            else:
                logs = await view.read([name(WRITES, *place) for place in places])
                written = {
                    place: {write.channel for write in form.unpack_writes(logs.get(name(WRITES, *place), b""))}
                    for place in rows
                }
                doomed = rows.keys() - kept_along(rows, versions, written, names, keep_last)
            if not doomed:
                return
            heads = await view.read([name(HEAD, namespace) for namespace in {place[0] for place in doomed}])
            try:
                await thread.binding.write(removal(names, versions, doomed, heads), begins=False)
            except Conflict:
                continue
            except SessionNotFound:
                return
            thread.heads.clear()
            return
        raise Conflict(f"thread '{thread_id[:80]}' goes on all the time", hint="try again")

    def _versions(self, stored: form.Stored) -> Mapping[str, Any]:
        return self.serde.loads_typed(stored.checkpoint)["channel_versions"]  # type: ignore[no-any-return]

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints, writes, values and messages of a thread to another one, in one step."""
        source, target = self._thread_of(source_thread_id), self._thread_of(target_thread_id)
        view = source.view()
        kept = await view.read(await view.names())
        if not kept or source is target:
            return
        step = copy_of(await source.binding.messages(), kept)
        step.event("checkpoint.copied", thread=source_thread_id)
        await target.binding.write(step)
        target.heads.clear()

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """Return a version after one: no two writers make the same."""
        number = current if isinstance(current, int) else int(current.split(".")[0]) if current else 0
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311

    async def close(self) -> None:
        """Close the connections of this loop and of the blocking half, and the Maestro unless it was given."""
        if self._own.is_running:
            await asyncio.wrap_future(self._own.submit(self._let_go()))
            self._own.stop()
        await super().close()

    async def _let_go(self) -> None:
        here = self._loops.pop(asyncio.get_running_loop(), None)
        if here is not None:
            await here.server.close()


def _config(thread_id: Any, namespace: str, checkpoint_id: str) -> Config:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}
