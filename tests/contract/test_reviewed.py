"""What attacks on a finished Maestro found, kept from coming back."""

from __future__ import annotations

import os
import threading

import pytest

from maestro_state.errors import ArchiveBusy, InvalidValue, Refused, SessionNotFound
from maestro_state.local.embedded.origin import has_data
from maestro_state.state.calls.claims import Ended
from tests.support.backends import Backend
from tests.support.stored import digest_of


async def test_a_fork_counts_the_items_it_took_over(backend: Backend):
    """Adding to, removing from and clearing a fork leaves it in the state its items say."""
    async with backend.open_async() as maestro:
        origin = await maestro.sessions.start("origin")
        await maestro.context.add("one", "two", kind="text")
        fork = await maestro.sessions.fork(origin.id, "fork")
        (added,) = (await maestro.context.add("three", kind="text")).items
        await maestro.context.remove(added.id)
        assert (await maestro.sessions.read(fork.id)).state == "com_contexto"
        await maestro.context.clear()
        assert (await maestro.sessions.read(fork.id)).state == "iniciada"


async def test_a_working_directory_is_absolute(backend: Backend):
    """A relative one would be another folder for the worker, which stands elsewhere."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("where")
        for wrong in (".", "", "src"):
            with pytest.raises(InvalidValue):
                await maestro.sessions.set("working_directory", wrong)
        with pytest.raises(InvalidValue):
            await maestro.sessions.start("where", working_directory="src")


async def test_an_export_replaces_nothing(backend: Backend):
    """A file that is there stays as it is."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("export")
        kept = backend.project / "kept.txt"
        kept.write_text("mine")
        with pytest.raises(Refused):
            await maestro.archive.export(output=str(kept))
        assert kept.read_text() == "mine"


async def test_an_archive_does_not_choose_a_program(backend: Backend):
    """A fork of an archived session keeps a tool of the catalogue, and no command line."""
    async with backend.open_async() as maestro:
        for tool, kept in (("echo", "echo"), ("touch x", None)):
            origin = await maestro.sessions.start("origin", tool=tool)
            await maestro.sessions.end(origin.id)
            backend.raw.delete(*maestro.server.terms.keys.session(origin.id))
            assert (await maestro.sessions.fork(origin.id, "fork")).tool_active == kept


def test_what_is_added_while_a_session_goes_to_the_trash_is_in_it_or_refused(real: Backend):
    """Every acknowledged message is in the trash."""
    with real.open() as maestro, real.open() as writer:
        session = maestro.sessions.start("trash")
        acknowledged = [writer.messages.add("user", "0", session.id).id]

        def write() -> None:
            while len(acknowledged) < 400:
                try:
                    acknowledged.append(writer.messages.add("user", "x", session.id).id)
                except (Refused, SessionNotFound):
                    break

        thread = threading.Thread(target=write)
        thread.start()
        maestro.sessions.delete(session.id, trash=True)
        thread.join()
        trashed = (real.project / ".maestro" / "trash" / session.id / "messages.jsonl").read_text()
        assert not [one for one in acknowledged if one not in trashed]


@pytest.mark.parametrize("name", ["appendonly.aof", "dump.rdb"])
def test_older_forms_of_data_count_as_data(tmp_path, name: str):
    """What a server would take over is not taken for an empty folder."""
    folder = os.open(tmp_path, os.O_RDONLY)
    assert not has_data(folder)
    (tmp_path / name).touch()
    assert has_data(folder)
    os.close(folder)


async def test_a_fork_is_archived_only_when_it_has_everything(backend: Backend):
    """Written halfway, what is still to come would be passed over later: its messages have older ids."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("work")
        await maestro.messages.add("user", "why?")
        fork = await maestro.sessions.fork(session.id, "again")
        record = maestro.server.terms.keys.of_session(fork.id, "session")
        folder = backend.project / ".maestro/sessions" / fork.id
        backend.raw.hset(record, "filling", "1")
        with pytest.raises(ArchiveBusy, match="still taking over"):
            await maestro.archive.checkpoint(fork.id)
        assert not folder.exists()
        backend.raw.hdel(record, "filling")
        assert (await maestro.archive.checkpoint(fork.id)).current
        assert b"why?" in (folder / "messages.jsonl").read_bytes()


async def test_output_that_a_server_lost_and_got_again_is_archived_once(backend: Backend):
    """A failover loses a piece that the archive has; its owner prints it once more."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("work", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "owner")
        keys = maestro.server.terms.keys.session(session.id)
        await maestro.claims.add_outputs(claim, 0, [b"one "])
        saved = {key: backend.raw.dump(key) for key in keys if backend.raw.exists(key)}
        await maestro.claims.add_outputs(claim, 4, [b"two "])
        await maestro.archive.checkpoint()
        for key, value in saved.items():
            backend.raw.restore(key, 10**9, value, replace=True)
        await maestro.claims.add_outputs(claim, 4, [b"two ", b"three"])
        output = backend.project / ".maestro/sessions" / session.id / "runs/0001/output.txt"
        assert (await maestro.archive.checkpoint()).current
        assert output.read_bytes() == b"one two three"
        await maestro.claims.finish(claim, Ended(status="success", size=13, digest=digest_of(b"one two three")))
        live = [event.data for event in [one async for one in (await maestro.sessions.source(session.id)).events()]]
        await maestro.sessions.end()
        backend.raw.delete(*keys)
        found = await maestro.sessions.source(session.id)
        assert found.archived
        assert b"".join([piece async for piece in found.output("0001")]) == b"one two three"
        assert [event.data async for event in found.events() if event.type != "session.finalized"] == live


async def test_an_archive_that_is_about_to_be_marked_is_built_on(backend: Backend):
    """Somebody else writes the next one between writing and marking: nothing is taken for another history."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        session = await maestro.sessions.start("work", tool="echo")
        server, meanwhile = maestro.blocking.server, other.blocking
        original = server.run

        def late(call):
            if call.script.name == "mark_archived":
                server.run = original
                meanwhile.messages.add("user", "meanwhile")
                assert meanwhile.archive.checkpoint(session.id).current
            return original(call)

        for add in (lambda: maestro.messages.add("user", "one"), lambda: maestro.runs.start("p", dry=True)):
            await add()
            server.run = late
            await maestro.archive.checkpoint()
        await maestro.messages.add("user", "last")
        assert (await maestro.archive.checkpoint()).current
        assert not (backend.project / ".maestro/trash").exists()
        assert (await maestro.archive.verify(session.id)).ok
