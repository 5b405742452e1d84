"""What tests of the page share: a project that is served, a tool that acts as told, a browser that looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Watched
from tests.support.served import Served, serving
from tests.support.waiting import wait_until
from tests.support.workshop import ROOT, Workshop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Rig:
    """A project, its server over HTTP, and whoever looks at it."""

    def __init__(self, workshop: Workshop, server: Served, browser: Browser) -> None:
        self.workshop, self.server, self.browser = workshop, server, browser
        self.project, self.maestro = workshop.project, workshop.open()
        self.watched: list[Watched] = []

    def look(self, path: str = "/", **options: Any) -> Page:
        """Open a page in a browser of its own."""
        page = self.browser.new_context(**options).new_page()
        self.watched.append(Watched(page, self.server.url))
        page.goto(self.server.url + path)
        return page

    def session(self, name: str = "fix-login", **options: Any) -> str:
        """Start a session."""
        return self.maestro.sessions.start(name, activate=False, **options).id

    def fill(self, session_id: str, count: int) -> None:
        """Add so many numbered messages."""
        for number in range(count):
            self.maestro.messages.add("user", f"message {number}", session_id)

    def ask(self, prompt: str, session_id: str) -> str:
        """Have the tool do something, to its end."""
        run = self.maestro.runs.start(prompt, session_id, tool="claude")
        wait_until(lambda: self.maestro.runs.read(run.id, session_id).status == "success", "the run ended")
        return run.id


@contextmanager
def rigged(project: Path, browser: Browser, *options: str) -> Iterator[Rig]:
    """Serve a project and have a look; afterwards nothing may have gone wrong in any page."""
    programs = project / "programs"
    programs.mkdir()
    program = programs / "claude"
    text = (ROOT / "tests/support/acting_claude.py").read_text()
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        # A tool is looked for where the asking program would find it.
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        with Workshop(project) as workshop, serving(project, *options) as server:
            rig = Rig(workshop, server, browser)
            try:
                yield rig
            finally:
                # Also of a test that failed: its pages would go on asking for a server that is gone.
                for watched in rig.watched:
                    watched.page.context.close()
    assert [error for watched in rig.watched for error in watched.errors] == []
    assert [url for watched in rig.watched for url in watched.elsewhere] == []


@contextmanager
def working(rig: Rig) -> Iterator[None]:
    """Have a worker. It is let out, not killed: a run's end is in the list only after the run itself has it."""
    worker = rig.workshop.start_worker()
    try:
        yield
    finally:
        worker.terminate()
        worker.wait()


def look_now(page: Page) -> None:
    """Have the page do what it does every quarter of a minute."""
    page.evaluate("document.dispatchEvent(new Event('tick'))")


def texts(page: Page, selector: str = "[role=log] .message .text") -> list[str]:
    """Return what is in the conversation, from the top down."""
    return [text.strip() for text in page.locator(selector).all_inner_texts()]


def violations(page: Page) -> list[tuple[str, Any]]:
    """Return what axe finds, and where."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(one["id"], [node["html"][:160] for node in one["nodes"]][:3]) for one in found]
