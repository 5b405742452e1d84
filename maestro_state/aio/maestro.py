"""The front door for an event loop: the rooms of `Maestro`, awaited."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from maestro_state import clock
from maestro_state.aio.companion import Companion
from maestro_state.api.maestro import Maestro
from maestro_state.live.server import AsyncServer
from maestro_state.net import connect_async
from maestro_state.net.threads import in_thread
from maestro_state.state import scripts

if TYPE_CHECKING:
    from maestro_state.aio.rooms.archives import AsyncArchives
    from maestro_state.aio.rooms.bindings import AsyncBindings
    from maestro_state.aio.rooms.context import AsyncContext
    from maestro_state.aio.rooms.discussions import AsyncDiscussions
    from maestro_state.aio.rooms.doctor import AsyncHealth
    from maestro_state.aio.rooms.histories import AsyncHistories
    from maestro_state.aio.rooms.runs import AsyncRuns
    from maestro_state.aio.rooms.scheduler_lease import AsyncSchedule
    from maestro_state.aio.rooms.search import AsyncSearch
    from maestro_state.aio.rooms.sessions import AsyncSessions
    from maestro_state.aio.rooms.stack import AsyncStack
    from maestro_state.aio.rooms.tools import AsyncTools
    from maestro_state.aio.rooms.work import AsyncWork
    from maestro_state.live.budgets import AsyncBudgets
    from maestro_state.live.claims import AsyncClaims
    from maestro_state.live.follow import AsyncFollow
    from maestro_state.live.ledger import AsyncLedger
    from maestro_state.live.messages import AsyncMessages
    from maestro_state.live.metrics import AsyncMetrics
    from maestro_state.live.queue import AsyncQueue
    from maestro_state.live.tokens import AsyncTokens
    from maestro_state.live.workers import AsyncWorkers
    from maestro_state.local.project import Project
    from maestro_state.local.settings import Settings
    from maestro_state.mirror.places import Places
    from maestro_state.models.usage import UsageReport
    from maestro_state.net.url import Address
    from maestro_state.upkeep.sweep import SweepReport


class AsyncMaestro:
    """Maestro in a project, for an event loop: same arguments, rooms and verbs as `Maestro`, awaited.

    What only talks to the server is done by the loop itself; what works on files is done in threads, and a call that
    is canceled there is not made, or done to its end. Settings and the current folder are read by `async with` or
    `await maestro.open()`, in a thread too; without either, by the first room that is entered, in the loop's.

    `client` is a `redis.asyncio` client of your own, as `Maestro` takes a blocking one. The threads' connections are
    made like its own; where that cannot be (a connection class of your own, say), `blocking_client` is the one to make
    them like.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] | None = None,
        *,
        session: str | None = None,
        environment: Mapping[str, str] = os.environ,
        now_ms: Callable[[], int] = clock.now_ms,
        client_name: str | None = None,
        client: Any = None,
        blocking_client: Any = None,
        **settings: Any,
    ) -> None:
        """Take what `Maestro` takes; nothing is read yet."""
        self._client = client
        if client is not None or blocking_client is not None:
            from maestro_state.net.own_client import companion_client

            blocking_client = companion_client(client, blocking_client)
        self._companion = Companion(
            partial(
                Maestro,
                project,
                session=session,
                environment=environment,
                now_ms=now_ms,
                client_name=client_name,
                client=blocking_client,
                **settings,
            )
        )

    async def open(self) -> Self:
        """Read the settings, and the scripts that the loop sends to the server."""
        await in_thread(self._read_files)
        return self

    def _read_files(self) -> None:
        self._companion.open()
        for name in scripts.names():
            scripts.load(name)

    @property
    def blocking(self) -> Maestro:
        """The same Maestro for blocking calls, from other threads; closed with this one."""
        return self._companion.open()

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.blocking.settings

    @property
    def project(self) -> Project:
        """The project's folders. Its methods block."""
        return self.blocking.project

    @property
    def places(self) -> Places:
        """Where archives are written to and read from. Its methods block."""
        return self.blocking.places

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self.blocking.address

    @cached_property
    def server(self) -> AsyncServer:
        """The server, for calls of one's own."""
        return self.another_server()

    def another_server(self) -> AsyncServer:
        """Return the server with connections of its own: for an event loop beside the one that uses this Maestro."""
        blocking = self.blocking
        connection = connect_async(blocking.address, revive=blocking.revive, client=self._client)
        return AsyncServer(connection, blocking.server.terms, blocking.server.now_ms)

    @cached_property
    def sessions(self) -> AsyncSessions:
        """Start, list, show, switch, end, abort and delete sessions."""
        from maestro_state.aio.rooms.sessions import AsyncSessions
        from maestro_state.upkeep.expiry import Expiry

        blocking = self.blocking
        return AsyncSessions(
            self._companion,
            lambda maestro: maestro.sessions,
            self.server,
            blocking.project,
            blocking.pinned,
            lambda: blocking.places,
            lambda session_id: Expiry(blocking.server, blocking.places).freeze(session_id),
            lambda: [row.id for row in blocking.sessions.list(everything=True)],
        )

    @cached_property
    def bindings(self) -> AsyncBindings:
        """Find, make and go on with the sessions that keys of other frameworks are bound to."""
        from maestro_state.aio.rooms.bindings import AsyncBindings

        return AsyncBindings(self._companion, lambda maestro: maestro.bindings, self.server, self.places)

    @cached_property
    def archive(self) -> AsyncArchives:
        """Write sessions to disk, verify, export and clean them up, and sweep."""
        from maestro_state.aio.rooms.archives import AsyncArchives

        return AsyncArchives(self._companion, lambda maestro: maestro.archive)

    @cached_property
    def messages(self) -> AsyncMessages:
        """Add and read messages."""
        from maestro_state.live.messages import AsyncMessages

        return AsyncMessages(self.server, self.sessions)

    @cached_property
    def tokens(self) -> AsyncTokens:
        """Make, list and revoke the tokens of `maestro serve`."""
        from maestro_state.live.tokens import AsyncTokens

        return AsyncTokens(self.server)

    @cached_property
    def budgets(self) -> AsyncBudgets:
        """Set, list and remove budgets."""
        from maestro_state.live.budgets import AsyncBudgets

        return AsyncBudgets(self.server, self.sessions)

    @cached_property
    def ledger(self) -> AsyncLedger:
        """Charge and count runs."""
        from maestro_state.live.ledger import AsyncLedger

        return AsyncLedger(self.server)

    @cached_property
    def metrics(self) -> AsyncMetrics:
        """Read what `/metrics` tells."""
        from maestro_state.live.metrics import AsyncMetrics

        return AsyncMetrics(self.server, self.queue)

    @cached_property
    def context(self) -> AsyncContext:
        """Add, list, show, remove and refresh what runs are sent."""
        from maestro_state.aio.rooms.context import AsyncContext

        return AsyncContext(self._companion, lambda maestro: maestro.context)

    @cached_property
    def histories(self) -> AsyncHistories:
        """Take over what was said in the AI tools themselves."""
        from maestro_state.aio.rooms.histories import AsyncHistories

        return AsyncHistories(self._companion, lambda maestro: maestro.histories)

    @cached_property
    def tools(self) -> AsyncTools:
        """Choose, list and check the AI tools."""
        from maestro_state.aio.rooms.tools import AsyncTools

        return AsyncTools(self._companion, lambda maestro: maestro.tools)

    @cached_property
    def runs(self) -> AsyncRuns:
        """Start, follow, cancel, list and read runs."""
        from maestro_state.aio.rooms.runs import AsyncRuns

        most = self.settings.max_output_bytes
        return AsyncRuns(self._companion, lambda maestro: maestro.runs, self.server, self.sessions, self.queue, most)

    @cached_property
    def claims(self) -> AsyncClaims:
        """Carry out runs, and recover those whose worker is gone."""
        from maestro_state.live.claims import AsyncClaims

        return AsyncClaims(self.server, self.queue)

    @cached_property
    def queue(self) -> AsyncQueue:
        """Wake workers and count them."""
        from maestro_state.live.queue import AsyncQueue

        is_cluster, is_routed = self.blocking.is_cluster, not self.address.is_embedded
        return AsyncQueue(self.server, self.settings.queue_url, is_cluster=is_cluster, is_routed=is_routed)

    @cached_property
    def workers(self) -> AsyncWorkers:
        """List who carries out runs, and what each has."""
        from maestro_state.live.workers import AsyncWorkers

        return AsyncWorkers(self.server)

    @cached_property
    def follow(self) -> AsyncFollow:
        """Follow a session live."""
        from maestro_state.live.follow import AsyncFollow

        return AsyncFollow(self.server, self.sessions)

    @cached_property
    def schedule(self) -> AsyncSchedule:
        """Take the scheduler's lease, and tell when its work was last done."""
        from maestro_state.aio.rooms.scheduler_lease import AsyncSchedule

        return AsyncSchedule(self._companion, lambda maestro: maestro.schedule)

    @cached_property
    def health(self) -> AsyncHealth:
        """Check and repair the set-up."""
        from maestro_state.aio.rooms.doctor import AsyncHealth

        return AsyncHealth(self._companion, lambda maestro: maestro.health)

    @cached_property
    def work(self) -> AsyncWork:
        """Start, end and read work sessions; add, consume and count their breadcrumbs."""
        from maestro_state.aio.rooms.work import AsyncWork

        return AsyncWork(self._companion, lambda maestro: maestro.work)

    @cached_property
    def stack(self) -> AsyncStack:
        """Show and stop the embedded server."""
        from maestro_state.aio.rooms.stack import AsyncStack

        return AsyncStack(self._companion, lambda maestro: maestro.stack)

    @cached_property
    def discussions(self) -> AsyncDiscussions:
        """Discuss, and replay what was decided."""
        from maestro_state.aio.rooms.discussions import AsyncDiscussions

        return AsyncDiscussions(self._companion, lambda maestro: maestro.discussions)

    @cached_property
    def search(self) -> AsyncSearch:
        """Find what was said, asked, answered, added and noted."""
        from maestro_state.aio.rooms.search import AsyncSearch

        return AsyncSearch(self._companion, lambda maestro: maestro.search)

    async def usage(self, *, by: str = "day", since: str | None = None) -> UsageReport:
        """Add up what runs consumed, by day, tool, model, session or user, over live and archived sessions.

        `since` is a time, a date, or how long ago (`30d`, `24h`).
        """
        return await self._companion.call(lambda maestro: maestro, lambda maestro: maestro.usage(by=by, since=since))

    async def sweep(self, *, thorough: bool = False, pause_ms: int = 0) -> SweepReport:
        """Look after everything once; a `thorough` pass also looks for changes that the index has lost. What was done
        less than `pause_ms` ago is left alone.
        """

        def sweep(maestro: Maestro) -> SweepReport:
            return maestro.sweep(thorough=thorough, pause_ms=pause_ms)

        return await self._companion.call(lambda maestro: maestro, sweep)

    async def sweep_share(self, pause_ms: int = 0) -> SweepReport:
        """Take a share of a pass that somebody else is in charge of; `pause_ms` as for `sweep`."""
        return await self._companion.call(lambda maestro: maestro, lambda maestro: maestro.sweep_share(pause_ms))

    async def close(self) -> None:
        """Close the connections when the calls under way are done; the server goes on for others."""
        await in_thread(self._companion.close)
        if "queue" in self.__dict__:
            await self.queue.close()
        if "server" in self.__dict__:
            await self.server.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()
