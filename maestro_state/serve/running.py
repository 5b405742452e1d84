"""The process of `maestro serve`: a socket, uvicorn, and a stop that tells everybody who listens to come back."""

from __future__ import annotations

import logging
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

from maestro_state.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from maestro_state.serve.app import App

#: Seconds that requests under way may take when it stops.
_STOP_S = 10


class _Server(uvicorn.Server):
    """Says that it is ready; lets streams go before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: App, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app, self._ready = app, ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; the second Ctrl-C at once. That is how this ends, and no reason to die of the signal afterwards."""
        del frame
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.end_streams()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Take the address, before anything else is done."""
    # By name of its protocol: else asyncio does not know that it is TCP, and each answer waits for the last one's echo.
    line = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        line.bind((host, port))
    except OSError as error:
        line.close()
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port") from None
    line.listen(2048)
    line.setblocking(False)
    return line


def serve(
    app: App, line: socket.socket, ready: Callable[[], None], *, cert: str | None = None, key: str | None = None
) -> bool:
    """Serve until a signal says to stop; False when it could not start."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what went wrong is said by the application
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=app.options.behind_proxy,
        timeout_graceful_shutdown=_STOP_S,
        ssl_certfile=cert,
        ssl_keyfile=key,
    )
    server = _Server(config, app, ready)
    server.run(sockets=[line])
    return server.started
