# Generated from maestro_state/api by `make generate`. Do not edit.
"""What is damaged on the server: named, shown by doctor, and repaired there. Everything else goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from maestro_state._sync.server import Server
from maestro_state.clock import iso
from maestro_state.errors import MaestroError, ServerUnavailable, SessionNotFound
from maestro_state.models.names import is_session_id
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import quarantine as ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.state.calls.quarantine import Quarantined
from maestro_state.state.keys import NAMES

if TYPE_CHECKING:
    from maestro_state.mirror.places import Places

#: Codes of errors that are about where a session is written, not about what the server has of it.
_OF_THE_DISK = ("archive_failed", "archive_elsewhere", "archive_busy", "not_replicated")


def reason_of(error: Exception) -> tuple[str, str]:
    """Return the code of an error and what it says in one line, also of one that nobody meant to raise."""
    if isinstance(error, MaestroError):
        return error.code, str(error)
    return "damaged_record", f"{type(error).__name__}: {error}".replace("\n", " ")


class Quarantine:
    """The list of what is damaged."""

    def __init__(self, server: Server) -> None:
        """Take the server whose records it is about."""
        self._server = server
        self._noted: set[str] = set()

    def note(self, session_id: str, error: Exception) -> str:
        """Note what is wrong with a session, once in a while; return it in one line."""
        code, reason = reason_of(error)
        if code not in _OF_THE_DISK and session_id not in self._noted:
            self._noted.add(session_id)
            with suppress(MaestroError):  # the list only helps people to find it
                call = ops.note(self._server.terms, session_id, code, reason, self._server.now_ms())
                self._server.run(call)
        return reason

    def rows(self) -> list[Quarantined]:
        """Return what is damaged, as far as anybody noticed."""
        try:
            found: list[Quarantined] = self._server.fetch(ops.rows(self._server.terms))
        except ServerUnavailable:
            raise
        except MaestroError:
            return []  # a stranger's: the next one who has something to note puts it right
        return found

    def release(self, ids: list[str]) -> None:
        """Take sessions off the list that are well again."""
        if ids:
            self._server.run(ops.release(self._server.terms, ids))

    def repair(self, places: Places) -> list[str]:
        """Save what can be saved of each, and take the rest off the server; say what was done.

        Everything that is taken off is set aside first, as the server gives it out and takes it back (DUMP, RESTORE).
        """
        return [self._repair(row, places) for row in self.rows() if row.id != ops.INDEX]

    def _repair(self, row: Quarantined, places: Places) -> str:
        if row.code == "newer_format":
            return f"{row.id} is left as it is: a newer Maestro wrote it"
        if not is_session_id(row.id):
            self.release([row.id])
            return f"{row.id!r:.80} is not the id of a session: nothing to repair"
        if self._is_well(row.id, places):
            self.release([row.id])
            return f"{row.id} is well again"
        terms, keys = self._server.terms, self._server.terms.keys.session(row.id)
        found = self._server.connection.calls(ops.types_of(terms, row.id))
        wrong = ops.wrong_keys(found)
        aside = self._set_aside(row.id, keys, places)
        self._server.run(ops.drop_keys(terms, row.id, wrong))
        if "session" not in wrong and wrong and self._is_well(row.id, places):
            self.release([row.id])
            return f"{row.id} is on disk without its {', '.join(wrong)}, kept in {aside}"
        self._server.run(ops.drop_keys(terms, row.id, NAMES["session"]))
        self._server.run(index_ops.forget_session(terms, row.id))
        self.release([row.id])
        return f"{row.id} is off the server, kept in {aside}; its archive is as it was"

    def _is_well(self, session_id: str, places: Places) -> bool:
        """Tell whether a session can be read and written to disk, or is gone."""
        from maestro_state._sync.flush import Flush  # who only notes what is damaged does without

        terms = self._server.terms
        try:
            if not self._server.connection.call("EXISTS", *terms.keys.session(session_id)):
                self._server.run(index_ops.forget_session(terms, session_id))
                return True
            self._server.fetch(session_ops.read_session(terms, session_id, self._server.now_ms()))
            Flush(self._server, places).flush(session_id)
            summary = self._server.fetch(index_ops.read_summary(terms, session_id))
            if summary:
                self._server.run(index_ops.index_session(terms, index_ops.entry_of(session_id, summary)))
        except ServerUnavailable:
            raise
        except SessionNotFound:
            return False  # keys without a record
        except Exception as error:  # noqa: BLE001 - a stranger may have written anything
            return reason_of(error)[0] in _OF_THE_DISK
        return True

    def _set_aside(self, session_id: str, keys: tuple[str, ...], places: Places) -> str:
        """Write every key of a session into the trash, as the server dumps it; return where."""
        dumps = self._server.connection.calls([("DUMP", key) for key in keys])
        name = f"{session_id}-damaged-{iso(self._server.now_ms())[:19].replace(':', '')}"
        with places.project.folder("trash", create=True) as trash, trash.child(name, create=True) as folder:
            for key_name, dump in zip(NAMES["session"], dumps, strict=True):
                if dump is not None:
                    folder.replace(f"{key_name}.dump", dump)
        return f".maestro/trash/{name}"
