"""What runs promise to those who ask for them, on every server. The owner's side is test_claims.py."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from maestro_state.errors import (
    InvalidTransition,
    InvalidValue,
    NoTool,
    Refused,
    RunIsOver,
    RunNotFound,
    RunsOpen,
    ToolNotFound,
)
from maestro_state.models.run import Run
from maestro_state.state.calls.claims import Ended
from tests.support.backends import Backend, Clock


def put_item(backend: Backend, session_id: str, number: int, content: bytes) -> str:
    """Put a context item where the session keeps them, past every verb."""
    digest = hashlib.sha256(content).hexdigest()
    item_id = f"ctx-{number:04d}"
    item = {
        "id": item_id,
        "kind": "text",
        "source": {"added_at": "2026-01-01T00:00:00.000+00:00"},
        "snapshot": {"blob": f"../blobs/{item_id}.txt", "digest": digest},
        "state": "active",
    }
    tag = f"maestro:{{{session_id}}}"
    backend.raw.hset(f"{tag}:blobs", digest, content)
    backend.raw.hset(f"{tag}:items", item_id, msgspec.json.encode(item))
    backend.raw.hincrby(tag, "active_items", 1)
    for part in ("blobs", "items"):
        backend.raw.expire(f"{tag}:{part}", 1000)
    return item_id


def remove_item(backend: Backend, session_id: str, item_id: str) -> None:
    """Take an item out, past every verb."""
    backend.raw.hset(f"maestro:{{{session_id}}}:items", f"{item_id}:removed_at", 1)
    backend.raw.hincrby(f"maestro:{{{session_id}}}", "active_items", -1)


async def test_start_numbers_a_run_and_freezes_what_is_sent(backend: Backend):
    """A run gets the next number, exactly the active items, and makes the session executando."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        put_item(backend, session.id, 1, b"one")
        gone = put_item(backend, session.id, 2, b"two")
        remove_item(backend, session.id, gone)
        run = await maestro.runs.start("what is it?", prompt_source="file", prompt_file="p.txt", cookie="c", env=("X",))
        put_item(backend, session.id, 3, b"three")

        assert (run.id, run.tool, run.status) == ("0001", "echo", "pending")
        assert (run.prompt_source, run.prompt_file, run.cookie, run.env) == ("file", "p.txt", "c", ["X"])
        assert run.context_refs == ["ctx-0001"]
        sent = await maestro.runs.sent("0001")
        assert [item.id for item in sent] == ["ctx-0001"]
        assert run.context_version == [{"id": "ctx-0001", "digest": sent[0].digest}]
        assert sent[0].snapshot_blob == "../../context/blobs/ctx-0001.txt"
        assert await maestro.runs.prompt(run) == b"what is it?"
        record = await maestro.sessions.read()
        assert (record.state, record.counters.run_seq) == ("executando", 1)
        second = await maestro.runs.start("again")
        assert second.context_refs == ["ctx-0001", "ctx-0003"]


async def test_a_context_that_changes_meanwhile_is_read_again(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """An item added between reading the context and starting the run is in the run: nothing stale is sent."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        seen, calls = maestro.blocking.runs._parts.seen_with, []

        def late(session_id: str, *sent_before: object):
            found = seen(session_id, *sent_before)
            if not calls:
                put_item(backend, session.id, 1, b"late")
            calls.append(found)
            return found

        monkeypatch.setattr(maestro.blocking.runs._parts, "seen_with", late)
        run = await maestro.runs.start("p")

        assert len(calls) == 2
        assert run.context_refs == ["ctx-0001"]


async def test_a_repeated_start_is_one_run(backend: Backend):
    """The same command id starts one run, however often it is sent."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("runs", tool="echo")
        runs = [await maestro.runs.start("p", idempotency_key="same-command") for _ in range(3)]

        assert [run.id for run in runs] == ["0001"] * 3
        assert len(await maestro.runs.list()) == 1
        assert backend.raw.llen("rq:queue:maestro") == 1


async def test_twenty_starts_at_once_are_twenty_runs(backend: Backend):
    """Terminals that start runs at the same time get a number each."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("runs", tool="echo")
        runs = await asyncio.gather(*(maestro.runs.start(f"p{n}") for n in range(20)))

        assert sorted(run.id for run in runs) == [f"{n:04d}" for n in range(1, 21)]
        assert backend.raw.llen("rq:queue:maestro") == 20


async def test_a_dry_run_is_recorded_and_changes_no_state(backend: Backend):
    """A dry run keeps its record; no job is made and the session stays where it was."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="cat -n")
        put_item(backend, session.id, 1, b"one")
        run = await maestro.runs.start("p", dry=True)

        assert (run.status, run.flags.dry_run) == ("dry", True)
        assert (await maestro.sessions.read()).state == "iniciada"
        assert not backend.raw.exists("rq:queue:maestro")
        preview = await maestro.runs.preview_of(run)
        assert preview.argv == ["cat", "-n"]
        assert b"one" in preview.stdin
        assert preview.stdin.endswith(b"p")
        assert preview == await maestro.runs.preview("p")


@pytest.mark.parametrize("bad", [{"tool": "no-such-tool-x"}, {"timeout_s": -1}, {"retries": 99}, {"env": ("A=b",)}])
async def test_what_cannot_be_run_is_refused_before_anything_changes(backend: Backend, bad: dict):
    """Unknown tools and bad options leave no run behind."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("runs", tool="echo")
        with pytest.raises((ToolNotFound, InvalidValue)):
            await maestro.runs.start("p", **bad)
        with pytest.raises(InvalidValue):
            await maestro.runs.start("  \n")

        assert await maestro.runs.list() == []


async def test_a_session_without_tool_says_so(backend: Backend):
    """No tool anywhere is an error that names both ways to choose one."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("runs")
        with pytest.raises(NoTool) as refused:
            await maestro.runs.start("p")

        assert "--tool" in refused.value.hint


async def test_cancel_ends_a_pending_run_at_once(backend: Backend):
    """A run nobody claimed is canceled where it is; the session goes back to where it was."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        put_item(backend, session.id, 1, b"one")
        await maestro.runs.start("p")
        canceled = await maestro.runs.cancel()

        assert canceled.status == "canceled"
        assert canceled.error == "canceled before it started"
        assert canceled.finished_at
        assert (await maestro.sessions.read()).state == "com_contexto"
        with pytest.raises(RunIsOver):
            await maestro.runs.cancel("0001")
        with pytest.raises(RunNotFound):
            await maestro.runs.cancel("7")
        with pytest.raises(Refused):
            await maestro.runs.cancel()


async def test_end_is_refused_while_a_run_is_open(backend: Backend):
    """A session with an open run is not ended; the hint names --wait and --cancel."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("runs", tool="echo")
        await maestro.runs.start("p")
        with pytest.raises(RunsOpen) as refused:
            await maestro.sessions.end()

        assert "--cancel" in refused.value.hint
        assert [run.status for run in await maestro.runs.settle(cancel=True)] == ["canceled"]
        assert (await maestro.sessions.end()).state == "finalizada"
        with pytest.raises(InvalidTransition):
            await maestro.runs.start("p")


async def test_abort_ends_open_runs_with_the_session(backend: Backend):
    """Nothing stays open in an aborted session; what was printed before stays, and its size is known."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        await maestro.runs.start("p")
        await maestro.runs.start("q")
        claim = await maestro.claims.claim(session.id, "0001", "w")
        await maestro.claims.add_outputs(claim, 0, [b"partial"])
        await maestro.sessions.abort(reason="enough")

        runs = await maestro.runs.list()
        assert [(run.status, run.error) for run in runs] == [("canceled", "the session was aborted")] * 2
        assert runs[0].output_ref.size == 7
        assert await maestro.runs.output("0001") == b"partial"


async def test_the_end_of_the_last_run_decides_the_state(backend: Backend):
    """Output makes com_saida; none goes back to com_contexto or iniciada; other open runs keep executando."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")

        async def one(data: bytes, *, status: str = "success") -> str:
            run = await maestro.runs.start("p")
            claim = await maestro.claims.claim(session.id, run.id, f"w{run.id}")
            if data:
                await maestro.claims.add_outputs(claim, 0, [data])
            await maestro.claims.finish(claim, Ended(status=status, size=len(data)))
            return (await maestro.sessions.read()).state

        assert await one(b"") == "iniciada"
        put_item(backend, session.id, 1, b"one")
        assert await one(b"", status="error") == "com_contexto"
        await maestro.runs.start("waits")
        assert await one(b"out") == "executando"
        await maestro.runs.cancel()
        record = await maestro.sessions.read()
        assert record.state == "com_saida"
        assert (record.stats.runs_total, record.stats.runs_success, record.stats.runs_error) == (4, 2, 1)


async def test_last_follows_the_newest_success_with_output(backend: Backend):
    """`last` is the newest successful run that printed something, not one that failed or printed nothing."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        with pytest.raises(RunNotFound, match="has no run yet") as none_yet:
            await maestro.runs.read("last")
        assert none_yet.value.hint == 'maestro run "PROMPT"'
        for status, data in (("success", b"one"), ("error", b"two"), ("success", b"")):
            run = await maestro.runs.start("p")
            claim = await maestro.claims.claim(session.id, run.id, run.id)
            if data:
                await maestro.claims.add_outputs(claim, 0, [data])
            await maestro.claims.finish(claim, Ended(status=status, size=len(data)))

        last = await maestro.runs.read("last")
        assert last.id == "0001"
        status = await maestro.sessions.status()
        assert status.last_output["run_id"] == "0001"
        assert status.last_output["path"] == "../runs/0001/output.txt"
        assert [run.id for run in status.runs] == ["0001", "0002", "0003"]


async def test_follow_gives_every_event_of_one_run_and_ends_with_it(backend: Backend):
    """A follower of a run sees its own output only, byte for byte, then its end with what it used."""
    from maestro_state.models.run import Usage

    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        mine, other = await maestro.runs.start("p"), await maestro.runs.start("q")
        claims = [await maestro.claims.claim(session.id, run.id, run.id) for run in (mine, other)]
        await maestro.claims.add_outputs(claims[1], 0, [b"not mine"])
        await maestro.claims.add_outputs(claims[0], 0, [b"text \xff\xfe"])
        await maestro.claims.add_outputs(claims[0], 7, ["é".encode()])
        usage = Usage(model="m", tokens_input=3, cost=0.5)
        ended = Ended(status="success", size=9, digest="d", exit_code=0, usage=usage)
        await maestro.claims.finish(claims[0], ended)
        events = [event async for event in maestro.runs.follow(mine)]

        kinds = [event.type for event in events]
        assert kinds == ["run.started", "run.claimed", "run.output", "run.output", "run.finished"]
        assert b"".join(event.output() for event in events[2:4]) == b"text \xff\xfe\xc3\xa9"
        assert "base64" not in events[3].data
        assert events[4].data["usage"] == {"model": "m", "tokens_input": 3, "cost": 0.5}
        assert (events[4].data["status"], events[4].data["tool"]) == ("success", "echo")
        assert (await maestro.runs.wait(mine)).exit_code == 0
        await maestro.runs.cancel(other.id)


async def test_waiting_ends_when_the_runs_do(backend: Backend):
    """Those named, or those open, in the order they end; what is over already is there at once."""
    async with backend.open_async() as maestro, backend.open_async() as other:
        session = await maestro.sessions.start("runs", tool="echo")
        assert await maestro.runs.wait_all() == []
        runs = [await maestro.runs.start("p") for _ in range(3)]
        claims = [await maestro.claims.claim(session.id, run.id, run.id) for run in runs]
        await maestro.claims.finish(claims[0], Ended(status="error", error="no"))
        waiting = asyncio.create_task(other.runs.wait_all())
        both = asyncio.create_task(other.runs.wait_all([runs[0].id, runs[2].id]))
        await maestro.claims.finish(claims[2], Ended(status="success"))
        assert [(run.id, run.status) for run in await both] == [("0001", "error"), ("0003", "success")]
        assert not waiting.done()
        await maestro.claims.finish(claims[1], Ended(status="success"))
        assert "0002" in [run.id for run in await waiting]
        assert {run.status for run in await other.runs.wait_all(["1", "2"])} == {"error", "success"}
        with pytest.raises(RunNotFound):
            await maestro.runs.wait_all(["1", "7"])


async def test_large_output_is_read_in_pieces_and_whole(backend: Backend):
    """Hundreds of chunks, mixed with another run's, come back in order and exact."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("runs", tool="echo")
        runs: list[Run] = [await maestro.runs.start("p"), await maestro.runs.start("q")]
        claims = [await maestro.claims.claim(session.id, run.id, run.id) for run in runs]
        written = [b"", b""]
        for number in range(300):
            which = number % 3 == 0
            data = f"{number}\n".encode()
            await maestro.claims.add_outputs(claims[which], len(written[which]), [data])
            written[which] += data

        assert await maestro.runs.output("0001") == written[0]
        assert await maestro.runs.output("0002") == written[1]
        await maestro.sessions.abort(reason="done")


@pytest.mark.parametrize("how", [{}, {"dry": True}, {"idempotency_key": "once"}, {"retries": 2, "priority": "high"}])
async def test_a_started_run_is_returned_as_it_is_stored(backend: Backend, how: dict[str, object]):
    """Nothing has to be read again to know it; a repeat returns the first one."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("a", tool="echo")
        started = await maestro.runs.start("hello", session.id, terminal="here", timeout_s=5, **how)
        assert started == await maestro.runs.read(started.id, session.id)
        again = await maestro.runs.start("hello", session.id, terminal="there", timeout_s=5, **how)
        assert (again == started) == ("idempotency_key" in how)
