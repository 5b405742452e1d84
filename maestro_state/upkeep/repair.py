"""Repairing what is damaged on the server: what can be saved goes to disk, the rest is set aside and taken off."""

from __future__ import annotations

from maestro_state._sync.quarantine import OF_THE_DISK, Quarantine, reason_of
from maestro_state._sync.server import Server
from maestro_state.clock import iso
from maestro_state.errors import ServerUnavailable, SessionNotFound
from maestro_state.mirror.places import Places
from maestro_state.models.names import is_session_id
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import quarantine as ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.state.calls.quarantine import Quarantined
from maestro_state.state.keys import NAMES
from maestro_state.upkeep.checkpoint import Checkpoints


class Repair:
    """Repairs what is in quarantine."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server = server
        self._places = places
        self._quarantine = Quarantine(server)

    def repair(self) -> list[str]:
        """Save what can be saved of each, and take the rest off the server; say what was done.

        Everything that is taken off is set aside first, as the server gives it out and takes it back (DUMP, RESTORE).
        """
        done = [self._repair(row) for row in self._quarantine.rows() if row.id != ops.INDEX]
        self._server.run_all(index_ops.recount_states(self._server.terms))
        return done

    def _repair(self, row: Quarantined) -> str:
        if row.code == "newer_format":
            return f"{row.id} is left as it is: a newer Maestro wrote it"
        if not is_session_id(row.id):
            self._quarantine.release([row.id])
            return f"{row.id!r:.80} is not the id of a session: nothing to repair"
        if self._is_well(row.id):
            self._quarantine.release([row.id])
            return f"{row.id} is well again"
        terms, keys = self._server.terms, self._server.terms.keys.session(row.id)
        found = self._server.connection.calls(ops.types_of(terms, row.id))
        wrong = ops.wrong_keys(found)
        aside = self._set_aside(row.id, keys)
        self._server.run(ops.drop_keys(terms, row.id, wrong))
        if "session" not in wrong and wrong and self._is_well(row.id):
            self._quarantine.release([row.id])
            return f"{row.id} is on disk without its {', '.join(wrong)}, kept in {aside}"
        self._server.run(ops.drop_keys(terms, row.id, NAMES["session"]))
        self._server.unindex(row.id)
        self._quarantine.release([row.id])
        return f"{row.id} is off the server, kept in {aside}; its archive is as it was"

    def _is_well(self, session_id: str) -> bool:
        """Tell whether a session can be read and written to disk, or is gone."""
        terms = self._server.terms
        try:
            if not self._server.connection.call("EXISTS", *terms.keys.session(session_id)):
                self._server.unindex(session_id)
                return True
            self._server.fetch(session_ops.read_session(terms, session_id, self._server.now_ms()))
            Checkpoints(self._server, self._places).checkpoint(session_id)
            summary = self._server.fetch(index_ops.read_summary(terms, session_id))
            if summary:
                self._server.index(index_ops.entry_of(session_id, summary))
        except ServerUnavailable:
            raise
        except SessionNotFound:
            return False  # keys without a record
        except Exception as error:  # noqa: BLE001 - anybody may have written anything
            return reason_of(error)[0] in OF_THE_DISK
        return True

    def _set_aside(self, session_id: str, keys: tuple[str, ...]) -> str:
        """Write every key of a session into the trash, as the server dumps it; return where."""
        dumps = self._server.connection.calls([("DUMP", key) for key in keys])
        name = f"{session_id}-damaged-{iso(self._server.now_ms())[:19].replace(':', '')}"
        with self._places.project.folder("trash", create=True) as trash, trash.child(name, create=True) as folder:
            for key_name, dump in zip(NAMES["session"], dumps, strict=True):
                if dump is not None:
                    folder.replace(f"{key_name}.dump", dump)
        return f".maestro/trash/{name}"
