"""Benchmarks are honest: what counts as met, that no peer is dropped unseen, and that documents show one run."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import perf_counter

import pytest

from benchmarks import flame, peers, plot, report
from benchmarks.__main__ import QUESTIONS
from benchmarks.rig import loop, race
from benchmarks.row import Row, row
from tools.documents import ROOT, fill

SLOWER = Row("q", "peer", 10.0, 100.0, "µs", peer=True)


def runner(*words, code="import sys, benchmarks.__main__ as m; sys.exit(m.main(sys.argv[1:]))"):
    """Run the runner."""
    return subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Row("q", "r", 13.0, 10.0, "µs", 1.3), "met"),
        (Row("q", "r", 13.1, 10.0, "µs", 1.3), "missed"),
        (Row("q", "r", 7.9, 10.0, "µs", 1.3, 0.8), "aim met"),
        (Row("q", "r", 9.0, 10.0, "µs", 1.3, 0.8), "met, aim missed"),
        (Row("q", "r", 9.0, 10.0, "µs", aim=0.8), "aim missed"),
        (Row("q", "r", 9.0, 10.0, "µs"), ""),
        (replace(SLOWER, faster=10.0), "met"),
        (replace(SLOWER, faster=10.1), "missed"),
        (Row("q", "r", 70.0, 100.0, "s⁻¹", least=0.7), "met"),
        (Row("q", "r", 69.0, 100.0, "s⁻¹", least=0.7), "missed"),
        (Row("q", "r", 1.0, None, "µs", faster=2.0, note="not installed"), "not measured"),
    ],
)
def test_a_verdict_says_what_the_figure_says(figure, verdict):
    """A ratio is met up to its limit and missed beyond; a peer that was not measured is never called met."""
    assert figure.verdict == verdict


def test_a_peer_that_cannot_be_opened_is_shown_with_its_reason():
    """A product that is not installed, and one that fails, each has its row."""
    found = peers.opened({"absent": ("nowhere", "X"), "broken": ("queues", "Queue")}, None, 10)
    rows = list(found.rows("append", {"ours": [1.0]}, {"": "ours"}, {"": 2.0}))
    assert {one.reference: one.verdict for one in rows} == {"absent": "not measured", "broken": "not measured"}
    assert "nowhere" in rows[0].note
    assert rows[1].note
    text = "\n".join([*map(report.line, rows), *report.closing(report.document(rows, {}))])
    assert "not measured: append, absent: not installed" in text


def test_a_read_that_returns_less_is_not_measured():
    """A peer that would win by reading less stops the question."""
    short = type("Short", (), {"last": lambda self: [1, 2]})()
    with pytest.raises(AssertionError, match="2 read of 20"):
        peers.Opened({"short": short}, {}).expect("last", 20)


def test_a_race_takes_plain_and_awaited_calls_in_turns():
    """Both are called as often as asked for, one round after the other, every other one backwards."""
    order = []

    async def awaited():
        await asyncio.sleep(0)
        order.append("a")

    figures = race({"plain": lambda: order.append("p"), "awaited": awaited}, calls=2, rounds=3)
    assert "".join(order) == "ppaa" + "aapp" + "ppaa"
    assert {name: len(found) for name, found in figures.items()} == {"plain": 3, "awaited": 3}
    assert row("q", figures, "plain", "awaited").ratio > 0
    loop().close()
    loop.cache_clear()


def test_a_profile_shows_where_the_time_goes(tmp_path):
    """A flame graph is as wide as what it counted; a question's own is drawn with its figures unchanged in form."""
    stacks = Counter({("m:main", "m:wait"): 30, ("m:main", "m:work"): 69, ("m:main", "m:work", "m:rare"): 1})
    drawn = flame.draw(stacks, "q")
    assert re.findall(r"<title>(.*?)</title>", drawn) == [
        "m:main 100.0%",
        "m:wait 30.0%",
        "m:work 70.0%",
        "m:rare 1.0%",
    ]
    widths = dict(re.findall(r"<title>m:(\w+) .*?width=\"([0-9.]+)\"", drawn))
    assert float(widths["work"]) == pytest.approx(0.7 * float(widths["main"]))
    assert flame.own_shares(stacks, 2) == [("m:work", 0.69), ("m:wait", 0.3)]
    found = runner("fork", "--profile", str(tmp_path / "fork.svg"))
    assert found.returncode == 0
    assert "benchmarks/fork:measure" in (tmp_path / "fork.svg").read_text()
    assert "fork a live session" in found.stdout
    assert runner("fork", "context", "--profile", str(tmp_path / "two.svg")).returncode == 2


def test_a_look_that_takes_long_is_not_interrupted_by_the_next(monkeypatch):
    """As on a machine that has much else to do: each would begin before the one before it is done."""
    looks: Counter[flame.Stack] = Counter()

    def slowly(frame):
        until = perf_counter() + 3 * flame.EVERY_S
        while perf_counter() < until:
            pass
        return stack_of(frame)

    stack_of = flame.stack_of
    monkeypatch.setattr(flame, "stack_of", slowly)
    with flame.looking(looks):
        while looks.total() < 20:
            pass
    assert not any(name.endswith(":slowly") for stack in looks for name in stack)


def test_every_question_can_be_asked():
    """Each has a module that measures, without any peer installed."""
    for question in QUESTIONS:
        assert callable(import_module(f"benchmarks.{question}").measure)


def test_the_runner_answers_for_machines_and_refuses_what_it_does_not_know():
    """One JSON document with a row for each figure; an unknown question is named, with those there are."""
    found = runner("fork", "--json")
    document = json.loads(found.stdout)
    assert [one["question"] for one in document["rows"]] == ["fork a live session", "restore an archived one"]
    assert all(one["ratio"] > 0 for one in document["rows"])
    assert (found.returncode, document["failures"]) == (0, [])
    refused = runner("speed")
    assert refused.returncode == 2
    assert "there is no question speed; there are append" in refused.stderr
    assert runner("fork", "--record").returncode == 2


def test_a_question_that_takes_too_long_is_interrupted_and_named():
    """Its time over, it puts its server away, and the run says that figures are missing."""
    code = "import sys, benchmarks.__main__ as m; m.QUESTIONS['breadcrumbs'] = 1; sys.exit(m.main(['breadcrumbs']))"
    found = runner(code=code)
    assert found.returncode == 1
    assert "breadcrumbs: took longer than its time" in found.stderr


def test_the_documents_show_the_recorded_run():
    """Its table and its plot are those made from the recorded figures; another figure would change both."""
    recorded = report.recorded()
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert report.document_part(recorded) in text
    assert fill(text) == text
    rows = report.recorded_rows(recorded)
    drawn = plot.draw(rows)
    assert report.PLOT.read_text(encoding="utf-8") == drawn
    place = next(at for at, one in enumerate(rows) if one.peer and one.faster and one.question in plot.DRAWN)
    other = [*rows[:place], replace(rows[place], ours=rows[place].ours * 3), *rows[place + 1 :]]
    assert plot.draw(other) != drawn
    assert report.document_part(report.document(other, {})) not in text


def test_the_recorded_run_has_every_peer():
    """None is missing from the figures that docs/performance.md shows, but one that needs modules in the server."""
    rows = [one for one in report.recorded_rows(report.recorded()) if one.peer]
    assert set(peers.HISTORIES) | set(peers.LISTS) | {"rq info", "llm --version"} <= {one.reference for one in rows}
    absent = {one.reference for one in rows if one.theirs is None and "cannot list" not in one.note}
    assert absent <= {"LangGraph Redis"}


def test_programs_of_the_benchmarks_import_what_is_there():
    """They are texts, which no linter reads: a name of ours that moved would show only when somebody measures."""
    checked = 0
    for path in sorted(Path(ROOT, "benchmarks").rglob("*.py")):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if _is_program(node)]
        for one in (one for text in texts for one in ast.walk(ast.parse(text)) if isinstance(one, ast.ImportFrom)):
            if (one.module or "").startswith("maestro_"):
                assert all(hasattr(import_module(one.module), name.name) for name in one.names), (path.name, one.module)
                checked += 1
    assert checked


def _is_program(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or "import " not in node.value:
        return False
    try:
        ast.parse(node.value)
    except SyntaxError:
        return False
    return True
