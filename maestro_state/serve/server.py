"""The process of `maestro serve`: a socket, uvicorn, and a stop that tells everybody who listens to come back."""

from __future__ import annotations

import logging
import resource
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

from maestro_state.errors import ServerUnavailable
from maestro_state.serve.http_protocol import BoundedHttpProtocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from maestro_state.serve.app import App

#: Seconds that requests under way may take when it stops.
_STOP_S = 10
#: Connections and files that may be open: shells give programs 1024, and each who follows has one for long.
_FILES = 16_384


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


def serve(
    app: App, line: socket.socket, ready: Callable[[], None], *, cert: str | None = None, key: str | None = None
) -> None:
    """Serve until a signal says to stop; raise what kept it from starting."""
    _allow_files()
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what went wrong is said by the application
    logging.getLogger("mcp").setLevel(logging.WARNING)  # every connection's coming and going is not who did what
    config = uvicorn.Config(
        app,
        http=BoundedHttpProtocol,
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
    try:
        server.run(sockets=[line])
    except SystemExit:  # uvicorn's word for a start that failed
        raise app.failure or ServerUnavailable("it could not start to serve") from None


def _allow_files() -> None:
    """Take as many open files as the system gives, up to what is enough."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(OSError, ValueError):  # then it has what it was given
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
