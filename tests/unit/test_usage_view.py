"""`maestro usage` as people see it: aligned numbers, bars that fit, and what could not be counted."""

from __future__ import annotations

import json

import pytest
from maestro_cli import output
from maestro_cli.app import App
from maestro_cli.commands.usage import _BY, _bar, usage

from maestro_state.models.usage import BY, Consumed, UsageReport, tally

RUNS = [
    Consumed("one--abc123", "ana", "claude", "opus", 0, 1_234_567, 4_500, 12.5),
    Consumed("one--abc123", "ana", "claude", "opus", 0, 100, 50, 0.0125),
    Consumed("a-name-that-is-rather-long-for-a-screen--abc124", "eva", "codex", "", 0, 1000, 1, None),
]


@pytest.fixture
def shown(monkeypatch, capsys):
    """Return what the command prints of some runs, on a terminal of some width or into a pipe."""

    def on(columns: int | None, runs: list[Consumed], *words: str, skipped: tuple[str, ...] = ()) -> tuple[str, str]:
        class _Maestro:
            def usage(self, by: str, since: str | None) -> UsageReport:
                return tally(runs, by, list(skipped))

        monkeypatch.setattr(output, "is_terminal", lambda: columns is not None)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        app = App(None, None)
        monkeypatch.setitem(app.__dict__, "maestro", _Maestro())
        usage.main(args=list(words), obj=app, standalone_mode=False)
        return capsys.readouterr()

    return on


def test_choices_are_those_of_the_library():
    """The command line repeats them to save an import."""
    assert tuple(BY) == _BY


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("by", _BY)
def test_everything_fits(shown, columns, by):
    """No line is wider than the terminal, whatever is added up."""
    lines = shown(columns, RUNS, "--by", by).out.splitlines()
    assert lines[0].split()[:5] == [by, "runs", "in", "out", "cost"]
    assert lines[-1].split() == ["total", "3", "1.2M", "4.6k", "$12.51"]
    if columns >= 80:
        assert max(map(output.width_of, lines)) <= columns


def test_bars_show_cost_and_the_most_expensive_is_first(shown):
    """The longest bar is the largest share; a tool that tells no cost has none."""
    _, claude, codex, _ = shown(80, RUNS, "--by", "tool").out.splitlines()
    assert claude.startswith("claude")
    assert claude.endswith("█")
    assert codex.split() == ["codex", "1", "1.0k", "1"]
    lines = shown(80, RUNS[2:], "--by", "tool").out.splitlines()
    assert "share of tokens" in lines[0]
    assert lines[1].endswith("█")


def test_a_bar_ends_in_eighths():
    """What is not nothing can be seen."""
    assert [_bar(share, 2) for share in (0, 0.001, 0.5, 0.75, 1)] == ["", "▏", "█", "█▌", "██"]
    assert _bar(1, 0) == _bar(1, -5) == ""


def test_a_pipe_gets_exact_numbers_and_a_program_the_document(shown):
    """Tabs without a header; JSON with rows and total."""
    assert shown(None, RUNS, "--by", "tool").out == "claude\t2\t1234667\t4550\t12.5125\ncodex\t1\t1000\t1\t\n"
    document = json.loads(shown(None, RUNS, "--by", "tool", "--json").out)
    assert set(document) == {"by", "rows", "total"}
    row = {"key": "claude", "runs": 2, "tokens_input": 1234667, "tokens_output": 4550, "cost": 12.5125}
    assert row.items() <= document["rows"][0].items()


def test_what_was_not_counted_is_said(shown):
    """On stderr, with what to do."""
    printed = shown(None, [], skipped=("bad--abc123",))
    assert printed.out == ""
    assert printed.err == "maestro: could not be read and is not counted: bad--abc123 → maestro verify\n"


def test_wide_letters_stay_in_their_column(shown):
    """Names keep letters of any script: numbers stand below each other all the same."""
    runs = [
        Consumed("会议--abc123", "ana", "claude", "", 0, 100, 50, 1.0),
        Consumed("x", "ana", "cat", "", 0, 1, 1, 1.0),
    ]
    lines = shown(80, runs, "--by", "session").out.splitlines()
    assert len({output.width_of(line[: line.index("$")]) for line in lines if "$" in line}) == 1
