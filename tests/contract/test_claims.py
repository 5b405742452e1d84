"""What the owner of a run may do, and what happens when there are two or none, on every server."""

from __future__ import annotations

import pytest

from maestro_state.errors import LostClaim, OutputLost, RunNotFound, ServerUnavailable
from maestro_state.models.run import Activity
from maestro_state.state.calls.claims import LEASE_MS, SUSPICION_MS, Ended
from maestro_state.state.calls.queue import TAKEN_MS
from tests.support.backends import Backend, Clock


async def test_a_claim_is_exclusive_and_repeatable_by_its_owner(backend: Backend):
    """One owner gets a run; the same owner may ask again, another may not."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")

        assert claim.fence == 1
        assert claim.working_directory == str(backend.project)
        assert await maestro.claims.contents(claim) == [b"p"]
        assert await maestro.claims.claim(session.id, "0001", "a") == claim
        with pytest.raises(LostClaim):
            await maestro.claims.claim(session.id, "0001", "b")
        with pytest.raises(RunNotFound):
            await maestro.claims.claim(session.id, "0009", "b")
        run = await maestro.runs.read("0001")
        assert run.status == "running"
        assert run.started_at


async def test_which_runs_are_over_is_told_beside_a_damaged_session(backend: Backend):
    """What is damaged is not taken for over, and hides no other."""
    async with backend.open_async() as maestro:
        ids = [(await maestro.sessions.start(name, tool="echo")).id for name in ("damaged", "open", "over")]
        for session_id in ids:
            await maestro.runs.start("p", session_id)
        await maestro.runs.cancel("0001", ids[2])
        key = maestro.server.terms.keys.of_session(ids[0], "runs")
        backend.raw.delete(key)
        backend.raw.set(key, "no hash", px=60_000)
        names = [(session_id, "0001") for session_id in [*ids, "gone--aaaaaa"]]
        assert await maestro.claims.over(names) == names[2:]
        backend.raw.delete(key)


async def test_a_repeated_chunk_is_written_once(backend: Backend):
    """The offset tells a repeat from the next chunk, even when both say the same."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        for offset in (0, 0, 3, 3, 6):
            await maestro.claims.add_outputs(claim, offset, [b"abc"])

        assert await maestro.runs.output("0001") == b"abc" * 3


async def test_pieces_sent_together_are_written_once_and_in_order(backend: Backend):
    """A batch that is sent again, or that the server has half of, is completed; also when it forgot the script."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        assert await maestro.claims.add_outputs(claim, 0, [b"one ", b"two "]) is False
        await maestro.server.connection.call("SCRIPT", "FLUSH")
        for _ in range(2):
            assert await maestro.claims.add_outputs(claim, 4, [b"two ", b"three ", b"four"]) is False

        assert await maestro.runs.output("0001") == b"one two three four"


async def test_output_never_has_a_gap(backend: Backend):
    """What comes after output that the server does not have is refused, and the refusal says how much it has."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        await maestro.claims.add_outputs(claim, 0, [b"abc"])
        for late in (maestro.claims.add_outputs(claim, 4, [b"x"]), maestro.claims.add_outputs(claim, 4, [b"x", b"y"])):
            with pytest.raises(OutputLost) as refused:
                await late
            assert refused.value.size == 3

        assert await maestro.runs.output("0001") == b"abc"


async def test_finish_is_once_and_ends_the_claim(backend: Backend):
    """A repeat of finish changes nothing; after it the claim is worth nothing."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        for _ in range(3):
            await maestro.claims.finish(claim, Ended(status="error", error="no"), "one-command")

        assert (await maestro.sessions.read()).stats.runs_error == 1
        for late in (maestro.claims.add_outputs(claim, 0, [b"x"]), maestro.claims.renew(claim)):
            with pytest.raises(LostClaim):
                await late
        with pytest.raises(LostClaim):
            await maestro.claims.finish(claim, Ended(status="success"))
        assert (await maestro.runs.read("0001")).status == "error"


async def test_cancel_reaches_the_owner_with_its_next_call(backend: Backend):
    """A running run is not ended over its owner's head: the owner hears of it and ends it."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        assert await maestro.claims.renew(claim) is False
        assert (await maestro.runs.cancel("1")).status == "running"

        assert await maestro.claims.renew(claim) is True
        assert await maestro.claims.add_outputs(claim, 0, [b"last words"]) is True
        await maestro.claims.finish(claim, Ended(status="canceled", error="canceled", size=10))
        assert (await maestro.runs.read("0001")).status == "canceled"


async def test_a_run_whose_owner_is_gone_ends_as_error(backend: Backend):
    """When the lease has ended and stays so, the run ends with a reason and keeps what was printed."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        await maestro.claims.add_outputs(claim, 0, [b"before"])
        assert await maestro.claims.recover() == []
        clock.advance(seconds=LEASE_MS / 1000 + 1)
        assert await maestro.claims.recover() == []  # suspected, not judged
        clock.advance(seconds=SUSPICION_MS / 1000)
        assert await maestro.claims.recover() == [(session.id, "0001")]

        run = await maestro.runs.read("0001")
        assert (run.status, run.error) == ("error", "its worker was lost while it ran")
        assert run.output_ref.size == 6
        record = await maestro.sessions.read()
        assert (record.state, record.stats.runs_error) == ("com_saida", 1)
        with pytest.raises(LostClaim):
            await maestro.claims.add_outputs(claim, 6, [b"zombie"])
        assert await maestro.runs.output("0001") == b"before"


async def test_an_owner_that_was_only_kept_waiting_keeps_its_run(backend: Backend):
    """A lease seen ended is a suspicion: an owner that comes back in time goes on (control: without it, it is over)."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        for _ in range(2):
            await maestro.runs.start("p")
        kept, lost = [await maestro.claims.claim(session.id, f"000{n}", str(n)) for n in (1, 2)]
        clock.advance(seconds=20)
        await maestro.claims.recover()
        await maestro.claims.renew(kept)
        clock.advance(seconds=SUSPICION_MS / 1000)

        assert await maestro.claims.recover() == [(session.id, "0002")]
        await maestro.claims.finish(kept, Ended(status="success"))
        with pytest.raises(LostClaim):
            await maestro.claims.finish(lost, Ended(status="success"))


async def test_reading_much_keeps_the_claim(backend: Backend):
    """What is sent with a run may take longer to come than a lease lasts (control: who reads nothing loses it)."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        texts = [f"text {number}" for number in range(20)]
        await maestro.context.add(*texts, kind="text")
        for _ in range(2):
            await maestro.runs.start("p")
        reading, idle = [await maestro.claims.claim(session.id, f"000{n}", str(n)) for n in (1, 2)]
        clock.advance(seconds=20)
        await maestro.claims.recover()
        assert await maestro.claims.contents(reading) == [b"p", *map(str.encode, texts)]
        clock.advance(seconds=SUSPICION_MS / 1000)

        assert await maestro.claims.recover() == [(session.id, "0002")]
        await maestro.claims.finish(reading, Ended(status="success"))
        with pytest.raises(LostClaim):
            await maestro.claims.finish(idle, Ended(status="success"))


async def test_a_run_that_may_be_retried_starts_over_with_a_clean_output(backend: Backend):
    """The lost attempt's output goes, a new job is there, and the old attempt can write nothing more."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p", retries=1)
        await maestro.runs.start("other")
        first = await maestro.claims.claim(session.id, "0001", "a")
        other = await maestro.claims.claim(session.id, "0002", "o")
        for number in range(250):
            await maestro.claims.add_outputs(first, number * 3, [b"old"])
        await maestro.claims.add_outputs(other, 0, [b"other"])
        backend.raw.delete("rq:queue:maestro")
        clock.advance(seconds=10)
        await maestro.claims.renew(other)
        await maestro.claims.recover()
        clock.advance(seconds=2)
        assert await maestro.claims.recover() == [(session.id, "0001")]

        assert backend.raw.llen("rq:queue:maestro") == 1
        second = await maestro.claims.claim(session.id, "0001", "b")
        assert second.fence > first.fence
        with pytest.raises(LostClaim):
            await maestro.claims.add_outputs(first, 750, [b"zombie"])
        await maestro.claims.add_outputs(second, 0, [b"new"])
        assert await maestro.runs.output("0001") == b"new"
        assert await maestro.runs.output("0002") == b"other"
        clock.advance(seconds=10)
        await maestro.claims.recover()
        clock.advance(seconds=2)
        await maestro.claims.recover()
        assert [run.status for run in await maestro.runs.list()] == ["error", "error"]  # no second retry


async def test_what_a_given_up_try_printed_is_not_archived_for_good(backend: Backend):
    """A checkpoint had it; when the next try ends in silence the archive shows what the server showed: nothing."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p", retries=1)
        given_up = await maestro.claims.claim(session.id, "0001", "a")
        await maestro.claims.add_outputs(given_up, 0, [b"given up"])
        await maestro.archive.checkpoint()
        output = backend.project / ".maestro/sessions" / session.id / "runs/0001/output.txt"
        assert output.read_bytes() == b"given up"  # control: it was there
        clock.advance(seconds=10)
        await maestro.claims.recover()
        clock.advance(seconds=2)
        assert await maestro.claims.recover() == [(session.id, "0001")]
        silent = await maestro.claims.claim(session.id, "0001", "b")
        await maestro.claims.finish(silent, Ended(status="success", exit_code=0))
        assert await maestro.runs.output("0001") == b""
        await maestro.sessions.end()
        await maestro.archive.checkpoint(session.id)
        assert not output.exists()
        backend.raw.delete(*maestro.server.terms.keys.session(session.id))
        assert await maestro.runs.output("0001", session.id) == b""
        assert (await maestro.archive.verify(session.id)).ok


async def test_a_pending_run_without_a_job_gets_one(backend: Backend):
    """A job that was lost is put there again, once; one that waits is left alone."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        await maestro.claims.recover()
        (job_id,) = backend.raw.lrange("rq:queue:maestro", 0, -1)
        # Without its job, which nobody can have then; and with it, out of the queue for longer than a worker needs.
        for lost in ("rq:job:" + job_id.decode(), None):
            backend.raw.delete("rq:queue:maestro", *([lost] if lost else []))
            for _ in range(3):
                assert await maestro.claims.recover() == []
                clock.advance(seconds=TAKEN_MS / 1000)
            assert backend.raw.lrange("rq:queue:maestro", 0, -1) == [job_id]


async def test_an_open_run_keeps_its_session_from_expiring(backend: Backend):
    """Beats of a run that prints nothing renew the session (control: without them it expires)."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo", ttl_seconds=40)
        await maestro.runs.start("p")
        claim = await maestro.claims.claim(session.id, "0001", "a")
        for _ in range(10):
            clock.advance(seconds=11)
            await maestro.claims.renew(claim)
        assert (await maestro.sessions.read()).status == "active"
        clock.advance(seconds=41)
        assert (await maestro.sessions.read()).status == "expired"
        # the owner still has the claim: a machine that slept loses nothing
        await maestro.claims.finish(claim, Ended(status="success"))
        assert (await maestro.runs.read("0001")).status == "success"


async def test_a_job_that_was_taken_is_not_written_again_at_once(backend: Backend):
    """While its worker may still claim the run, the job is left alone; a worker that never does was lost on the way."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        job_id = backend.raw.lpop("rq:queue:maestro").decode()
        backend.raw.hset(f"rq:job:{job_id}", "started_at", "by a worker")
        for _ in range(3):
            assert await maestro.claims.recover_run(session.id, "0001") == "pending"
        assert backend.raw.llen("rq:queue:maestro") == 0
        assert backend.raw.hget(f"rq:job:{job_id}", "started_at") == b"by a worker"

        clock.advance(seconds=TAKEN_MS / 1000)
        await maestro.claims.recover_run(session.id, "0001")
        await maestro.claims.recover_run(session.id, "0001")
        assert backend.raw.lrange("rq:queue:maestro", 0, -1) == [job_id.encode()]


async def test_rq_reads_the_job_as_its_own(backend: Backend):
    """The job that is written is one that RQ's own classes fetch: same function, same arguments, nothing private."""
    from rq import Queue
    from rq.job import Job
    from rq.serializers import JSONSerializer

    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("a secret prompt")
        queue = Queue("maestro", connection=backend.raw, serializer=JSONSerializer)

        (job_id,) = queue.job_ids
        job = Job.fetch(job_id, connection=backend.raw, serializer=JSONSerializer)
        assert (job.func_name, job.args, job.kwargs) == ("maestro_workers.jobs.execute_run", [session.id, "0001"], {})
        assert (job.timeout, job.result_ttl, job.get_status()) == (-1, 0, "queued")
        assert b"secret" not in b"".join(backend.raw.hvals(f"rq:job:{job_id}"))
        assert job.description is None


async def test_a_queue_that_is_away_is_asked_once_in_a_look(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """Runs that wait for a worker stay as they are, and why is known; other runs are looked after all the same."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        for _ in range(4):
            await maestro.runs.start("p")
        await maestro.claims.claim(session.id, "0004", "lost")
        asked, enqueue = [], maestro.queue.enqueue

        async def is_away(*names):
            asked.append(names)
            raise ServerUnavailable("away")

        monkeypatch.setattr(maestro.queue, "enqueue", is_away)
        clock.advance(seconds=LEASE_MS / 1000 + 1)
        assert await maestro.claims.recover() == []
        clock.advance(seconds=SUSPICION_MS / 1000 + 1)
        assert await maestro.claims.recover() == [(session.id, "0004")]
        assert len(asked) == 2
        assert str(maestro.claims.queue_fault) == "away"
        assert [run.status for run in await maestro.runs.list()] == ["pending"] * 3 + ["error"]

        monkeypatch.setattr(maestro.queue, "enqueue", enqueue)
        backend.raw.delete("rq:queue:maestro")
        clock.advance(seconds=1)
        for _ in range(2):
            await maestro.claims.recover()
            clock.advance(seconds=TAKEN_MS / 1000 + 1)
        assert maestro.claims.queue_fault is None
        assert backend.raw.llen("rq:queue:maestro") == 3


async def test_what_an_agent_did_is_written_once_and_only_by_the_owner(backend: Backend):
    """A batch sent again adds nothing, the next attempt counts anew, and one that lost its claim writes nothing."""
    done = [Activity("tool_call", "Bash", f"echo {number}") for number in range(3)]
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("claims", tool="echo")
        await maestro.runs.start("p")
        await maestro.runs.start("q")
        assert await maestro.runs.activity("0001") == []
        claim = await maestro.claims.claim(session.id, "0001", "a")
        other = await maestro.claims.claim(session.id, "0002", "a")
        for _ in range(2):
            assert await maestro.claims.add_activity(claim, 0, done[:2]) is False
        await maestro.claims.add_activity(other, 0, [Activity("retry", "api_retry", "401")])
        await maestro.claims.add_activity(claim, 1, done[1:])

        found = await maestro.runs.activity("0001")
        assert [(one.type, one.data) for one in found] == [
            ("run.activity", {"run": "0001", "kind": "tool_call", "name": "Bash", "summary": f"echo {number}"})
            for number in range(3)
        ]
        assert [one.data["kind"] for one in await maestro.runs.activity("0002")] == ["retry"]
        await maestro.runs.cancel("0001")
        assert await maestro.claims.add_activity(claim, 3, done[:1]) is True
        await maestro.claims.finish(claim, Ended(status="canceled"))
        with pytest.raises(LostClaim):
            await maestro.claims.add_activity(claim, 4, done[:1])
        assert len(await maestro.runs.activity("0001")) == 4
