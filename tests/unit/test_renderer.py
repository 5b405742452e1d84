"""Texts that take too long are shown as they are, and hold nobody else up."""

from __future__ import annotations

import asyncio
import os
import signal

from maestro_state.serve.renderer import ALL_S, TEXT_S, Renderer
from maestro_state.serve.rendering import as_it_is, render_within
from tests.support.waiting import wait_until

#: The lexer of C looks through all newlines again at each of them.
ENDLESS = "```c\n" + "\n" * 30_000 + "```\n"


def test_a_text_that_takes_too_long_is_shown_as_it_is():
    """It is given up after its time; those before and after it are rendered."""

    async def rendered() -> list[str]:
        renderer = Renderer()
        try:
            return await renderer.render(["**a**", ENDLESS, "**b**"])
        finally:
            await renderer.close()

    assert asyncio.run(rendered()) == ["<p><strong>a</strong></p>\n", as_it_is(ENDLESS), "<p><strong>b</strong></p>\n"]


def test_many_such_texts_have_one_time_together():
    """What is left when it is over is not even begun."""
    assert TEXT_S < ALL_S
    assert render_within("**a**", 0) == (as_it_is("**a**"), 0.0)
    html, spent = render_within("**a**", TEXT_S)
    assert html == "<p><strong>a</strong></p>\n"
    assert spent > 0


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_renderer_that_was_killed_is_followed_by_another():
    """Who asks while there is none sees text; the next request is answered as ever. Ends with whom it renders for."""

    async def tried() -> tuple[int, list[str], list[str]]:
        renderer = Renderer()
        await renderer.render(["a"])
        process = renderer._process
        assert process is not None
        await asyncio.to_thread(_kill, process.pid)
        found = await renderer.render(["**a**"]), await renderer.render(["**a**"])
        last = renderer._process
        assert last is not None
        await renderer.close()
        return last.pid, *found

    pid, first, second = asyncio.run(tried())
    assert first == [as_it_is("**a**")]
    assert second == ["<p><strong>a</strong></p>\n"]
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "it ended")
