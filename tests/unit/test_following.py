"""Following a run in a terminal: when it is said that nobody carries it out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from maestro_cli.screen.following import _Screen


@pytest.mark.parametrize(("address", "due"), [(None, [False, False, True]), ("redis://team", [False, True, True])])
def test_the_stacks_own_worker_gets_the_time_to_start(address: str | None, due: list[bool]):
    """On a server of a team a run that nobody takes is told of after seconds; one's own worker may be starting."""
    app = SimpleNamespace(maestro=SimpleNamespace(settings=SimpleNamespace(redis_url=address)))
    screen = _Screen(app, SimpleNamespace(id="0001", tool="echo"))
    assert [screen.is_overdue(seconds) for seconds in (1.0, 10.0, 100.0)] == due
    screen.take(SimpleNamespace(type="run.claimed"), quiet=True)
    assert not screen.is_overdue(100.0)


@pytest.mark.parametrize(("address", "hint"), [(None, "(maestro doctor)"), ("redis://team", "(maestro worker)")])
def test_what_to_do_where_no_worker_is(address: str | None, hint: str, capsys: pytest.CaptureFixture[str]):
    """A worker is started by hand for a team's server; a stack of one's own brings it, or doctor says why not."""
    runs = SimpleNamespace(workers=list)
    app = SimpleNamespace(maestro=SimpleNamespace(settings=SimpleNamespace(redis_url=address), runs=runs))
    _Screen(app, SimpleNamespace(id="0001", tool="echo"))._warn_if_alone()
    assert capsys.readouterr().err.rstrip().endswith(hint)
