"""The programs of examples/ and the blocks of docs/python.md run as they stand, and print what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.embedded_project import ended_project

ROOT = Path(__file__).parent.parent.parent
PRINTED = {
    "session.py": ["run 0001 success", "why does the login fail?", "archived, every digest fits"],
    "follower.py": ["message.added three", "session.finalized", "seen again from the first one on: 4"],
    "agent.py": ["system: They asked how many tests fail: two.", "refused: conflict", "{'language': 'en'}"],
    "own_client.py": ["['sent over redis-py']", "still mine: True"],
    "breadcrumbs.py": ["breadcrumbs: 2", "tokens: 1500", "cost: 0.02"],
    "recorded.py": ["assistant: count_failures", "tool: 3", "run 0002 of triage: success, 1200 tokens in, $0.004"],
}
#: Those that need frameworks: `tests/reach/test_examples.py` runs them.
IN_REACH = {"two_frameworks.py"}

project = ended_project


def run(program: list[str], folder: Path) -> list[str]:
    """Run Python in a folder; return the lines it printed."""
    done = subprocess.run([sys.executable, *program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def test_every_example_is_known():
    """A new program is tried too, and named on the page."""
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*PRINTED, *IN_REACH}
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(([\w.]+)\)", page)) == {*PRINTED, *IN_REACH}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs(name: str, project: Path):
    """It succeeds in an empty folder, and its last lines are what it is there to show."""
    printed = run([str(ROOT / "examples" / name)], project)
    assert [line for line in printed if line in PRINTED[name]] == PRINTED[name]


def test_the_blocks_of_the_page_run_in_order(project: Path):
    """Each `print(…)  # result` of docs/python.md prints that result."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    expected = [said for said in re.findall(r"print\(.*?\)\s+# (.*)$", code, re.MULTILINE) if "…" not in said]
    assert len(expected) > 6
    printed = iter(run(["-c", code], project))
    for said in expected:
        assert said in printed, said  # in this order
