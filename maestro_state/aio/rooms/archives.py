# Generated from maestro_state.api.archives by `make generate`. Do not edit.
"""Archives: write a session to disk now, verify, export, clean up, and the sweep that keeps everything on time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO

from maestro_state.aio.companion import Room
from maestro_state.api.archives import Archives, Exported
from maestro_state.mirror.leaks import Leak
from maestro_state.mirror.retention import CleanupReport
from maestro_state.mirror.verify import Report
from maestro_state.upkeep.checkpoint import Checkpoint
from maestro_state.upkeep.pull import Pulled
from maestro_state.upkeep.sweep import Follower, Recoverer, SweepReport


class AsyncArchives(Room[Archives]):
    """What can be done with sessions on disk."""

    async def checkpoint(self, ref: str | None = None) -> Checkpoint:
        """Write a session to disk now; one that only the disk has is up to date."""
        return await self._call(lambda room: room.checkpoint(ref))

    async def pull(self, ref: str, progress: Callable[[int, int], None] | None = None) -> Pulled:
        """Bring an archived session from the team's disk into this checkout, through the server; see AsyncPull."""
        return await self._call(lambda room: room.pull(ref, progress))

    async def send(self, ref: str, token: str, sender: str, is_stopping: Callable[[], object]) -> str | None:
        """Send an archive of this machine's to whoever asked for it; see AsyncPull."""
        return await self._call(lambda room: room.send(ref, token, sender, is_stopping))

    async def defer(self, session_id: str, reason: str) -> bool:
        """Note on a session why its archive waits, for doctor and whoever asks; False when it does not wait."""
        return await self._call(lambda room: room.defer(session_id, reason))

    async def verify(self, ref: str | None = None) -> Report:
        """Check every digest of a session's archive; without a reference, of this checkout's active session.

        One that is live and not on disk yet is written first.
        """
        return await self._call(lambda room: room.verify(ref))

    async def secrets(self, ref: str | None = None) -> list[Leak]:
        """Return where a session's archive holds what looks like a secret that a tool printed; never the value."""
        return await self._call(lambda room: room.secrets(ref))

    async def secrets_all(self) -> list[Leak]:
        """Return that of every archive within reach, by path from the folder of sessions."""
        return await self._call(lambda room: room.secrets_all())

    async def verify_all(self) -> Report:
        """Check every archive within reach: this checkout's, and with an archive root all that are below it."""
        return await self._call(lambda room: room.verify_all())

    async def unwritten(self) -> int:
        """Count the sessions with changes that are not on disk."""
        return await self._call(lambda room: room.unwritten())

    async def sweep(
        self,
        recoverers: Sequence[Recoverer] = (),
        followers: Sequence[Follower] = (),
        *,
        thorough: bool = False,
        pause_ms: int = 0,
    ) -> SweepReport:
        """Do one pass of what is due; see Sweep."""
        return await self._call(lambda room: room.sweep(recoverers, followers, thorough=thorough, pause_ms=pause_ms))

    async def sweep_shards(self, pause_ms: int = 0) -> SweepReport:
        """Take a share of a pass that somebody else is in charge of; see Sweep."""
        return await self._call(lambda room: room.sweep_shards(pause_ms))

    async def cleanup(self, *, days: int | None = None, dry_run: bool = False, foreign: bool = False) -> CleanupReport:
        """Remove outputs and dry runs of sessions ended so many days ago, and old logs; 0 is every ended session.

        In all archives within reach: with an archive root, those of every project below it.
        Never anything of a session that was not ended, nor of an archive that another program wrote, unless `foreign`
        is given. The server lets go of an ended session first, if the disk has all of it; else it is left alone.

        Of the two clocks, ours and the server's, the earlier one decides what is old.
        """
        return await self._call(lambda room: room.cleanup(days=days, dry_run=dry_run, foreign=foreign))

    async def export(
        self, ref: str | None = None, *, form: str = "md", output: str | None = None, redact: bool = False
    ) -> Exported:
        """Write a session's whole history to one file: in its archive's `exports/`, or where `output` says.

        With `redact`, what looks like a secret is replaced by what kind it is.
        """
        return await self._call(lambda room: room.export(ref, form=form, output=output, redact=redact))

    async def write_export(
        self, file: BinaryIO, ref: str | None = None, *, form: str = "md", redact: bool = False
    ) -> list[str]:
        """Write a session's whole history to an open file; return what a reader should be warned of."""
        return await self._call(lambda room: room.write_export(file, ref, form=form, redact=redact))
