"""The front door: one object per project and server, with a room for each thing that can be done.

A room is imported when it is first entered: a command pays only for those it uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from maestro_state import clock
from maestro_state._sync.server import Server
from maestro_state.local.opening import Opening
from maestro_state.net import connect

if TYPE_CHECKING:
    from maestro_state._sync.budgets import Budgets
    from maestro_state._sync.claims import Claims
    from maestro_state._sync.follow import Follow
    from maestro_state._sync.ledger import Ledger
    from maestro_state._sync.messages import Messages
    from maestro_state._sync.metrics import Metrics
    from maestro_state._sync.queue import Queue
    from maestro_state._sync.tokens import Tokens
    from maestro_state._sync.workers import Workers
    from maestro_state.api.archives import Archives
    from maestro_state.api.bindings import Bindings
    from maestro_state.api.context import Context
    from maestro_state.api.discussions import Discussions
    from maestro_state.api.histories import Histories
    from maestro_state.api.runs import Runs
    from maestro_state.api.search import Search
    from maestro_state.api.sessions import Sessions
    from maestro_state.api.tools import Tools
    from maestro_state.api.work import Work
    from maestro_state.local.stack import Stack
    from maestro_state.mirror.places import Places
    from maestro_state.models.usage import UsageReport
    from maestro_state.upkeep.doctor import Health
    from maestro_state.upkeep.history_follower import HistoryFollower
    from maestro_state.upkeep.scheduler_lease import Schedule
    from maestro_state.upkeep.sweep import SweepReport


class Maestro:
    """Maestro in a project. Nothing is opened before the first call; use it as a context manager to close it.

    `project` is any folder of the project (default: the current one). Settings not given here come from the
    environment and the settings files; with no server set anywhere, the project's own embedded one is used.

    `client` is a redis-py client of your own (`redis.Redis`, one of `Sentinel.master_for()`, `redis.RedisCluster`):
    Maestro opens connections like its own, with its pool's kind and size, credentials, TLS and retries, and neither
    uses nor closes the client. Workers are processes of their own: they need MAESTRO_REDIS_URL. See docs/own-client.md.
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
        **settings: Any,
    ) -> None:
        opening = Opening.of(project, environment, settings, client)
        self.settings, self.project = opening.settings, opening.project
        self.project.read_rows = lambda: self.places.index_rows()
        address = opening.address if client_name is None else replace(opening.address, client_name=client_name)
        self.address = address
        self.server = Server(connect(address, revive=opening.revive, client=client), opening.terms, now_ms)
        self.revive = opening.revive
        self.is_cluster = address.scheme == "redis+cluster"
        self._environment = environment
        self.pinned = session or self.settings.session

    @cached_property
    def sessions(self) -> Sessions:
        """Start, list, show, switch, end, abort and delete sessions."""
        from maestro_state.api.sessions import Sessions

        return Sessions(self.server, self.project, self.pinned, lambda: self.places, lambda: self.queue)

    @cached_property
    def bindings(self) -> Bindings:
        """Find, make and go on with the sessions that keys of other frameworks are bound to."""
        from maestro_state.api.bindings import Bindings

        return Bindings(self.server, self.places, self.sessions, self.project)

    @cached_property
    def places(self) -> Places:
        """Where archives are written to and read from."""
        from maestro_state.mirror.places import Places

        return Places(self.project, self.settings.archive_root)

    @cached_property
    def archive(self) -> Archives:
        """Write sessions to disk, verify, export and clean them up, and sweep."""
        from maestro_state.api.archives import Archives

        return Archives(
            self.server,
            self.sessions,
            self.places,
            self.queue,
            retention_days=self.settings.retention_days,
            checkpoint_seconds=self.settings.checkpoint_seconds,
            output_bytes=self.settings.max_output_bytes,
            can_scan=not self.is_cluster,
        )

    @cached_property
    def histories(self) -> Histories:
        """Take over what was said in the AI tools themselves."""
        from maestro_state.api.histories import Histories

        return Histories(
            self.places,
            user=self.settings.user,
            ttl_seconds=self.settings.ttl_seconds,
            environment=self._environment,
            now_ms=self.server.now_ms,
            follower=self._history_follower,
            sessions=lambda: self.sessions,
            room=lambda: self.follow,
        )

    def _history_follower(self) -> HistoryFollower:
        from maestro_state.upkeep.history_follower import HistoryFollower

        timeout_s = self.settings.run_timeout_seconds
        return HistoryFollower(self.server, self.sessions, self.messages, self.claims, timeout_s)

    @cached_property
    def messages(self) -> Messages:
        """Add and read messages."""
        from maestro_state._sync.messages import Messages

        return Messages(self.server, self.sessions)

    @cached_property
    def tokens(self) -> Tokens:
        """Make, list and revoke the tokens of `maestro serve`."""
        from maestro_state._sync.tokens import Tokens

        return Tokens(self.server)

    @cached_property
    def budgets(self) -> Budgets:
        """Set, list and remove budgets."""
        from maestro_state._sync.budgets import Budgets

        return Budgets(self.server, self.sessions)

    @cached_property
    def ledger(self) -> Ledger:
        """Charge and count runs."""
        from maestro_state._sync.ledger import Ledger

        return Ledger(self.server)

    @cached_property
    def metrics(self) -> Metrics:
        """Read what `/metrics` tells."""
        from maestro_state._sync.metrics import Metrics

        return Metrics(self.server, self.queue)

    @cached_property
    def context(self) -> Context:
        """Add, list, show, remove and refresh what runs are sent."""
        from maestro_state.api.context import Context

        return Context(self.server, self.sessions, self.project)

    @cached_property
    def tools(self) -> Tools:
        """Choose, list and check the AI tools."""
        from maestro_state.api.tools import Tools

        return Tools(self.server, self.sessions, self.project, self._environment)

    @cached_property
    def runs(self) -> Runs:
        """Start, follow, cancel, list and read runs."""
        from maestro_state.api.runs import Runs
        from maestro_state.local.handover import Handover

        handover = Handover(self.address, self.settings.namespace, self.project.path)
        return Runs(self.server, self.sessions, self.queue, self.settings, self.project, handover)

    @cached_property
    def claims(self) -> Claims:
        """Carry out runs, and recover those whose worker is gone."""
        from maestro_state._sync.claims import Claims

        return Claims(self.server, self.queue)

    @cached_property
    def queue(self) -> Queue:
        """Wake workers and count them."""
        from maestro_state._sync.queue import Queue

        is_routed = not self.address.is_embedded
        return Queue(self.server, self.settings.queue_url, is_cluster=self.is_cluster, is_routed=is_routed)

    @cached_property
    def workers(self) -> Workers:
        """List who carries out runs, and what each has."""
        from maestro_state._sync.workers import Workers

        return Workers(self.server)

    @cached_property
    def follow(self) -> Follow:
        """Follow a session live."""
        from maestro_state._sync.follow import Follow

        return Follow(self.server, self.sessions)

    @cached_property
    def schedule(self) -> Schedule:
        """Take the scheduler's lease, and tell when its work was last done."""
        from maestro_state.upkeep.scheduler_lease import Schedule

        return Schedule(self.server)

    @cached_property
    def health(self) -> Health:
        """Check and repair the set-up."""
        from maestro_state.upkeep.doctor import Health

        return Health(self.server, self.queue, self.project, self.settings)

    @cached_property
    def work(self) -> Work:
        """Start, end and read work sessions; add, consume and count their breadcrumbs."""
        from maestro_state.api.work import Work

        return Work(self.server, self.project)

    @cached_property
    def stack(self) -> Stack:
        """Show and stop the embedded server."""
        from maestro_state.local.stack import Stack

        settings = self.settings
        return Stack(self.project.root, settings.redis_url, settings.namespace, settings.serve_port)

    @cached_property
    def discussions(self) -> Discussions:
        """Discuss, and replay what was decided."""
        from maestro_state.api.discussions import Discussions

        return Discussions(self.server, self.project)

    @cached_property
    def search(self) -> Search:
        """Find what was said, asked, answered, added and noted."""
        from maestro_state.api.search import Search

        return Search(self.server, self.sessions, self.places, self._environment)

    def usage(self, *, by: str = "day", since: str | None = None) -> UsageReport:
        """Add up what runs consumed, by day, tool, model, session or user, over live and archived sessions.

        `since` is a time, a date, or how long ago (`30d`, `24h`).
        """
        from maestro_state.api.usage import Usage

        return Usage(self.server, self.places, self.budgets).report(by, since)

    def sweep(self, *, thorough: bool = False, pause_ms: int = 0) -> SweepReport:
        """Look after everything once; a `thorough` pass also looks for changes that the index has lost. What was done
        less than `pause_ms` ago is left alone.
        """
        from maestro_state.api.sweep import sweep

        return sweep(self, thorough=thorough, pause_ms=pause_ms)

    def sweep_share(self, pause_ms: int = 0) -> SweepReport:
        """Take a share of a pass that somebody else is in charge of; `pause_ms` as for `sweep`."""
        from maestro_state.api.sweep import sweep_share

        return sweep_share(self, pause_ms)

    def close(self) -> None:
        """Close the connections; the server goes on for others."""
        if "queue" in self.__dict__:
            self.queue.close()
        if "search" in self.__dict__:
            self.search.close()
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
