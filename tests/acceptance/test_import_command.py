"""`maestro import` as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.histories import two_turns


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    two_turns(tmp_path / "claude", str(tmp_path / "shop")).write()
    return tmp_path / "shop"


def maestro(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).parent / "maestro")
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(project.parent / "claude"), "HOME": str(project.parent)}
    return subprocess.run([program, *words], cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_import_tells_what_came_of_it(project: Path):
    """For people a line a conversation; with --json the document; again nothing; no server is started."""
    shown = maestro(project, "import", "claude")
    assert (shown.returncode, shown.stdout.split()[1:]) == (0, ["new", "8", "messages", "2", "runs"])
    again = json.loads(maestro(project, "import", "claude", "--json").stdout)
    assert [(one["status"], one["children"]) for one in again["imported"]] == [("unchanged", [])]
    assert again["errors"] == []
    assert not (project / ".maestro" / "server").exists()


def test_damage_is_exit_one_and_bad_input_one_line(project: Path):
    """What can be read is imported; what cannot is named."""
    path = next((project.parent / "claude").rglob("*.jsonl"))
    path.write_text("{broken\n" + path.read_text())
    damaged = maestro(project, "import", "claude", "--json")
    assert damaged.returncode == 1
    told = json.loads(damaged.stdout)
    assert len(told["imported"]) == 1
    assert told["errors"] == [{"path": str(path), "reason": "line 1: not JSON"}]
    for words, code in ((["import", "cursor"], 2), (["import", "claude", "nowhere"], 3)):
        refused = maestro(project, *words)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (code, 1)


def test_the_example_of_the_page_runs(project: Path):
    """What docs/import.md shows in Python does what it says."""
    page = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(project.parent / "claude"), "HOME": str(project.parent)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"new why-does-the-login-fail--\w{6} 16\n", done.stdout)
