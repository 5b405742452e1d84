"""What search finds, on every server: live, archived and both, each hit once."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from maestro_state import AsyncMaestro, Found
from maestro_state.errors import InvalidValue
from maestro_state.models.claim import Ended
from tests.support.backends import Backend, Clock


def told(found: Found) -> list[tuple[str, str]]:
    """Return kind and entry of each hit."""
    return [(hit.kind, hit.entry) for hit in found.results]


async def run_once(maestro: AsyncMaestro, session_id: str, prompt: str, output: str) -> str:
    """Carry a run out that prints something."""
    run = await maestro.runs.start(prompt, session_id, tool="echo")
    claim = await maestro.claims.claim(session_id, run.id, "owner")
    await maestro.claims.add_outputs(claim, 0, [output.encode()])
    digest = sha256(output.encode()).hexdigest()
    ended = Ended(
        status="success", size=len(output), digest=digest, answer=output[:100], answer_is_cut=len(output) > 100
    )
    await maestro.claims.finish(claim, ended)
    return run.id


async def test_live_and_archived_are_found_once(backend: Backend):
    """A message is found at once while it is live, on disk as well, ended, and archived alone."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("talk")
        message = await maestro.messages.add("user", "the Café is closed")
        first = await maestro.search.find("cafe")
        assert told(first) == [("message", message.id)]
        hit = first.results[0]
        assert (hit.session_id, hit.slug, hit.role, hit.ts) == (session.id, "talk", "user", message.timestamp)
        assert hit.snippet == "the «Café» is closed"

        clock.advance(seconds=5)
        second = await maestro.messages.add("assistant", "then another cafe")
        both = [("message", second.id), ("message", message.id)]
        assert told(await maestro.search.find("cafe")) == both
        await maestro.archive.checkpoint(session.id)
        assert told(await maestro.search.find("cafe")) == both
        assert told(await maestro.search.find("cafe", live=True)) == both
        assert told(await maestro.search.find("cafe", live=False)) == []
        await maestro.sessions.end(session.id)
        assert told(await maestro.search.find("cafe", live=False)) == both
        clock.advance(seconds=3600)
        await maestro.archive.sweep()  # now only the disk has it
        assert told(await maestro.search.find("cafe")) == both
        assert told(await maestro.search.find("cafe", live=True)) == []
        assert (await maestro.search.rebuild()).entries == 2
        assert told(await maestro.search.find("cafe")) == both


async def test_every_kind_is_found(backend: Backend):
    """Prompts and outputs are one hit each though they are messages too; a kind asked for is what is told."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("kinds", note="zebra of the session")
        said = await maestro.messages.add("user", "a zebra was said")
        item = (await maestro.context.add("zebra as text", kind="text")).items[0]
        run = await run_once(maestro, session.id, "a zebra was asked for", "a zebra was printed")
        kinds = {"message": said.id, "context": item.id, "prompt": run, "output": run, "note": "notes"}

        for archived in (False, True):
            if archived:
                await maestro.sessions.end(session.id)
            everything = await maestro.search.find("zebra")
            assert sorted(told(everything)) == sorted(kinds.items())
            assert everything.total == len(kinds)
            for kind, entry in kinds.items():
                only = told(await maestro.search.find("zebra", kinds=[kind]))
                assert (kind, entry) in only
                assert len(only) == (3 if kind == "message" else 1)
            shown = await maestro.search.find("zebra asked", kinds=["message"])
            assert [(hit.kind, hit.role) for hit in shown.results] == [("message", "user")]
            commands = {hit.kind: hit.command for hit in everything.results}
            assert commands["prompt"] == f"maestro --session {session.id} show {run} --prompt"
            assert commands["context"] == f"maestro --session {session.id} context show {item.id}"


async def test_what_an_open_run_prints_is_found(backend: Backend):
    """And once it is over still once."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("open")
        run = await maestro.runs.start("go", tool="echo")
        claim = await maestro.claims.claim(session.id, run.id, "owner")
        await maestro.claims.add_outputs(claim, 0, [b"first giraffe\n"])
        assert told(await maestro.search.find("giraffe")) == [("output", run.id)]
        await maestro.claims.add_outputs(claim, 14, [b"second okapi\n"])
        assert told(await maestro.search.find("okapi giraffe")) == [("output", run.id)]
        await maestro.claims.finish(claim, Ended(status="success"))
        assert told(await maestro.search.find("okapi")) == [("output", run.id)]


async def test_filters_and_order(backend: Backend):
    """By session, by time, by rank, and only so many, with how many there are."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        old = await maestro.sessions.start("old")
        await maestro.messages.add("user", "owl " * 20)
        clock.advance(seconds=3600)
        new = await maestro.sessions.start("new")
        for number in range(5):
            clock.advance(seconds=1)
            await maestro.messages.add("user", f"an owl among many other words, number {number}")
        found = await maestro.search.find("owl", limit=2)
        assert (len(found.results), found.total) == (2, 6)
        assert [hit.snippet[-1] for hit in found.results] == ["4", "3"]
        assert {hit.session_id for hit in (await maestro.search.find("owl", session="old")).results} == {old.id}
        assert (await maestro.search.find("owl", session=new.id, limit=1)).total == 5
        assert (await maestro.search.find("owl", since="30min")).total == 5
        assert (await maestro.search.find("owl", rank=True, limit=1)).results[0].session_id == old.id


async def test_deleted_sessions_are_not_found_and_not_kept(backend: Backend):
    """Nor does the cache hold on to their words."""
    async with backend.open_async() as maestro:
        gone = await maestro.sessions.start("gone")
        await maestro.messages.add("user", "wombat secret")
        await maestro.sessions.start("stays")
        kept = await maestro.messages.add("user", "wombat open")
        assert (await maestro.search.find("wombat")).total == 2
        await maestro.sessions.delete(gone.id)
        files = b"".join(path.read_bytes() for path in (backend.project / ".maestro/cache").glob("search.db*"))
        assert b"wombat open" in files
        assert b"wombat secret" not in files
        assert b"ecret" not in files  # the index of words has a word without what it shares with the one before
        assert told(await maestro.search.find("wombat")) == [("message", kept.id)]


async def test_what_cleanup_removed_is_not_found(backend: Backend):
    """The output goes, and what was said of it stays."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("tidy")
        await run_once(maestro, session.id, "one", "lemur " * 5000)
        await run_once(maestro, session.id, "two", "other")
        await maestro.sessions.end(session.id)
        assert told(await maestro.search.find("lemur")) == [("output", "0001")]
        clock.advance(seconds=3600)
        await maestro.archive.sweep()
        await maestro.archive.cleanup(days=0)
        assert [kind for kind, _ in told(await maestro.search.find("lemur"))] == ["message"]


async def test_bad_input_is_refused(backend: Backend):
    """In one line, and where nothing is a project nothing is made."""
    async with backend.open_async() as maestro:
        for words in ({"limit": 0}, {"limit": 1001}, {"kinds": ["letter"]}, {"since": "soon"}):
            with pytest.raises(InvalidValue):
                await maestro.search.find("x", **words)
        with pytest.raises(InvalidValue):
            await maestro.search.find("!!!")


def test_a_folder_that_is_no_project_stays_empty(backend: Backend):
    """Reading makes nothing."""
    if backend.name != "fake":
        return
    with backend.open() as maestro:
        assert maestro.search.find("x") == Found([], 0)
    assert list(Path(backend.project).iterdir()) == []
