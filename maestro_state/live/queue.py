"""The queue workers wait on: on the state server, or on one of its own where that is set.

The workers of a project's own stack all have the same, and wait on one list. On a team's server each waits on the list
of its profile, and the job of a run is put into the list of every profile that has what the run needs. Who takes it
first claims the run; the other jobs then wake nobody, or somebody who finds that there is nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from maestro_state.errors import ConfigError
from maestro_state.live.server import AsyncServer
from maestro_state.live.workers import AsyncWorkers
from maestro_state.models.worker import Waiting, Worker
from maestro_state.net import connect_async, parse_url
from maestro_state.state.calls import queue as queueing

Profiles = list[str]

#: Seconds for which it is remembered who is there: as long as a pass over all open runs takes.
_PRESENT_S = 0.5
#: And who might have been asked for a run that somebody has claimed by now: what is not withdrawn is found out then.
KNOWN_S = 10.0


class AsyncQueue:
    """Wakes workers, and tells how many there are."""

    def __init__(self, server: AsyncServer, queue_url: str | None, *, is_cluster: bool, is_routed: bool) -> None:
        self._server = server
        #: Whether workers differ in what they have; those of a stack do not.
        self.is_routed = is_routed
        self._present: list[Worker] = []
        self._present_s = float("-inf")
        self._has_silent: bool | None = None
        self._own: AsyncServer | None = None
        if queue_url:
            address = replace(parse_url(queue_url), setting="MAESTRO_QUEUE_URL")
            self._own = AsyncServer(connect_async(address), server.terms, server.now_ms)
        self._is_cluster = is_cluster

    async def present(self, *, within_s: float = _PRESENT_S) -> list[Worker]:
        """Return the workers that said what they have, as it was at most so long ago; none where all have the same."""
        now_s = time.monotonic()
        if self.is_routed and now_s >= self._present_s + within_s:
            self._present = await AsyncWorkers(self._server).list()
            self._present_s, self._has_silent = now_s, None
        return self._present

    async def enqueue(self, run: Waiting) -> bool:
        """Wake a worker that has what a run needs; False when its job waits already, or when there is none."""
        now_ms, terms = self._server.now_ms(), self._server.terms
        calls = [queueing.enqueue_run(terms, run, profile, now_ms) for profile in await self._profiles(run)]
        if len(calls) == 1:
            added: bool = await self._queue.run(calls[0])
            return added
        return any(await self._queue.run_all(calls)) if calls else False

    async def withdraw(self, run: Waiting, taken_by: str) -> None:
        """Take back the jobs of a run that a worker of one profile has claimed: the others need not wake up for it."""
        others = {worker.queue for worker in await self.present(within_s=KNOWN_S)} - {taken_by}
        calls = [queueing.withdraw_run(self._server.terms, run, profile) for profile in sorted(others)]
        if calls:
            await self._queue.run_all(calls)

    async def _profiles(self, run: Waiting) -> Profiles:
        """Return for which workers the job of a run waits; the empty name is that of all that have not said anything.

        With nobody who can carry it out it waits for nobody: the first who can finds it among the open runs.
        """
        present = await self.present()
        if not present:
            return [""]
        from maestro_state.tools.worker_matching import queues_for

        found = queues_for(run.needs, present)
        return found or ([""] if run.needs.holders or await self.has_silent_worker() else [])

    async def has_silent_worker(self) -> bool:
        """Tell whether a worker listens that has not said what it has: one of an earlier version."""
        known = tuple(f"-{worker.id}".encode() for worker in await self.present())
        if self._has_silent is None:  # not since it was read who is there
            names = await self._queue.fetch(queueing.worker_names(self._server.terms))
            asked = [("EXISTS", name) for name in names if not name.endswith(known)]
            self._has_silent = bool(asked) and any(await self._queue.connection.calls(asked))
        return self._has_silent

    async def _any_profile(self, attempt: int) -> str:
        """Return for which workers something waits that any of them can do: with each attempt for others."""
        found = sorted({worker.queue for worker in await self.present()})
        return found[attempt % len(found)] if found else ""

    async def enqueue_finalization(self, session_id: str, attempt: int = 0) -> bool:
        """Wake a worker to archive a session that has ended; False when its job waits there already."""
        now_ms, profile = self._server.now_ms(), await self._any_profile(attempt)
        call = queueing.enqueue_finalization(self._server.terms, session_id, attempt, now_ms, profile)
        added: bool = await self._queue.run(call)
        return added

    async def enqueue_sending(self, ref: str, token: str, attempt: int) -> str:
        """Wake a worker to send what it has archived under a reference; return for which workers that waits."""
        now_ms, profile = self._server.now_ms(), await self._any_profile(attempt)
        await self._queue.run(queueing.enqueue_sending(self._server.terms, ref, token, attempt, now_ms, profile))
        return profile

    async def withdraw_sending(self, token: str, attempt: int, profile: str = "") -> None:
        """Take back a job of sending that no worker has taken."""
        await self._queue.run(queueing.withdraw_sending(self._server.terms, token, attempt, profile))

    async def finalization_status(self, session_id: str, attempt: int = 0) -> str | None:
        """Return how far the job of archiving a session is, in RQ's words; None when it is gone."""
        terms = self._server.terms
        query = queueing.job_status(terms, queueing.finalization_id(terms, session_id, attempt))
        status: str | None = await self._queue.fetch(query)
        return status

    async def ahead(self, run: Waiting) -> int | None:
        """Count the jobs that are taken before a run's; None when it does not wait."""
        terms, profiles = self._server.terms, await self._profiles(run)
        # Also where every worker looks: it was asked for before any of those was there.
        asked = [queueing.jobs_ahead(terms, run, profile) for profile in dict.fromkeys([*profiles, ""])]
        found = [count for count in await self._queue.fetch_all(asked) if count is not None]
        return min(found, default=None)

    async def waiting(self) -> int:
        """Count the jobs that no worker has taken yet; one that waits for several kinds of workers is one."""
        terms = self._server.terms
        profiles = sorted({worker.queue for worker in await self.present() if worker.queue})
        asked = [queueing.waiting_jobs(terms), *(queueing.routed_jobs(terms, profile) for profile in profiles)]
        count, *routed = await self._queue.fetch_all(asked)
        return int(count) + len({job for jobs in routed for job in jobs})

    async def workers(self, host: str | None = None) -> int:
        """Count the workers that listen now, all or those of one machine."""
        names = await self._queue.fetch(queueing.worker_names(self._server.terms))
        if host is not None:  # a name ends with host, process and mark, and another host's may begin like this one's
            names = [name for name in names if name.rsplit(b"-", 2)[0].endswith(f"@{host}".encode())]
        return sum(await self._queue.connection.calls([("EXISTS", name) for name in names]))

    async def has_worker_of(self, holders: Sequence[str]) -> bool:
        """Tell whether a worker lives that can get an environment from one of these."""
        names = await self._queue.fetch(queueing.worker_names(self._server.terms))
        theirs = [name for name in names if name.endswith(tuple(f"-{holder}".encode() for holder in holders))]
        return any(await self._queue.connection.calls([("EXISTS", name) for name in theirs]))

    @property
    def _queue(self) -> AsyncServer:
        if self._own is not None:
            return self._own
        if self._is_cluster:
            raise ConfigError(
                "runs need a queue, and RQ does not work on Redis Cluster",
                hint="set MAESTRO_QUEUE_URL to a plain or Sentinel server",
            )
        return self._server

    async def close(self) -> None:
        """Close the connection to the queue's own server."""
        if self._own is not None:
            await self._own.close()
