"""What tests against frameworks share: nothing of them may reach a network, and each has a project of its own."""

from __future__ import annotations

import pytest

from tests.support.backends import Backend


@pytest.fixture(autouse=True)
def no_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no framework ask anybody outside: no keys, no tracing, no telemetry."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")


@pytest.fixture
def place(real: Backend) -> dict[str, object]:
    """Return what an adapter is made with: a project of its own with a real server."""
    return {"project": real.project}
