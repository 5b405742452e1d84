"""Job queues that start the same child as Maestro's worker does.

`python -m benchmarks.peers.queues NAME PORT` is a worker. Each job says when its child was started, in nanoseconds, on
a list that the asking process waits at.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.rig import loop

#: A child that says when it was started.
CHILD = ("date", "+%s%N")
DONE = "bench:done"
_QUEUE = "bench"


def start_child(port: int) -> None:
    """Start the child and pass on what it said."""
    said = subprocess.run(CHILD, capture_output=True, check=True).stdout
    _done(port).rpush(DONE, said)


async def start_child_awaited(_: Any, *, port: int) -> None:
    """Start the child in a worker that is an event loop."""
    child = await asyncio.create_subprocess_exec(*CHILD, stdout=asyncio.subprocess.PIPE)
    said, _ = await child.communicate()
    _done(port).rpush(DONE, said)


_clients: dict[int, redis.Redis] = {}


def _done(port: int) -> redis.Redis:
    if port not in _clients:
        _clients[port] = redis.Redis(port=port)
    return _clients[port]


def _huey(port: int) -> Any:
    from huey import RedisHuey

    huey = RedisHuey(_QUEUE, port=port)
    return huey, huey.task()(start_child)


def worker(name: str, port: int) -> None:
    """Work until told to stop."""
    if name == "rq":
        from rq import Queue, Worker

        raw = redis.Redis(port=port)
        worker = Worker([Queue(_QUEUE, connection=raw)], connection=raw, log_job_description=False)
        worker.work(logging_level="ERROR")
    elif name == "arq":
        from arq.connections import RedisSettings
        from arq.worker import Worker as ArqWorker
        from arq.worker import func

        asyncio.set_event_loop(asyncio.new_event_loop())  # it takes the current one, which newer Pythons do not make
        ArqWorker([func(start_child_awaited, name="child")], redis_settings=RedisSettings(port=port)).run()
    elif name == "saq":
        from saq.queue.redis import RedisQueue
        from saq.worker import Worker as SaqWorker

        async def work() -> None:
            queue = RedisQueue.from_url(f"redis://127.0.0.1:{port}", name=_QUEUE)
            await SaqWorker(queue, [("child", start_child_awaited)]).start()

        asyncio.run(work())
    else:
        huey, _ = _huey(port)
        huey.create_consumer(workers=1).run()


class Queue:
    """One queue with its worker, asked from here."""

    def __init__(self, name: str, port: int) -> None:
        """Start its worker; raise ImportError when the product is not there."""
        self._raw = redis.Redis(port=port)
        self._ask = getattr(self, f"_{name}")(port)
        command = [sys.executable, "-m", "benchmarks.peers.queues", name, str(port)]
        self._worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.start(timeout_s=20)
        except TimeoutError:
            self.close()
            assert self._worker.stderr
            raise RuntimeError((self._worker.stderr.read().strip().splitlines() or ["no job done"])[-1]) from None

    @property
    def pid(self) -> int:
        """Return its worker's process."""
        return self._worker.pid

    def start(self, timeout_s: int = 20) -> int:
        """Ask for the child; return when it was started, in nanoseconds of the epoch, once the job is done."""
        self._ask()
        found: Any = self._raw.blpop([DONE], timeout_s)
        if found is None:
            raise TimeoutError
        return int(found[1])

    def close(self) -> None:
        """Stop the worker."""
        self._worker.terminate()
        try:
            self._worker.wait(10)
        except subprocess.TimeoutExpired:
            self._worker.kill()
            self._worker.wait()

    def _rq(self, port: int) -> Callable[[], object]:
        from rq import Queue as RqQueue

        queue = RqQueue(_QUEUE, connection=self._raw)
        return lambda: queue.enqueue("benchmarks.peers.queues.start_child", port)

    def _arq(self, port: int) -> Callable[[], object]:
        from arq import create_pool
        from arq.connections import RedisSettings

        pool = loop().run_until_complete(create_pool(RedisSettings(port=port)))
        return lambda: loop().run_until_complete(pool.enqueue_job("child", port=port))

    def _saq(self, port: int) -> Callable[[], object]:
        from saq.queue.redis import RedisQueue

        queue = RedisQueue.from_url(f"redis://127.0.0.1:{port}", name=_QUEUE)
        return lambda: loop().run_until_complete(queue.enqueue("child", port=port))

    def _huey(self, port: int) -> Callable[[], object]:
        _, task = _huey(port)
        return lambda: task(port)


if __name__ == "__main__":
    # Under its own name, which is the one jobs carry: run as a program this module is another one.
    from benchmarks.peers import queues

    queues.worker(sys.argv[1], int(sys.argv[2]))
