"""Who is connected: each client is shown as attached to the session it works in, by the name it gave itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from maestro_state.aio.maestro import AsyncMaestro
from maestro_state.clock import iso, now_ms
from maestro_state.errors import MaestroError
from maestro_state.models.session import Terminal
from maestro_state.state.calls.terminals import BEAT_MS

#: A client that came by single requests counts as gone after so long without one, in milliseconds.
GONE_MS = 60_000
#: Longest part of a name that a client gave itself.
_NAME_MAX = 80
#: Most clients that are shown at once; who comes later is served all the same.
_MOST = 256


@dataclass(slots=True)
class Client:
    """One client, and the session it is shown in."""

    name: str
    terminal: Terminal
    stays: bool  #: until it says goodbye: it has a connection of its own
    seen_ms: int = field(default_factory=now_ms)
    session_id: str | None = None


def client_name(name: str, version: str) -> str:
    """Return what to call a client: one line, of a length that fits into a list. Nothing for one without a name."""
    said = f"{name} {version}".strip()
    return "".join(char if char.isprintable() else " " for char in said)[:_NAME_MAX]


def session_number(ctx: Any) -> str:
    """Return which session of the protocol a request belongs to; nothing where there is one only, or none."""
    return ctx.request.headers.get("mcp-session-id", "") if ctx.request is not None else ""


class ClientPresence:
    """The clients of one server. Looking keeps no stack running: beats go over a connection that only watches."""

    def __init__(self, maestro: AsyncMaestro, onlooker: AsyncMaestro) -> None:
        """Take who speaks for clients that have just come, and who for those that stay."""
        self._maestro = maestro
        self._onlooker = onlooker
        self._clients: dict[str, Client] = {}
        self._has_come = asyncio.Event()
        self._moving = asyncio.Lock()
        self._speaking: ContextVar[Client | None] = ContextVar("maestro_mcp_client", default=None)

    def name(self) -> str | None:
        """Return the name of the client whose request is being answered."""
        client = self._speaking.get()
        return client.name if client else None

    @contextmanager
    def speaking(self, key: str, name: str, *, stays: bool) -> Iterator[None]:
        """Answer a request of a client, which is known from now on."""
        client = self._clients.get(key)
        if client is None:
            user, host = self._maestro.settings.user, os.uname().nodename
            client = Client(name, Terminal(user=user, host=host, terminal=name, since=iso(now_ms())), stays)
            if len(self._clients) < _MOST:
                self._clients[key] = client
                self._has_come.set()
        client.seen_ms = now_ms()
        token = self._speaking.set(client)
        try:
            yield
        finally:
            self._speaking.reset(token)

    async def attend(self, session_id: str) -> None:
        """Show the speaking client in the session it works in; one round trip when that is another than before."""
        client = self._speaking.get()
        if client is not None and client.session_id != session_id:
            await self._move(client, session_id, self._maestro)

    async def _move(self, client: Client, session_id: str, maestro: AsyncMaestro) -> None:
        async with self._moving:
            before = client.session_id
            if before == session_id:
                return
            try:
                with suppress(MaestroError):  # ended, or not for this user to change: what is asked for may work
                    if before is not None:
                        await maestro.follow.detach(client.terminal, before)
                    await maestro.follow.attach(client.terminal, session_id)
            finally:  # also canceled: it may be shown there by now, and is taken off when it leaves
                client.session_id = session_id

    async def keep(self) -> None:
        """Show clients for as long as they are there; runs until it is canceled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_MS / 1000):
                    await self._has_come.wait()
            self._has_come.clear()
            for key, client in list(self._clients.items()):
                if not client.stays and client.seen_ms < now_ms() - GONE_MS:
                    await self.detach(key)
                    continue
                with suppress(MaestroError, OSError):  # the stack is away: the next call brings it back
                    await self._show(client)

    async def _show(self, client: Client) -> None:
        """Show a client in the session that is active now: a person may have switched while it said nothing."""
        active = await self._onlooker.sessions.resolve()
        if client.session_id == active:
            await self._onlooker.follow.keep(client.terminal, active)
        else:
            await self._move(client, active, self._onlooker)

    async def detach(self, key: str) -> None:
        """Show a client no longer."""
        client = self._clients.pop(key, None)
        if client is not None and client.session_id is not None:
            with suppress(MaestroError, OSError):
                await self._onlooker.follow.detach(client.terminal, client.session_id)

    async def detach_all(self) -> None:
        """Show none of them any longer."""
        for key in list(self._clients):
            await self.detach(key)
