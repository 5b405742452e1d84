"""TLS in front of a server whose binary was built without it: bytes are passed on both ways, nothing is read."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class _Front:
    """The listening side."""

    def __init__(self, port: int, folder: Path, upstream: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self._port, self._upstream = port, upstream
        self._tasks: set[asyncio.Task[None]] = set()
        self._leave = asyncio.Event()

    async def serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port, ssl=self._context)
        ready.set()
        await self._leave.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def leave(self) -> None:
        self._leave.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            await asyncio.gather(_pump(reader, back_writer), _pump(back_reader, writer))
        except (OSError, asyncio.CancelledError):
            writer.close()
        finally:
            self._tasks.discard(task)


@contextmanager
def tls_front(port: int, folder: Path, upstream: int) -> Iterator[None]:
    """Listen with the certificate in a folder, and pass on to a port."""
    loop = asyncio.new_event_loop()
    front = _Front(port, folder, upstream)
    ready = threading.Event()
    # A client that does not trust the certificate hangs up in the middle of the handshake: that is a test, not news.
    loop.set_exception_handler(lambda _loop, _context: None)
    thread = threading.Thread(target=loop.run_until_complete, args=(front.serve(ready),))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        loop.call_soon_threadsafe(front.leave)
        thread.join(60)
        loop.close()
