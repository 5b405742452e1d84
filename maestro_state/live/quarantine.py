"""What is damaged on the server: named, and shown by doctor, which can repair it. Everything else goes on."""

from __future__ import annotations

from contextlib import suppress

from maestro_state.errors import MaestroError, ServerUnavailable
from maestro_state.live.server import AsyncServer
from maestro_state.state.calls import quarantine as ops
from maestro_state.state.calls.quarantine import Quarantined

#: Codes of errors that are about where a session is written, not about what the server has of it.
OF_THE_DISK = ("archive_failed", "archive_elsewhere", "archive_busy", "not_replicated")


def reason_of(error: Exception) -> tuple[str, str]:
    """Return the code of an error and what it says in one line, also of one that nobody meant to raise."""
    if isinstance(error, MaestroError):
        return error.code, str(error)
    return "damaged_record", f"{type(error).__name__}: {error}".replace("\n", " ")


class AsyncQuarantine:
    """The list of what is damaged."""

    def __init__(self, server: AsyncServer) -> None:
        self._server = server
        self._noted: set[str] = set()

    async def note(self, session_id: str, error: Exception) -> str:
        """Note what is wrong with a session, once in a while; return it in one line."""
        code, reason = reason_of(error)
        if code not in OF_THE_DISK and session_id not in self._noted:
            self._noted.add(session_id)
            with suppress(MaestroError):  # the list only helps people to find it
                call = ops.note(self._server.terms, session_id, code, reason, self._server.now_ms())
                await self._server.run(call)
        return reason

    async def rows(self) -> list[Quarantined]:
        """Return what is damaged, as far as anybody noticed."""
        try:
            found: list[Quarantined] = await self._server.fetch(ops.rows(self._server.terms))
        except ServerUnavailable:
            raise
        except MaestroError:
            return []  # written by somebody else: the next one who has something to note puts it right
        return found

    async def release(self, ids: list[str]) -> None:
        """Take sessions off the list that are well again."""
        if ids:
            await self._server.run(ops.release(self._server.terms, ids))
