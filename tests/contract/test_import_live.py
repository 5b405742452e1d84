"""An export of a session that goes on here: it is here already, whether the disk knows it or not."""

from __future__ import annotations

from pathlib import Path

from maestro_state.api.export import write_export
from tests.support.backends import Backend


def test_an_export_of_a_live_session_changes_nothing_of_it(backend: Backend, tmp_path: Path):
    """It would be over on disk and go on on the server; once that has lost it, the export brings it back."""
    path = tmp_path / "live.json"
    with backend.open() as maestro:
        session = maestro.sessions.start("live")
        maestro.messages.add("user", "hello")
        with path.open("wb") as file:
            write_export(maestro.sessions.source(session.id), "json", file, limit=1 << 20)
        (row,) = maestro.histories.import_files([path]).imported
        assert (row.session_id, row.status) == (session.id, "unchanged")
        assert not maestro.places.own.ids()
        maestro.messages.add("user", "and on")
        assert maestro.archive.checkpoint(session.id).state == "iniciada"
        assert not (backend.project / ".maestro" / "trash").exists()

        other = maestro.sessions.start("lost")
        path.write_bytes(path.read_bytes().replace(session.id.encode(), other.id.encode()))
        backend.raw.delete(*maestro.server.terms.keys.session(other.id))
        (row,) = maestro.histories.import_files([path]).imported
        assert (row.session_id, row.status) == (other.id, "new")
        assert maestro.archive.verify_all().ok
