"""The examples of the documents, as they stand there, against a model's API on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from tests.real_tools.homes import environment
from tests.support.model_api import model_api

DOCS = Path(__file__).parents[2] / "docs"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

EXPECTED = {
    "adapters.md": ("['hello'] {'mood': b'good'}", ["hello"]),
    "langgraph.md": ("You said 1 things.", ["Hello!", "You said 1 things."]),
    "adk.md": ("Question 1.", ["Hello!", "Question 1."]),
    "openai-agents.md": ("Question 2.", ["My name is Ada.", "Question 1.", "What is my name?", "Question 2."]),
    "claude-agent-sdk.md": ("Question 1.", ["What is this project?", "Question 1."]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_runs(name: str, project: Path, served: None, tmp_path: Path):
    """It prints what it should, and what was said is in a session."""
    (example,) = _EXAMPLE.findall((DOCS / name).read_text())
    with model_api(answer=None) as api:
        env = environment(tmp_path, api.origin, os.environ["PATH"]) | {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=project, env=env, capture_output=True, text=True, timeout=120
        )
    printed, said = EXPECTED[name]
    assert printed in done.stdout, done.stderr
    with Maestro(project) as maestro:
        (row,) = [row for row in maestro.sessions.list() if row.bound_to]
        found = [one.content for one in maestro.messages.since(ref=row.id) if one.content]
    assert len(found) == len(said)
    assert all(one.startswith(wanted) for one, wanted in zip(found, said, strict=True))
