"""Sessions that the index has lost, or whose changes it does not know: whoever made a change indexes it, and may have
been killed before that. Found by walking through the server's keys, a few in each pass.
"""

from __future__ import annotations

from collections.abc import Callable

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.server import Server
from maestro_state.errors import DamagedRecord, NewerFormat, ServerUnavailable
from maestro_state.models.names import is_session_id
from maestro_state.net import is_forbidden
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import index as index_ops
from maestro_state.upkeep.reports import SweepReport
from maestro_state.upkeep.shards import apart

#: Keys of the server read in one pass.
SCAN_COUNT = 500


class LostSessions:
    """Finds them, and puts them into the index."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._quarantine = Quarantine(server)

    def find(
        self, report: SweepReport, cursor: str, beat: Callable[[], object], *, thorough: bool, is_new: bool
    ) -> str:
        """Read a few more sessions of the server, or all of them, into a new index; return where to go on."""
        cursor = self._find(report, "0" if thorough else cursor, is_new=is_new)
        while thorough and cursor != "0":
            beat()
            cursor = self._find(report, cursor, is_new=is_new)
        return cursor

    def _find(self, report: SweepReport, cursor: str, *, is_new: bool) -> str:
        terms, call = self._server.terms, self._server.connection.call
        pattern = terms.keys.of_session("*", "session")
        try:
            cursor_reply, keys = call("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)
        except ServerUnavailable as error:
            if is_forbidden(error):
                return "0"  # a terminal's account: the next sweep of a worker's reads them
            raise
        found = [key.decode().rpartition("{")[2].rstrip("}") for key in keys if key.endswith(b"}")]
        ids = [session_id for session_id in found if is_session_id(session_id)]
        for session_id in ids if is_new or not ids else self._unknown(ids):
            with apart(self._quarantine, report, session_id):
                summary = self._server.fetch(index_ops.read_summary(terms, session_id))
                if summary:
                    entry = index_ops.entry_of(session_id, summary)
                    if not self._server.index(entry):  # ahead of the record: of a history that the server gave up
                        self._server.unindex(session_id)
                        self._server.index(entry)
                    report.repaired.append(session_id)
        return str(cursor_reply.decode() if isinstance(cursor_reply, bytes) else cursor_reply)

    def _unknown(self, ids: list[str]) -> list[str]:
        """Return those of some sessions that the index does not have, or has otherwise than they are."""
        terms, unknown = self._server.terms, []
        parts = self._server.fetch_all(index_ops.read_rows(terms, ids, "dirty"))
        rows = {one: row for part in parts[: len(parts) // 2] for one, row in part.items()}
        waiting = {one: since for part in parts[len(parts) // 2 :] for one, since in part.items()}
        for session_id in ids:
            try:
                progress = self._server.fetch(archiving.read_progress(terms, session_id))
            except (DamagedRecord, NewerFormat):
                continue  # found out, and named, by whoever writes it
            if not _is_known(rows[session_id], progress, is_waiting=waiting[session_id] is not None):
                unknown.append(session_id)
        return unknown


def _is_known(row: bytes | None, progress: archiving.Progress, *, is_waiting: bool) -> bool:
    """Tell whether a row of the index is one of this session as it is. While it waits for a disk it may be late, but
    not ahead: who writes it there indexes it. Else it is all on disk, and nobody comes back to it.
    """
    entries = index_ops.entries_of([row])
    if not entries:
        return False
    if is_waiting:
        return not index_ops.is_behind(progress.last_id or "", entries[0].last_id)
    return progress.is_done and (entries[0].last_id, entries[0].state) == (progress.last_id, progress.state)
