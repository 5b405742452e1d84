"""What the archive promises, on every server: whole, incremental, marked only when it is true, read like a live one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from maestro_state.errors import ArchiveFailed, InvalidTransition, SessionExpired, SessionNotFound
from maestro_state.state.calls.index import forget_session
from tests.support.backends import Backend, Clock
from tests.support.stored import filler


def folder_of(backend: Backend, session_id: str) -> Path:
    return backend.project / ".maestro" / "sessions" / session_id


def inodes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


async def filled(backend: Backend, maestro, name: str = "work"):
    """Start a session with two items, one of them removed, and two runs, one of them promoted."""
    session = await maestro.sessions.start(name, note="since monday")
    await maestro.messages.add("user", "why?", metadata={"a": [1]})
    fill = filler(backend, session.id)
    first = fill.item(b"print(1)\n", kind="file", path_rel="src/a.py")
    fill.item(b"print(1)\n")
    fill.remove(first)
    run = fill.run(b"an answer\n", prompt=b"explain", sent=[{"id": "ctx-0002", "kind": "text", "snapshot_blob": "x",
                                                            "digest": "d"}])  # fmt: skip
    fill.promote(run)
    fill.run(b"\xff\x00 not text", prompt=b"again", tool="llm -m 'some model'")
    return session, fill


async def test_the_layout_is_the_one_every_program_knows(backend: Backend):
    """A flushed session has the folders, names and fields of the storage layout."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        await maestro.archive.checkpoint()
        folder = folder_of(backend, session.id)

        def load(name: str):
            return json.loads((folder / name).read_text())

        record = load("session.json")
        assert record["id"] == session.id
        assert record["state"] == "com_saida"
        assert record["counters"] == {"run_seq": 2, "ctx_seq": 2}
        assert record["stats"] == {"runs_total": 2, "runs_success": 2, "runs_error": 0}
        assert record["tool_active"] is None
        assert record["notes"] == "since monday"
        assert load("context/active.json") == {"items": ["ctx-0002"], "last_output_ref": "0002"}
        item = load("context/items/ctx-0001.json")
        assert (item["state"], item["snapshot"]["blob"]) == ("removed", "../blobs/ctx-0001.txt")
        assert item["removed_at"]
        assert (folder / "context/blobs/ctx-0001.txt").read_bytes() == b"print(1)\n"
        meta = load("runs/0001/meta.json")
        assert meta["flags"] == {"dry_run": False, "confirm": False}
        assert meta["output_ref"]["path"] == "output.txt"
        assert load("runs/0001/sent_context.json")[0]["id"] == "ctx-0002"
        assert (folder / "runs/0001/prompt.txt").read_bytes() == b"explain"
        assert (folder / "runs/0002/output.txt").read_bytes() == b"\xff\x00 not text"
        assert load("outputs/last_output.json")["path"] == "../runs/0002/output.txt"
        assert load("outputs/relevant.json")["items"][0]["run_id"] == "0001"
        assert load("runs/0002/meta.json")["tool"] == "llm -m 'some model'"
        assert (folder / "exports").is_dir()
        index = json.loads((backend.project / ".maestro/sessions/index.json").read_text())
        assert [row["state"] for row in index["sessions"]] == ["com_saida"]


async def test_an_archived_session_reads_like_the_live_one(backend: Backend):
    """Status, messages, fields, outputs and events are the same from the disk as they were from the server."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        await maestro.sessions.set("preferences", {"tone": "dry"})
        await maestro.sessions.set("context_summary", "so far")
        await maestro.messages.add("assistant", "because")
        await maestro.archive.checkpoint()

        async def look():
            source = await maestro.sessions.source(session.id)
            status = msgspec.to_builtins(await maestro.sessions.status(session.id))
            for name in ("attached", "ttl_left"):
                del status[name]
            del status["session"]["status"]
            runs = await source.runs()
            return {
                "status": status,
                "items": await source.items(),
                "snapshots": [await source.snapshot(item) for item in await source.items()],
                "relevant": await source.relevant(),
                "sent": [await source.sent_context(run.id) for run in runs],
                "prompts": [await source.prompt(run) for run in runs],
                "outputs": [b"".join([piece async for piece in source.output(run.id)]) for run in runs],
                "messages": await maestro.messages.since(None, session.id),
                "last": await maestro.messages.last(1, session.id),
                "model": await maestro.messages.for_model(session.id),
                "field": await maestro.sessions.get("preferences", session.id),
            }

        live = await look()
        backend.raw.delete(*maestro.server.terms.keys.session(session.id))
        archived = await look()

        assert (await maestro.sessions.source(session.id)).archived
        assert archived == live
        assert archived["outputs"][1] == b"\xff\x00 not text"
        types = [event.type async for event in maestro.follow.events(session.id, cursor="start")]
        assert types[0] == "session.started"
        assert types.count("run.output") == 4
        assert types.count("message.added") == 2


async def test_nothing_changes_an_archived_session(backend: Backend):
    """A change to a session that only the disk has is refused with its state, not taken for a missing session."""
    async with backend.open_async() as maestro:
        ended, expired = await maestro.sessions.start("ended"), await maestro.sessions.start("expired")
        await maestro.sessions.end(ended.id)
        await maestro.archive.checkpoint(expired.id)
        for session in (ended, expired):
            backend.raw.delete(*maestro.server.terms.keys.session(session.id))
        with pytest.raises(InvalidTransition):
            await maestro.messages.add("user", "late", ended.id)
        with pytest.raises(SessionExpired):
            await maestro.messages.add("user", "late", expired.id)
        with pytest.raises(SessionNotFound):
            await maestro.messages.add("user", "late", "none--abcdef")


async def test_a_checkpoint_writes_only_what_changed(backend: Backend):
    """Unchanged files keep their inode from one checkpoint to the next, grown ones too; others are replaced whole."""
    async with backend.open_async() as maestro:
        session, fill = await filled(backend, maestro)
        running = fill.run(b"first half, ", status="running")
        await maestro.archive.checkpoint()
        folder = folder_of(backend, session.id)
        before = inodes(folder)
        sizes = {path: (folder / path).stat().st_size for path in before}
        assert (folder / f"runs/{running}/output.txt").read_bytes() == b"first half, "

        fill.print(running, b"second half")
        fill.finish(running, b"first half, second half")
        await maestro.archive.checkpoint()
        after = inodes(folder)

        assert (folder / f"runs/{running}/output.txt").read_bytes() == b"first half, second half"
        changed = {path for path in after if after[path] != before.get(path)}
        assert changed == {
            f"runs/{running}/meta.json", "session.json", "maestro.json", "manifest.json", "outputs/last_output.json",
            "context/active.json",
        }  # fmt: skip
        assert {path for path in after if (folder / path).stat().st_size != sizes.get(path)} - changed == {
            f"runs/{running}/output.txt", "events.jsonl", "outputs.jsonl",
        }  # fmt: skip
        assert (await maestro.archive.verify()).ok


async def test_a_flush_is_repeatable_and_marks_what_it_wrote(backend: Backend):
    """The second flush of an unchanged session writes nothing; the mark takes the grace off every key's life."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        keys = [key for key in maestro.server.terms.keys.session(session.id) if backend.raw.exists(key)]
        ttl_ms = maestro.server.terms.ttl_ms
        assert all(backend.raw.pttl(key) > ttl_ms for key in keys)

        first, second = await maestro.archive.checkpoint(), await maestro.archive.checkpoint()
        assert (first.written, first.current, second.written, second.current) == (True, True, False, True)
        assert all(0 < backend.raw.pttl(key) <= ttl_ms for key in keys)
        assert backend.raw.zscore(maestro.server.terms.keys.of_index("dirty", session.id), session.id) is None

        await maestro.messages.add("user", "more")
        assert all(backend.raw.pttl(key) > ttl_ms for key in keys)
        assert backend.raw.zscore(maestro.server.terms.keys.of_index("dirty", session.id), session.id) is not None


async def test_a_session_that_moved_is_not_marked(backend: Backend):
    """A change between reading and marking keeps the grace: the mark is for what is on disk, or not made."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        server = maestro.blocking.server
        original = server.run

        def change_first(call):
            if call.script.name == "mark_archived":
                server.run = original
                maestro.blocking.messages.add("user", "just now")
            return original(call)

        server.run = change_first
        done = await maestro.archive.checkpoint()

        assert (done.written, done.current) == (True, False)
        terms = maestro.server.terms
        noted, last = backend.raw.hmget(terms.keys.of_session(session.id, "session"), "archived_id", "last_id")
        assert noted < last  # the archive is of this history, and goes no further than that
        assert backend.raw.pttl(terms.keys.of_session(session.id, "messages")) > terms.ttl_ms
        assert (await maestro.archive.checkpoint()).current
        folder = folder_of(backend, session.id)
        assert b"just now" in (folder / "messages.jsonl").read_bytes()


async def test_end_returns_with_a_verified_archive(backend: Backend):
    """Ending and aborting write the archive; --no-wait leaves it to the sweeper."""
    async with backend.open_async() as maestro:
        for name, freeze in (
            ("one", lambda ref: maestro.sessions.end(ref)),
            ("two", lambda ref: maestro.sessions.abort(ref, reason="no")),
        ):
            session, _ = await filled(backend, maestro, name)
            await freeze(session.id)
            assert (await maestro.archive.verify(session.id)).ok
            record = json.loads((folder_of(backend, session.id) / "session.json").read_text())
            assert record["state"] in ("finalizada", "abortada")
        later, _ = await filled(backend, maestro, "later")
        await maestro.sessions.end(later.id, archive=False)
        assert not folder_of(backend, later.id).exists()
        assert (await maestro.archive.sweep()).archived == [later.id]


async def test_an_archive_that_cannot_be_written_leaves_the_session_on_the_server(backend: Backend):
    """When the folder is not one, end fails, and the frozen session keeps its whole grace."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        staging = backend.project / ".maestro/sessions/.staging"
        staging.write_text("in the way")
        with pytest.raises(Exception, match="link or not a folder"):
            await maestro.sessions.end()
        assert (await maestro.sessions.read()).state == "finalizada"
        terms = maestro.server.terms
        assert backend.raw.pttl(terms.keys.of_session(session.id, "session")) > terms.ttl_ms
        staging.unlink()
        assert (await maestro.archive.checkpoint()).current


async def test_what_others_put_into_the_folder_stays(backend: Backend):
    """Exports and foreign files survive every checkpoint; a link is carried over and never followed."""
    async with backend.open_async() as maestro:
        session, fill = await filled(backend, maestro)
        done = await maestro.archive.export()
        folder = folder_of(backend, session.id)
        (folder / "NOTES.txt").write_text("mine")
        secret = backend.project / "secret"
        secret.write_text("outside")
        os.symlink(secret, folder / "runs" / "0001" / "link")
        fill.item(b"more")
        await maestro.archive.checkpoint()

        assert done.path.rsplit("/", 1)[1] in os.listdir(folder / "exports")
        assert (folder / "NOTES.txt").read_text() == "mine"
        assert (folder / "runs/0001/link").is_symlink()
        assert secret.read_text() == "outside"


async def test_a_damaged_archive_is_mended_while_the_server_still_has_it(backend: Backend):
    """Verify names the damaged file; ending the session writes it anew from the server."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        await maestro.archive.checkpoint()
        blob = folder_of(backend, session.id) / "context/blobs/ctx-0001.txt"
        blob.write_bytes(b"PRINT(1)\n")  # same size: only the digest tells
        report = await maestro.archive.verify()
        assert [one.path for one in report.damaged] == ["context/blobs/ctx-0001.txt", "context/blobs/ctx-0002.txt"]

        await maestro.sessions.end()
        assert (await maestro.archive.verify(session.id)).ok
        assert blob.read_bytes() == b"print(1)\n"


async def test_an_archive_that_goes_further_than_the_server_is_kept(backend: Backend):
    """A server that lost its last writes does not overwrite what the disk has of them."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)
        key = maestro.server.terms.keys.of_session(session.id, "session")
        before = backend.raw.hget(key, "last_id")
        await maestro.messages.add("user", "lost by the server")
        await maestro.archive.checkpoint()
        backend.raw.hset(key, "last_id", before)
        with pytest.raises(ArchiveFailed, match="goes further"):
            await maestro.archive.checkpoint()
        assert b"lost by the server" in (folder_of(backend, session.id) / "messages.jsonl").read_bytes()


async def test_fork_takes_over_context_and_messages(backend: Backend):
    """A fork has the active items, notes, tool and messages of its origin, live or archived, and points to it."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session, _ = await filled(backend, maestro)
        await maestro.sessions.set("context_summary", "so far")
        origin = await maestro.messages.since()
        clock.advance(seconds=5)
        from_live = await maestro.sessions.fork(session.id, "live fork")
        await maestro.sessions.end(session.id)
        backend.raw.delete(*maestro.server.terms.keys.session(session.id))
        clock.advance(seconds=5)
        from_disk = await maestro.sessions.fork(session.id, "disk fork")

        for fork in (from_live, from_disk):
            assert fork.forked_from == session.id
            assert (fork.state, fork.notes) == ("com_contexto", "since monday")
            status = await maestro.sessions.status(fork.id)
            assert [item.id for item in status.context] == ["ctx-0002"]
            assert status.runs == []
            assert await maestro.messages.since(None, fork.id) == origin
            added = await maestro.messages.add("user", "on we go", fork.id)
            assert (await maestro.messages.last(1, fork.id)) == [added]
            handed = await maestro.messages.for_model(fork.id)
            assert [one.content for one in handed] == ["so far", "on we go"]
            source = await maestro.sessions.source(fork.id)
            assert await source.snapshot(status.context[0]) == b"print(1)\n"
            await maestro.archive.checkpoint(fork.id)
            assert (await maestro.archive.verify(fork.id)).ok
        assert maestro.project.active() == from_disk.id


async def test_an_unfinished_fork_is_never_seen(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """A fork that is killed halfway is in no list, and the server forgets it within minutes."""
    async with backend.open_async() as maestro:
        session, _ = await filled(backend, maestro)

        def killed(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("maestro_state.api.fork.fill_from", killed)
        with pytest.raises(KeyboardInterrupt):
            await maestro.sessions.fork(session.id, "half")
        await maestro.archive.sweep()
        assert [row.slug for row in await maestro.sessions.list()] == ["work"]
        half = [key for key in backend.raw.scan_iter() if b"half--" in key]
        assert half
        assert all(0 < backend.raw.pttl(key) <= 600_000 for key in half)


async def test_delete_and_trash(backend: Backend):
    """Deleting removes the archive too; the trash keeps it, with what only the server had."""
    async with backend.open_async() as maestro:
        gone, _ = await filled(backend, maestro, "gone")
        kept, _ = await filled(backend, maestro, "kept")
        await maestro.archive.checkpoint(gone.id)
        await maestro.sessions.delete(gone.id)
        await maestro.sessions.delete(kept.id, trash=True)

        assert not folder_of(backend, gone.id).exists()
        assert not folder_of(backend, kept.id).exists()
        trashed = backend.project / ".maestro/trash" / kept.id
        assert (trashed / "runs/0001/output.txt").read_bytes() == b"an answer\n"
        assert await maestro.sessions.list(everything=True) == []
        with pytest.raises(SessionNotFound):
            await maestro.sessions.status(kept.id)


async def test_list_marks_archived_and_orphaned(backend: Backend):
    """Archived sessions are listed as such, known to the index or not; a row of the index without data is an orphan."""
    async with backend.open_async() as maestro:
        await filled(backend, maestro, "live")
        archived, _ = await filled(backend, maestro, "archived")
        lost, _ = await filled(backend, maestro, "lost")
        unknown, _ = await filled(backend, maestro, "unknown")
        for session in (archived, unknown):
            await maestro.archive.checkpoint(session.id)
        for session in (archived, lost, unknown):
            backend.raw.delete(*maestro.server.terms.keys.session(session.id))
            await maestro.server.run(forget_session(maestro.server.terms, session.id))
        maestro.project.index_drop(unknown.id)

        rows = {row.slug: (row.archived, row.orphan) for row in await maestro.sessions.list()}
        assert rows == {
            "live": (False, False), "archived": (True, False), "lost": (False, True), "unknown": (True, False),
        }  # fmt: skip
        assert await maestro.sessions.resolve("unknown") == unknown.id
        assert {row.slug for row in await maestro.sessions.list(state="com_saida")} == {"archived", "unknown"}


async def test_list_finds_out_what_the_server_let_go(backend: Backend):
    """Of sessions that are on disk, one that the server has lost is listed as archived although the index has it."""
    async with backend.open_async() as maestro:
        kept, _ = await filled(backend, maestro, "kept")
        lost, _ = await filled(backend, maestro, "lost")
        for session in (kept, lost):
            await maestro.archive.checkpoint(session.id)
        assert not any(row.archived for row in await maestro.sessions.list())
        backend.raw.delete(*maestro.server.terms.keys.session(lost.id))
        assert {row.id: row.archived for row in await maestro.sessions.list()} == {kept.id: False, lost.id: True}


async def test_an_archived_id_is_never_given_out_again(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """A new session does not get the id of one that only the disk has."""
    async with backend.open_async() as maestro:
        suffixes = iter(["aaaaaa", "aaaaaa", "bbbbbb"])
        monkeypatch.setattr("maestro_state.api.sessions.new_suffix", lambda: next(suffixes))
        first = await maestro.sessions.start("same")
        await maestro.archive.checkpoint()
        backend.raw.delete(*maestro.server.terms.keys.session(first.id))
        second = await maestro.sessions.start("same")
        assert (first.id, second.id) == ("same--aaaaaa", "same--bbbbbb")
