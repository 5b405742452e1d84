# Generated from maestro_state.api.tools by `make generate`. Do not edit.
"""Tools: choose one for a session, list them, check which are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maestro_state.aio.companion import Room
from maestro_state.api.tools import Rows, Tools, Used, WorkerRows


class AsyncTools(Room[Tools]):
    """The AI tools there are."""

    async def use(
        self,
        tool: str,
        ref: str | None = None,
        *,
        model: str | None = None,
        mode: str | None = None,
        arguments: Sequence[str] = (),
    ) -> Used:
        """Choose the tool that runs of a session use, a name of the catalogue or a whole command line, and how.

        A program named by a relative path counts from the current folder; it is stored as it is seen from the session's
        working directory, where runs use it.
        """
        return await self._call(lambda room: room.use(tool, ref, model=model, mode=mode, arguments=arguments))

    async def is_installed(self, tool: str) -> bool:
        """Tell whether a tool's program is found here; runs need it where their worker is."""
        return await self._call(lambda room: room.is_installed(tool))

    async def list(self) -> Rows:
        """List the catalogue with what the last check found, and whatever else tools.json names."""
        return await self._call(lambda room: room.list())

    async def check_workers(self, tool: str | None = None) -> WorkerRows:
        """Tell which workers have one tool, or each of the catalogue that one of them has; nothing is started."""
        return await self._call(lambda room: room.check_workers(tool))

    async def check(self, tool: str | None = None, *, told: Callable[[int, int], None] | None = None) -> Rows:
        """Ask one tool, or every one of the catalogue, for its version; write down what was found.

        Takes a few seconds, more where a tool hangs; `told` hears how many have answered, and of how many. A program
        that an untrusted tools.json names is not started.
        """
        return await self._call(lambda room: room.check(tool, told=told))
