"""What the environment is for: every framework is there, and none is imported before its adapter is."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

FRAMEWORKS = ("langgraph.checkpoint.base", "agents", "google.adk", "claude_agent_sdk")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_it_is_there(name: str):
    """The extra `all` brings it."""
    assert import_module(name)


def test_the_library_imports_none_of_them():
    """Whoever uses Maestro alone does not wait for a framework that happens to be installed."""
    code = (
        "import sys, maestro_state; maestro_state.AsyncMaestro; import maestro_state.adapters.binding\n"
        f"print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
