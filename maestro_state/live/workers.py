"""Who carries out runs, and what each has: tools, folders, labels."""

from __future__ import annotations

from maestro_state.live.server import AsyncServer
from maestro_state.models.worker import Worker
from maestro_state.state.calls import checkpoints
from maestro_state.state.calls import workers as ops

#: Inside the class, `list` is the verb.
WorkerList = list[Worker]


class AsyncWorkers:
    """The workers that are there now."""

    def __init__(self, server: AsyncServer) -> None:
        self._server = server

    async def list(self) -> WorkerList:
        """List the workers; one that was killed is listed for ten seconds more."""
        questions = [checkpoints.read_time(), ops.read_present(self._server.terms)]
        now_ms, rows = await self._server.fetch_all(questions)
        return ops.living(rows, now_ms)

    async def announce(self, worker: Worker) -> bool:
        """Say what a worker has. To be repeated more often than every ten seconds."""
        now_ms = await self._server.fetch(checkpoints.read_time())
        noted: bool = await self._server.run(ops.announce_worker(self._server.terms, worker, now_ms))
        return noted

    async def sign_off(self, worker_id: str) -> None:
        """Take a worker off the list: it exits."""
        await self._server.fetch(ops.sign_off(self._server.terms, worker_id))
