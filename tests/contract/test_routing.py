"""Which worker a run is for, and in which order runs that wait are taken, on every server."""

from __future__ import annotations

import msgspec
import pytest

from maestro_state import AsyncMaestro
from maestro_state.errors import InvalidValue, NoFittingWorker, TooManyRuns
from maestro_state.models.worker import Worker, WorkerTool
from maestro_state.state.calls.workers import ALIVE_MS, announce_worker
from tests.support.backends import Backend, Clock

PLAIN = "rq:queue:maestro"
HOUR_S = 3600


def worker(name: str, *tools: str, **more: object) -> Worker:
    """Return a worker that has tools, and a list of its own."""
    queue = name.encode().hex()[:8].ljust(8, "0")
    given = {"host": f"host-{name}", "pid": 1, "since": "2026-01-01T00:00:00.000+00:00", "runs_at_once": 1}
    found = [WorkerTool(tool, "1.0") for tool in tools]
    return Worker(**{"id": name, "project": "/elsewhere", "tools": found, "queue": queue, **given, **more})


def waiting(backend: Backend, one: Worker | None = None) -> list[str]:
    """Return which runs wait, by their numbers, in the order in which they are taken."""
    key = f"maestro:{{queue}}:{one.queue}" if one else PLAIN
    return [job.decode().split("_")[2] for job in backend.raw.lrange(key, 0, -1)]


async def team(maestro: AsyncMaestro, *workers: Worker) -> None:
    """Have workers on a server that a team shares."""
    maestro.queue.is_routed = maestro.blocking.queue.is_routed = True
    for one in workers:
        assert await maestro.workers.announce(one)


async def test_workers_are_listed_until_they_say_nothing_more(backend: Backend):
    """What one says replaces what it said; one that signs off goes at once, one that is silent after ten seconds."""
    async with backend.open_async() as maestro:
        await team(maestro, worker("b", "claude"), worker("a", "codex"), worker("b", "claude", "llm"))
        found = await maestro.workers.list()
        assert [(one.id, [tool.name for tool in one.tools]) for one in found] == [
            ("a", ["codex"]),
            ("b", ["claude", "llm"]),
        ]
        assert maestro.blocking.workers.list() == found

        seconds, _ = backend.raw.time()
        terms, silent_ms = maestro.server.terms, seconds * 1000 - ALIVE_MS - 2000
        await maestro.server.run(announce_worker(terms, worker("c"), silent_ms))
        assert "c" not in [one.id for one in await maestro.workers.list()]
        await maestro.workers.announce(worker("a", "codex"))
        assert not backend.raw.hexists("maestro:{@workers}:present", "c"), "and it is removed by whoever comes next"
        await maestro.workers.sign_off("b")
        assert [one.id for one in await maestro.workers.list()] == ["a"]


async def test_workers_of_a_host_are_not_those_of_one_named_like_it(backend: Backend):
    """`doctor --as worker` on `web` must not be well because `web-2` has a worker."""
    async with backend.open_async() as maestro:
        names = [f"rq:worker:maestro@{host}-4321-0a1b2c3d" for host in ("web-2", "web-2", "my-web")]
        for number, name in enumerate(names):
            backend.raw.set(f"{name}{number}", "", ex=60)
            backend.raw.sadd(maestro.server.terms.keys.queue_workers, f"{name}{number}")
            backend.raw.expire(maestro.server.terms.keys.queue_workers, 60)
        assert await maestro.queue.workers() == 3
        assert [await maestro.queue.workers(host) for host in ("web-2", "my-web", "web")] == [2, 1, 0]


async def test_what_is_no_worker_is_passed_over(backend: Backend):
    """Whoever can write there can write anything: the others are listed all the same, and routing goes on."""
    async with backend.open_async() as maestro:
        await team(maestro, worker("a", "echo"))
        seconds, _ = backend.raw.time()
        for name, row in {"x": b"nothing", "y": b"12 {", "z": f'{seconds * 1000} {{"id":1}}'.encode()}.items():
            backend.raw.hset("maestro:{@workers}:present", name, row)
        assert [one.id for one in await maestro.workers.list()] == ["a"]
        await maestro.sessions.start("routing", tool="echo")
        await maestro.runs.start("p")
        assert waiting(backend, worker("a")) == ["0001"]


async def test_a_run_waits_for_every_kind_of_worker_that_can_carry_it_out(backend: Backend):
    """Its job is where those wait that have its tool and labels, and nowhere else; the claim takes the others back."""
    first, second, third = worker("a", "claude"), worker("b", "claude", labels=["gpu"]), worker("c", "codex")
    async with backend.open_async() as maestro:
        await team(maestro, first, second, third)
        session = await maestro.sessions.start("routing", tool="claude")
        await maestro.runs.start("p")
        await maestro.runs.start("p", labels=["gpu"])
        await maestro.runs.start("p", tool="codex")
        assert [waiting(backend, one) for one in (first, second, third)] == [["0001"], ["0001", "0002"], ["0003"]]
        assert waiting(backend) == []
        assert await maestro.queue.waiting() == 3

        run = await maestro.claims.waiting(session.id, "0001")
        await maestro.claims.claim(session.id, "0001", "owner")
        await maestro.queue.withdraw(run, first.queue)
        assert [waiting(backend, one) for one in (first, second)] == [["0001"], ["0002"]], "its own RQ takes back"


async def test_a_run_that_no_worker_can_carry_out_is_refused_at_once(backend: Backend):
    """It says what is missing and what there is, and nothing is recorded; without any worker it waits."""
    async with backend.open_async() as maestro:
        await team(maestro)
        session = await maestro.sessions.start("routing", tool="gemini")
        await maestro.runs.start("p")
        assert waiting(backend) == ["0001"], "nobody is there: it waits for anybody"

        await team(maestro, worker("a", "claude"), worker("b", "codex", labels=["gpu"]))
        for said, how in {
            "no worker has gemini; those there have claude, codex": {},
            "no worker has label tpu; those there have labels gpu": {"labels": ["tpu"]},
            "no worker has claude and label gpu: claude is on host-a:1; label gpu is on host-b:1": {
                "tool": "claude",
                "labels": ["gpu"],
            },
        }.items():
            with pytest.raises(NoFittingWorker, match=said) as refused:
                await maestro.runs.start("p", **how)
            assert (refused.value.exit_code, refused.value.code) == (3, "no_fitting_worker")
        await team(maestro, worker("b", "codex", labels=["gpu", "eu"]), worker("c", "codex", labels=["big"]))
        apart = "label eu and label big together: eu is on host-b:1; big is on host-c:1"
        with pytest.raises(NoFittingWorker, match=apart):
            await maestro.runs.start("p", labels=["eu", "big"])
        await maestro.workers.sign_off("c")
        with pytest.raises(InvalidValue, match="is not a label"):
            await maestro.runs.start("p", labels=["a b"])
        with pytest.raises(InvalidValue, match="priority"):
            await maestro.runs.start("p", tool="claude", priority="urgent")
        folder = session.working_directory
        await team(maestro, *(worker(name, "claude", "codex", lacks=[folder]) for name in "ab"))
        with pytest.raises(NoFittingWorker, match=f"no worker has the folder {folder}; those there have /elsewhere"):
            await maestro.runs.start("p", tool="claude")
        # Of those with the tool none has the folder; whether another one has it says nothing.
        await team(maestro, worker("a", "claude", lacks=[folder]), worker("b", "codex"))
        with pytest.raises(NoFittingWorker, match=f"no worker with claude has the folder {folder}") as refused:
            await maestro.runs.start("p", tool="claude")
        assert f"MAESTRO_PATHS={folder}=" in (refused.value.hint or "")
        assert len(await maestro.runs.list()) == 1


async def test_a_run_whose_only_worker_is_gone_waits_and_says_for_what(backend: Backend):
    """Nobody else is woken for it; the next one that can carry it out finds it, wherever it waited before."""
    async with backend.open_async(now_ms=(clock := Clock())) as maestro:
        await team(maestro, worker("a", "codex"), worker("b", "claude"))
        await maestro.sessions.start("routing", tool="codex")
        await maestro.runs.start("p")
        assert await maestro.runs.waits_for("1") is None
        await maestro.workers.sign_off("a")
        await maestro.queue.present(within_s=0)
        assert await maestro.runs.waits_for("1") == "a worker with codex"
        clock.advance(seconds=60)
        await maestro.claims.recover()
        assert waiting(backend, worker("b")) == waiting(backend) == []
        assert (await maestro.runs.read("1")).status == "pending"
        assert (await maestro.metrics.read()).queue_length == 1, "a worker is to be started for it"

        await team(maestro, again := worker("c", "codex", "llm"))
        await maestro.queue.present(within_s=0)
        await maestro.claims.recover()
        assert waiting(backend, again) == ["0001"]


async def test_what_workers_are_told_of_runs_at_once_counts_for_every_terminal(backend: Backend):
    """A laptop that sets nothing is held to the strictest of what those there say; without them, to its own."""
    async with backend.open_async(user="ana") as maestro:
        await team(maestro, worker("a", "claude", runs_per_user=3), worker("b", "claude", runs_per_user=2))
        one = await maestro.sessions.start("one", tool="claude")
        two = await maestro.sessions.start("two", tool="claude")
        await maestro.runs.start("p", one.id)
        await maestro.runs.start("p", two.id)
        with pytest.raises(TooManyRuns, match="at most 2 runs of one user") as refused:
            await maestro.runs.start("p", one.id)
        assert "MAESTRO_RUNS_PER_USER, here or of a worker" in (refused.value.hint or "")
        assert (await maestro.runs.start("p", one.id, dry=True)).status == "dry"
        await maestro.workers.announce(worker("b", "claude", runs_per_session=1, runs_per_user=-1))
        with pytest.raises(TooManyRuns, match=r"at most 1 run of one session.* has 1: 0001"):
            await maestro.runs.start("p", one.id)
        await maestro.workers.announce(worker("a", "claude"))
        await maestro.workers.announce(worker("b", "claude"))
        assert (await maestro.runs.start("p", one.id)).status == "pending", "the control: nobody says anything"
    async with backend.open_async(user="ana", runs_per_user=4) as strict:
        await team(strict, worker("a", "claude", runs_per_user=9))
        for _ in range(2):
            await strict.runs.start("p", two.id)
        with pytest.raises(TooManyRuns, match=r"at most 4 runs of one user.* ana has 4 open"):
            await strict.runs.start("p", two.id)


async def test_a_repeat_gets_its_run_whatever_has_changed_since(backend: Backend):
    """Its worker is gone, or others have taken all seats: what was asked for once is not refused when asked again."""
    async with backend.open_async(user="ana", runs_per_user=1) as maestro:
        await team(maestro, worker("a", "codex"), worker("b", "claude"))
        await maestro.sessions.start("routing", tool="codex")
        first = await maestro.runs.start("p", idempotency_key="11112222333344445555666677778888")
        await maestro.runs.cancel(first.id)
        await maestro.runs.start("p", tool="claude")
        with pytest.raises(TooManyRuns):
            await maestro.runs.start("control")
        again = await maestro.runs.start("p", idempotency_key="11112222333344445555666677778888")
        await maestro.workers.sign_off("a")
        with pytest.raises(NoFittingWorker):
            await maestro.runs.start("control")
        once_more = await maestro.runs.start("p", idempotency_key="11112222333344445555666677778888")
        assert [(run.id, run.status) for run in (again, once_more)] == [(first.id, "canceled")] * 2


async def test_workers_of_an_earlier_version_are_asked_too(backend: Backend):
    """One that listens and has not said what it has may have everything: no run is refused, and it is woken for it."""
    async with backend.open_async() as maestro:
        await team(maestro, worker("a", "claude"))
        await maestro.sessions.start("routing", tool="codex")
        backend.raw.sadd("rq:workers:maestro", "rq:worker:maestro@old-1-beef00")
        with pytest.raises(NoFittingWorker):
            await maestro.runs.start("control: it is named and gone")
        backend.raw.hset("rq:worker:maestro@old-1-beef00", "birth", "x")
        await maestro.runs.start("p")
        assert waiting(backend) == ["0001"]


async def test_high_goes_before_normal_before_low(backend: Backend):
    """In each list, for as many as wait; of the same priority who came first; `ahead` counts what is really before."""
    async with backend.open_async(now_ms=(clock := Clock())) as maestro:
        await maestro.sessions.start("order", tool="echo")
        asked = ["low", "normal", "high", "normal", "low", "high", "normal"]
        for priority in asked:
            clock.advance(seconds=1)
            await maestro.runs.start("p", priority=priority)
        order = ["0003", "0006", "0002", "0004", "0007", "0001", "0005"]
        assert waiting(backend) == order
        assert [await maestro.runs.ahead(number) for number in order] == list(range(7))
        assert [run.priority for run in await maestro.runs.list()] == asked
        clock.advance(seconds=1)
        await maestro.claims.recover()
        assert waiting(backend) == order, "and who looks after them leaves it so"


async def test_many_that_wait_are_in_order(backend: Backend):
    """Whatever came before: each is put between those of an earlier and those of a later turn."""
    async with backend.open_async(now_ms=(clock := Clock())) as maestro:
        await maestro.sessions.start("order", tool="echo")
        for number in range(40):
            clock.advance(seconds=1)
            await maestro.runs.start("p", priority=("low", "normal", "high")[number * 7 % 3])
        turns = [int(job.decode().rsplit("_", 1)[1]) for job in backend.raw.lrange(PLAIN, 0, -1)]
        assert len(turns) == 40
        assert turns == sorted(turns)


async def test_nothing_waits_for_ever(backend: Backend):
    """A run of low priority counts as asked for an hour later: what comes after that comes after it, and two hours for
    those of high priority.
    """
    async with backend.open_async(now_ms=(clock := Clock())) as maestro:
        await maestro.sessions.start("order", tool="echo")
        await maestro.runs.start("p", priority="low")
        clock.advance(seconds=HOUR_S - 1)
        await maestro.runs.start("p")
        clock.advance(seconds=2)
        await maestro.runs.start("p")
        clock.advance(seconds=HOUR_S - 2)
        await maestro.runs.start("p", priority="high")
        clock.advance(seconds=2)
        await maestro.runs.start("p", priority="high")
        assert waiting(backend) == ["0002", "0004", "0001", "0003", "0005"]


async def test_what_takes_moments_goes_first(backend: Backend):
    """Archiving a session that has ended does not wait for runs that take minutes."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("order", tool="echo")
        await maestro.runs.start("p", priority="high")
        await maestro.queue.enqueue_finalization(session.id)
        assert [job.decode().split("_")[2] for job in backend.raw.lrange(PLAIN, 0, -1)] == ["archive", "0001"]


async def test_jobs_for_anybody_wait_where_somebody_is(backend: Backend):
    """With each attempt for other workers: the first may not have what it takes."""
    async with backend.open_async() as maestro:
        first, second = worker("a"), worker("b")
        await team(maestro, first, second)
        session = await maestro.sessions.start("routing")
        for attempt in range(2):
            await maestro.queue.enqueue_finalization(session.id, attempt)
        found = [backend.raw.llen(f"maestro:{{queue}}:{one.queue}") for one in (first, second)]
        assert found == [1, 1]
        profile = await maestro.queue.enqueue_sending(session.id, "0" * 32, 1)
        assert profile == second.queue
        await maestro.queue.withdraw_sending("0" * 32, 1, profile)
        assert backend.raw.llen(f"maestro:{{queue}}:{second.queue}") == 1


async def test_a_stack_is_not_routed(backend: Backend):
    """Its workers all have the same: runs wait where they always did, whatever the list says; labels are refused."""
    async with backend.open_async() as maestro:
        maestro.queue.is_routed = maestro.blocking.queue.is_routed = False
        await maestro.workers.announce(worker("a", "claude"))
        await maestro.sessions.start("routing", tool="echo")
        await maestro.runs.start("p")
        assert waiting(backend) == ["0001"]
        with pytest.raises(NoFittingWorker, match="own stack have none"):
            await maestro.runs.start("p", labels=["gpu"])


async def test_which_workers_have_a_tool_is_told(backend: Backend):
    """Of one tool, or of every one that some worker has; and by doctor."""
    async with backend.open_async() as maestro:
        await team(maestro, worker("a", "claude", "echo"), worker("b", "claude"))
        rows = await maestro.tools.check_workers()
        told = [{"host": "host-a", "version": "1.0"}, {"host": "host-b", "version": "1.0"}]
        assert msgspec.to_builtins(rows) == [
            {"name": "claude", "status": "ok", "workers": told},
            {"name": "echo", "status": "ok", "workers": told[:1]},
        ]
        missing = await maestro.tools.check_workers("gemini")
        assert msgspec.to_builtins(missing) == [{"name": "gemini", "status": "missing"}]
