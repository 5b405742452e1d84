"""A session whose time is over is frozen, whoever notices it first and however late: server, disk and index."""

from __future__ import annotations

import json

import pytest

from maestro_state import AsyncMaestro
from maestro_state.clock import iso, now_ms
from maestro_state.errors import InvalidTransition, Refused, SessionExpired
from maestro_state.state.calls.claims import LEASE_MS, SUSPICION_MS
from tests.support.backends import Backend, Clock
from tests.support.passing import TTL_S, let_pass, long_ago


async def over(backend: Backend, *, is_written: bool) -> tuple[str, str]:
    """Return a session whose time has passed, and when that was; unwritten the server still has it."""
    clock = long_ago()
    async with backend.open_async(now_ms=clock) as then:
        session = await then.sessions.start("over", ttl_seconds=TTL_S)
        await then.messages.add("user", "kept")
        if is_written:
            await then.archive.checkpoint()
        let_pass(backend.raw, then, session.id)
        assert backend.raw.exists(then.server.terms.keys.of_session(session.id, "session")) != is_written
    return session.id, iso(clock.now_ms + TTL_S * 1000)


async def check_frozen(backend: Backend, maestro: AsyncMaestro, session_id: str, at: str) -> None:
    """See that a session is frozen everywhere, since when its time was over."""
    folder = backend.project / ".maestro/sessions"
    record = json.loads((folder / session_id / "session.json").read_text())
    assert (record["state"], record["finalized_at"]) == ("finalizada", at)
    (row,) = [one for one in json.loads((folder / "index.json").read_text())["sessions"] if one["id"] == session_id]
    assert (row["state"], row["finalized_at"]) == ("finalizada", at)
    read = await maestro.sessions.read(session_id)
    assert (read.state, read.finalized_at) == ("finalizada", at)
    events = [event async for event in maestro.follow.events(session_id, cursor="start")]
    assert events[-1].type == "session.finalized"
    assert events[-1].data["reason"] == "expired"
    assert (await maestro.archive.verify(session_id)).ok
    (listed,) = [one for one in await maestro.sessions.list(everything=True) if one.id == session_id]
    assert (listed.state, listed.finalized_at) == ("finalizada", at)


async def by_sweep(maestro: AsyncMaestro, session_id: str) -> None:
    report = await maestro.archive.sweep()
    assert (report.finalized, report.errors) == ([session_id], [])


async def by_end(maestro: AsyncMaestro, session_id: str) -> None:
    with pytest.raises(SessionExpired, match="is frozen: its time was over at") as caught:
        await maestro.sessions.end(session_id)
    assert f"maestro session fork {session_id}" in str(caught.value.hint)
    with pytest.raises(InvalidTransition, match="finalizada"):
        await maestro.sessions.end(session_id)


async def by_message(maestro: AsyncMaestro, session_id: str) -> None:
    with pytest.raises(SessionExpired, match="is frozen"):
        await maestro.messages.add("user", "late", session_id)


async def by_context(maestro: AsyncMaestro, session_id: str) -> None:
    with pytest.raises(SessionExpired, match="is frozen"):
        await maestro.context.add("late", kind="text", ref=session_id)


async def by_run(maestro: AsyncMaestro, session_id: str) -> None:
    with pytest.raises((SessionExpired, InvalidTransition)):
        await maestro.runs.start("late", session_id, tool="echo")


async def by_status(maestro: AsyncMaestro, session_id: str) -> None:
    assert (await maestro.sessions.status(session_id)).session.state == "finalizada"


async def by_list(maestro: AsyncMaestro, session_id: str) -> None:
    assert [row.state for row in await maestro.sessions.list() if row.id == session_id] == ["finalizada"]


async def by_fork(maestro: AsyncMaestro, session_id: str) -> None:
    fork = await maestro.sessions.fork(session_id, "on")
    assert [message.content for message in await maestro.messages.last(5, fork.id)] == ["kept"]


async def by_cancel(maestro: AsyncMaestro, session_id: str) -> None:
    with pytest.raises(Refused, match="no open run"):
        await maestro.runs.cancel(ref=session_id)


async def by_wait(maestro: AsyncMaestro, session_id: str) -> None:
    assert await maestro.runs.wait_all(ref=session_id) == []


BY_COMMANDS = [by_end, by_message, by_context, by_run, by_status, by_list, by_fork, by_cancel, by_wait]


@pytest.mark.parametrize("is_written", [False, True], ids=["unwritten", "only-on-disk"])
@pytest.mark.parametrize("notice", [by_sweep, *BY_COMMANDS])
async def test_whoever_notices_freezes(backend: Backend, notice, is_written):
    """The server still has it, or has let it go before anybody came: the sweep or the next command freezes it."""
    session_id, at = await over(backend, is_written=is_written)
    async with backend.open_async() as maestro:
        await notice(maestro, session_id)
        await check_frozen(backend, maestro, session_id, at)


async def test_a_server_that_knows_nothing_of_it_freezes_it(backend: Backend):
    """A server that lost everything, or is a new one: this checkout remembers what it had."""
    session_id, at = await over(backend, is_written=True)
    backend.raw.flushall()
    async with backend.open_async() as maestro:
        await by_sweep(maestro, session_id)
        await check_frozen(backend, maestro, session_id, at)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "lost"])
async def test_before_its_time_is_over_nothing_is_frozen(backend: Backend, is_known):
    """Control: the same looks leave a session alone whose time is not over, also one that a server lost."""
    async with backend.open_async(now_ms=long_ago()) as then:
        session = await then.sessions.start("alive", ttl_seconds=10 * TTL_S)
        await then.archive.checkpoint()
    if not is_known:
        backend.raw.flushall()
    async with backend.open_async() as maestro:
        assert (await maestro.archive.sweep()).finalized == []
        await maestro.sessions.list()
        assert (await maestro.sessions.status(session.id)).session.state == "iniciada"
        record = json.loads((backend.project / ".maestro/sessions" / session.id / "session.json").read_text())
        assert record["state"] == "iniciada"


async def test_one_clock_alone_freezes_nothing(backend: Backend):
    """A terminal that is ahead refuses, and does not freeze: the server's own clock says that there is time left."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("alive", ttl_seconds=TTL_S)
        now = maestro.server.now_ms()
        async with backend.open_async(now_ms=Clock(now + 40 * 24 * 3600 * 1000)) as ahead:
            with pytest.raises(SessionExpired, match="has expired"):
                await ahead.messages.add("user", "x", session.id)
        assert (await maestro.sessions.read(session.id)).state == "iniciada"


async def test_a_run_that_waits_for_a_worker_ends_first(backend: Backend):
    """It has an honest end with its reason, before the session is frozen."""
    clock = long_ago()
    async with backend.open_async(now_ms=clock) as then:
        session = await then.sessions.start("over", ttl_seconds=TTL_S, tool="echo")
        run = await then.runs.start("never taken")
        let_pass(backend.raw, then, session.id)
    async with backend.open_async() as maestro:
        await by_sweep(maestro, session.id)
        ended = await maestro.runs.read(run.id, session.id)
        assert (ended.status, ended.error) == ("error", "the session's time was over before a worker took the run")
        assert (await maestro.sessions.read(session.id)).stats.runs_error == 1
        types = [event.type async for event in maestro.follow.events(session.id, cursor="start")]
        assert types[-2:] == ["run.finished", "session.finalized"]


async def test_a_run_whose_worker_is_gone_ends_first(backend: Backend):
    """It is found out as ever, after the lease; then the session is frozen. While the owner lives, nothing is."""
    clock = long_ago()
    async with backend.open_async(now_ms=clock) as then:
        session = await then.sessions.start("over", ttl_seconds=TTL_S, tool="echo")
        run = await then.runs.start("lost")
        claim = await then.claims.claim(session.id, run.id, "me")
        await then.claims.add_outputs(claim, 0, [b"so far"])
    now = Clock(now_ms())
    async with backend.open_async(now_ms=now) as maestro:
        runs = maestro.server.terms.keys.of_session(session.id, "runs")
        lease = backend.raw.hget(runs, f"{run.id}:lease")
        backend.raw.hset(runs, f"{run.id}:lease", now.now_ms + LEASE_MS)
        let_pass(backend.raw, maestro, session.id)
        assert (await maestro.archive.sweep()).finalized == []  # its owner is alive
        backend.raw.hset(runs, f"{run.id}:lease", lease)
        for _ in range(2):
            now.advance(seconds=SUSPICION_MS / 1000 + 1)
            report = await maestro.archive.sweep()
        assert report.finalized == [session.id]
        ended = await maestro.runs.read(run.id, session.id)
        assert (ended.status, ended.output_ref.size) == ("error", 6)
        assert (await maestro.sessions.read(session.id)).state == "finalizada"


async def test_a_run_that_only_the_disk_has_open_ends_first(backend: Backend):
    """The last checkpoint has it running: its end is written with what it had printed, then the session is frozen."""
    clock = long_ago()
    async with backend.open_async(now_ms=clock) as then:
        session = await then.sessions.start("over", ttl_seconds=TTL_S, tool="echo")
        run = await then.runs.start("lost")
        claim = await then.claims.claim(session.id, run.id, "me")
        await then.claims.add_outputs(claim, 0, [b"so far"])
        await then.archive.checkpoint()
        backend.raw.delete(*then.server.terms.keys.session(session.id))
    async with backend.open_async() as maestro:
        await by_sweep(maestro, session.id)
        await check_frozen(backend, maestro, session.id, iso(clock.now_ms + TTL_S * 1000))
        ended = await maestro.runs.read(run.id, session.id)
        assert (ended.status, ended.output_ref.size) == ("error", 6)
        assert "time was over" in ended.error
        assert await maestro.runs.output(run.id, session.id) == b"so far"


@pytest.mark.parametrize("whose", ["another program's", "another checkout's"])
async def test_archives_of_others_never_change(backend: Backend, whose):
    """Looking at, listing, sweeping: not a byte and no time of an archive that is not ours."""
    session_id, _ = await over(backend, is_written=True)
    folder = backend.project / ".maestro/sessions" / session_id
    if whose == "another program's":
        for name in ("maestro.json", "manifest.json", "events.jsonl", "messages.jsonl"):
            (folder / name).unlink(missing_ok=True)
    else:
        theirs = backend.project.parent / f"{backend.project.name}-clone"
        theirs.mkdir()
        (backend.project / ".maestro").rename(theirs / ".maestro")
        (theirs / ".maestro").rename(backend.project / ".maestro")
        theirs.rmdir()
        record = folder / "maestro.json"
        # As if it had been started elsewhere: sealed anew, so that it is whole.
        from maestro_state.mirror.layouts import session as layout

        content = record.read_bytes().replace(str(backend.project).encode(), b"/home/ana/project")
        record.write_bytes(content)
        manifest = layout.decode_manifest((folder / "manifest.json").read_bytes(), session_id)
        files = manifest.files | {"maestro.json": layout.FileEntry(layout.sha256(content), len(content))}
        import msgspec

        (folder / "manifest.json").write_bytes(layout.encode_manifest(msgspec.structs.replace(manifest, files=files)))

    def seen():
        paths = sorted(folder.rglob("*"))
        return [(path, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in paths]

    before = seen()
    async with backend.open_async() as maestro:
        assert (await maestro.archive.sweep()).finalized == []
        await maestro.sessions.list(everything=True)
        await maestro.sessions.status(session_id)
        with pytest.raises(SessionExpired, match="has expired"):
            await maestro.messages.add("user", "late", session_id)
    assert seen() == before
