"""Following a run in a terminal: when it is said that nobody carries it out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from maestro_cli.screen.awaiting import Awaiting
from maestro_cli.screen.unclaimed import Unclaimed


@pytest.mark.parametrize(("address", "due"), [(None, [False, False, True]), ("redis://team", [False, True, True])])
def test_the_stacks_own_worker_gets_the_time_to_start(address: str | None, due: list[bool]):
    """On a server of a team a run that nobody takes is told of after seconds; one's own worker may be starting."""
    app = SimpleNamespace(maestro=SimpleNamespace(settings=SimpleNamespace(redis_url=address)))
    run = Unclaimed(app, "0001", told_alone=False)
    assert [run.is_overdue(seconds) for seconds in (1.0, 10.0, 100.0)] == due
    assert not Unclaimed(app, "0001", told_alone=True).is_overdue(100.0)


@pytest.mark.parametrize(("address", "hint"), [(None, "(maestro doctor)"), ("redis://team", "(maestro worker)")])
def test_what_to_do_where_no_worker_is(address: str | None, hint: str):
    """A worker is started by hand for a team's server; a stack of one's own brings it, or doctor says why not."""
    runs = SimpleNamespace(workers=list)
    app = SimpleNamespace(maestro=SimpleNamespace(settings=SimpleNamespace(redis_url=address), runs=runs))
    run = Unclaimed(app, "0001", told_alone=False)
    (told,) = run.news(100.0, "waiting for a worker", has_line=False)
    assert told.endswith(hint)
    assert list(run.news(200.0, "waiting for a worker", has_line=False)) == []


def _app(status: str, **said: Any) -> SimpleNamespace:
    """Return a team's server on which a run has this status."""
    room = {"workers": lambda: 0, "read": lambda _: SimpleNamespace(status=status), "ahead": lambda _: None,
            "waits_for": lambda _: None} | said  # fmt: skip
    settings = SimpleNamespace(redis_url="redis://team")
    return SimpleNamespace(maestro=SimpleNamespace(settings=settings, runs=SimpleNamespace(**room)))


def test_who_only_waits_reads_the_same_words(capsys: pytest.CaptureFixture[str]):
    """No worker at all is said at once and once; a tool that no worker has as soon as it keeps the run for long."""
    runs = [SimpleNamespace(id="0001", status="running"), SimpleNamespace(id="0002", status="pending")]
    waits = Awaiting(_app("pending"), runs)
    waits.update(10.0)
    assert capsys.readouterr().err == "maestro: no worker is listening: the run waits until one does (maestro worker)\n"

    waits = Awaiting(_app("pending", workers=lambda: 1, waits_for=lambda _: "claude"), runs)
    waits.update(1.0)
    assert capsys.readouterr().err == ""
    waits.update(3.0)
    waits.update(4.0)
    assert capsys.readouterr().err == ("maestro: run 0002 is waiting for claude, and none is there (maestro workers)\n")


def test_runs_that_are_carried_out_keep_nobody(capsys: pytest.CaptureFixture[str]):
    """Nothing is said of a worker where none is waited for, or one has taken the run meanwhile."""
    Awaiting(_app("running"), [SimpleNamespace(id="0001", status="running")]).update(100.0)
    app = _app("success", workers=lambda: 1)
    waits = Awaiting(app, [SimpleNamespace(id="0001", status="pending")])
    app.maestro.runs.workers = lambda: 0
    waits.update(100.0)
    assert capsys.readouterr().err == ""
