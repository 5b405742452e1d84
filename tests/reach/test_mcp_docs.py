"""The page on MCP: its program runs, its commands are there, and it names every tool, resource and prompt."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from maestro_state.mcp.descriptions import DESCRIPTIONS
from tests.support.cli_runs import maestro_command

PAGE = (Path(__file__).parent.parent.parent / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_its_program_runs(project: Path):
    """As a reader would run it, in a project of their own."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "the cookie is stale\n"), done.stderr


def test_it_names_everything(project: Path):
    """Tools, prompts, options."""
    for name in (*DESCRIPTIONS, "continue_session", "hand_over", "--read-only", "--scope", "--print", "--remove"):
        assert name in PAGE
    assert "Example" in maestro_command(project, "mcp", "--help").stdout
