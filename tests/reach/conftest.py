"""What tests against frameworks share: nothing of them may reach a network, and each has a project of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import Backend

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.reach.page_rig import Rig


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a browser; skipped with a word where there is none."""
    from tests.support.browser import CHROMIUM, MISSING, browsing

    if CHROMIUM is None:
        pytest.skip(MISSING)
    with browsing() as found:
        yield found


@pytest.fixture
def rig(project: Path, browser: Browser) -> Iterator[Rig]:
    """Return a project that is served, and looked at."""
    from tests.reach.page_rig import rigged

    with rigged(project, browser) as made:
        yield made
