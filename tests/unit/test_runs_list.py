"""`maestro runs` as people see it: one row a run, nothing wraps, what has no room stands below."""

from __future__ import annotations

import pytest
from maestro_cli import output
from maestro_cli.app import App
from maestro_cli.commands.runs import runs

from maestro_state.models.run import OutputRef, Run, Usage
from tests.unit.test_conversation import run_of

USAGE = Usage(model="claude-opus-4-1-20250805", tokens_input=123_456, tokens_output=45_678, cost=1.2345)
TIMES = {"started_at": "2026-11-16T05:45:08.000Z", "finished_at": "2026-11-16T05:57:20.400Z"}
FOUND = [
    run_of("0001", status="success", usage=USAGE, prompt_preview="explain the login " * 4, user="ana", **TIMES),
    run_of("0002", tool="./lint.sh --with many options", status="canceled",
           error="canceled while it ran: " + "a reason " * 20, **TIMES),
    run_of("0003", status="success", usage=USAGE, continues="0001", prompt_preview="and the tests?", user="ana",
           terminal="pts/3", output_ref=OutputRef("output.txt", 9, "", "2026-10-01T00:00:00.000Z"), **TIMES),
]  # fmt: skip


class _Maestro:
    """What the command asks for its runs."""

    runs = property(lambda self: self)

    def list(self) -> list[Run]:
        return FOUND


@pytest.fixture
def listed(monkeypatch, capsys):
    """Return what the command prints on a terminal of some width, or into a pipe."""

    def on(columns: int | None) -> list[str]:
        monkeypatch.setattr(output, "is_terminal", lambda: columns is not None)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        app = App(None, None)
        monkeypatch.setitem(app.__dict__, "maestro", _Maestro())
        runs.main(args=[], obj=app, standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    return on


@pytest.mark.parametrize("columns", [80, 81, 100, 109, 110, 120, 200])
def test_nothing_wraps(listed, columns):
    """Every line fits, with the figures whole; the beginning of the prompt takes what is left."""
    header, *rows = lines = listed(columns)
    assert max(map(output.width_of, lines)) <= columns
    assert header.split()[:7] == ["run", "tool", "status", "took", "tokens", "cost", "prompt"]
    assert "success" in rows[0]
    assert "12 min  123k/46k  $1.23  explain the login" in rows[0]
    assert "↳0001 and the tests?" in rows[2]
    assert ("claude-opus-4-1…" in rows[0]) == (columns >= 110)
    assert ("ana@pts/3" in rows[2]) == (columns >= 110)
    assert rows[3].startswith("0002 canceled while it ran: a reason")
    assert rows[4] == "removed by cleanup, last on 2026-10-01: 0003"


def test_a_pipe_gets_everything(listed):
    """Tabs, no header, nothing shortened."""
    rows = [line.split("\t") for line in listed(None)]
    assert [len(row) for row in rows] == [10, 10, 10]
    assert rows[1][1] == "./lint.sh --with many options"
    assert rows[1][-1] == "canceled while it ran: " + "a reason " * 20
    assert rows[2][-1] == "removed by cleanup on 2026-10-01"
