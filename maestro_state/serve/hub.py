"""One reader of a session for all who follow it over HTTP: one blocked read of the server, however many there are.

A hub keeps the last events as they go over the wire, each made once. A follower has a place in them and nothing of its
own; one that is so slow that its place is gone is let go, and comes back with the id it saw last.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any

from maestro_state.errors import MaestroError, NoProject, NotFound
from maestro_state.local.logs import get_logger
from maestro_state.models.message import id_order, id_time
from maestro_state.serve.request import encode
from maestro_state.state.calls.events import START

if TYPE_CHECKING:
    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.models.message import Changed, Event
    from maestro_state.models.session import SessionSummary

log = get_logger("maestro.serve")

ENDS = ("session.finalized", "session.aborted")

#: What is kept for those who are behind: so many pieces, or so many bytes.
KEPT, KEPT_BYTES = 1024, 8 * 1024 * 1024
#: Bytes that may lie in a hub when everybody has sent them: letting go of them is work for each follower.
SENT_BYTES = 512 * 1024
#: Bytes that one follower takes at a time.
TAKEN_BYTES = 128 * 1024
#: Seconds between two comments that show followers, and what is between, that the line is open.
BEAT_S = 10.0
#: Seconds until a server that is away is asked again.
_AGAIN_S = 0.5
#: How long a read of all changes waits for one, in milliseconds.
_WAIT_MS = 5000
_BEAT = (None, b":\n\n")
#: What followers are told when this process stops: come back soon.
STOPPING = b"retry: 500\n: the server stops; come back\n\n"


def wire(event: Event) -> bytes:
    """Return an event as it is sent. Its type and its id are ours: no line end can be in them."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.id.encode(), event.type.encode(), encode(event.document()))


class Follower:
    """Somebody's place in a hub."""

    __slots__ = ("at", "lost", "task")

    def __init__(self, at: int) -> None:
        """Take the number of the next piece to send."""
        self.at = at
        self.lost = False  #: too slow: what comes next is not kept any more
        self.task: asyncio.Task[None] | None = asyncio.current_task()


class Hub:
    """What goes on in one session, for everybody who follows it here."""

    def __init__(self) -> None:
        """Begin with nothing; pieces are numbered from 0."""
        self.followers: set[Follower] = set()
        self.is_over = False  #: nothing more will come
        self.is_stopping = False  #: this process stops
        self._first = 0
        self._bytes = 0
        self._check_above = SENT_BYTES  #: bytes from which on it is checked who has sent what
        self._pieces: list[tuple[str | None, bytes]] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def next(self) -> int:
        """The number of the next piece."""
        return self._first + len(self._pieces)

    @property
    def held_bytes(self) -> int:
        """How much is kept now."""
        return self._bytes

    def put(self, piece: tuple[str | None, bytes]) -> None:
        """Keep a piece, and wake everybody."""
        self._pieces.append(piece)
        self._bytes += len(piece[1])
        if self._bytes > self._check_above:
            self._drop_sent()
        if len(self._pieces) > KEPT or self._bytes > KEPT_BYTES:
            self._forget()
        self.wake()

    def wake(self) -> None:
        """Have everybody look again."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def _drop(self, count: int) -> None:
        self._bytes -= sum(len(data) for _, data in self._pieces[:count])
        del self._pieces[:count]
        self._first += count

    def _drop_sent(self) -> None:
        """Drop what everybody has taken; check again when there is twice as much as is left."""
        self._drop(min((one.at for one in self.followers if not one.lost), default=self.next) - self._first)
        self._check_above = max(SENT_BYTES, 2 * self._bytes)

    def _forget(self) -> None:
        """Drop the older half, and let go of those who have not even sent that."""
        self._drop(len(self._pieces) // 2 or 1)
        for follower in self.followers:
            if follower.at < self._first and not follower.lost:
                follower.lost = True
                if follower.task is not None:
                    follower.task.cancel()

    def take(self, follower: Follower, after: tuple[int, int]) -> tuple[bytes, tuple[int, int]]:
        """Return what comes next for a follower, after an id, and the id it then has; nothing when it has everything.

        At most so much that many who wake up late together do not each hold all of it.
        """
        found, size = [], 0
        for event_id, data in islice(self._pieces, follower.at - self._first, None):
            follower.at += 1
            if event_id is not None:
                order = id_order(event_id)
                if order <= after:
                    continue
                after = order
            found.append(data)
            size += len(data)
            if size >= TAKEN_BYTES:
                break
        return (found[0] if len(found) == 1 else b"".join(found)), after

    async def news(self) -> None:
        """Return when there is something to take, or nothing more will come."""
        if self.is_over or self.is_stopping:
            return
        # One for each: a follower that goes must not take the others' news along.
        news = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        await news


class Hubs:
    """The hubs of all sessions that somebody follows."""

    def __init__(self, maestro: AsyncMaestro) -> None:
        """Take what reads the server."""
        self._maestro = maestro
        self._hubs: dict[str, Hub] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self.is_stopping = False

    @property
    def followers(self) -> int:
        """How many follow anything."""
        return sum(len(hub.followers) for hub in self._hubs.values())

    async def join(self, name: str) -> Hub:
        """Return the hub of a session, with its reader at work: what happens from now on is in it."""
        hub = self._hubs.get(name)
        if hub is None or hub.is_over:
            newest = await self._newest(name)
            hub = self._hubs.get(name)  # somebody else may have been faster
            if hub is None or hub.is_over:
                hub = self._hubs[name] = Hub()
                hub.is_stopping = self.is_stopping
                reading = self._read_all(hub, newest) if name == ALL else self._read(name, hub, newest)
                self._readers[name] = asyncio.create_task(reading)
                self._readers[name].add_done_callback(lambda _: self._drop(name, hub))
        return hub

    async def _newest(self, name: str) -> str:
        """Return where a reader begins; where no session ever began, before the first one."""
        follow = self._maestro.follow
        try:
            return await (follow.newest_change() if name == ALL else follow.newest(name)) or START
        except NoProject:
            if name != ALL:
                raise
            return START

    def detach(self, hub: Hub, follower: Follower) -> None:
        """Take a follower out; a hub without any stops reading."""
        hub.followers.discard(follower)
        if not hub.followers:
            name = next((name for name, one in self._hubs.items() if one is hub), None)
            if name is not None and name in self._readers:
                self._readers[name].cancel()
                self._drop(name, hub)

    def _drop(self, name: str, hub: Hub) -> None:
        hub.is_over = True
        hub.wake()
        if self._hubs.get(name) is hub:
            del self._hubs[name]
            self._readers.pop(name, None)

    async def _read(self, session_id: str, hub: Hub, cursor: str) -> None:
        """Put every event after the cursor; a server that is away is waited for."""
        beat = asyncio.create_task(_beat(hub))
        try:
            while True:
                try:
                    found: Any = self._maestro.follow.events(session_id, cursor=cursor)
                    async with aclosing(found) as events:
                        async for event in events:
                            cursor = event.id
                            hub.put((event.id, wire(event)))
                    return
                except NotFound:
                    return
                except MaestroError as error:
                    log.warning("follow_waits", session_id=session_id, error=str(error))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            beat.cancel()

    async def _read_all(self, hub: Hub, cursor: str) -> None:
        """Put what changes in any session after the cursor: one blocked read, for everybody together."""
        beat = asyncio.create_task(_beat(hub))
        try:
            while True:
                try:
                    for change in await self._maestro.follow.changes(cursor, wait_ms=_WAIT_MS):
                        cursor = change.id
                        hub.put((change.id, changed(change)))
                except NoProject:
                    await asyncio.sleep(_AGAIN_S)  # the first session makes one
                except MaestroError as error:
                    log.warning("follow_waits", session_id=ALL, error=str(error))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            beat.cancel()

    async def close(self) -> None:
        """Tell every follower to come back, and stop reading."""
        self.is_stopping = True
        for hub in list(self._hubs.values()):
            hub.is_stopping = True
            hub.wake()
        for reader in list(self._readers.values()):
            reader.cancel()


#: The name of the hub of all sessions.
ALL = "*"


def listed(row: SessionSummary) -> bytes:
    """Return what is told of a session to who asks for all of them: its row of the list, which is at no place."""
    return b"event: session.changed\ndata: %s\n\n" % encode({"type": "session.changed", "data": row.document()})


def changed(change: Changed) -> bytes:
    """Return what is told of a session that changed: its row of the list; of one that is gone, its id."""
    kind = "session.changed" if change.row else "session.removed"
    data = change.row.document() if change.row else {"id": change.session_id}
    told = {"id": change.id, "ts": id_time(change.id), "type": kind, "data": data}
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (change.id.encode(), kind.encode(), encode(told))


async def _beat(hub: Hub) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        hub.put(_BEAT)
