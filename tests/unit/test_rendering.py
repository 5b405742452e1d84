"""Text as HTML that can do nothing: what is rendered, what is left out, and what is not read at all."""

from __future__ import annotations

import re

import pytest

from maestro_state.serve.rendering import CODE_MAX, TEXT_MAX, render

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x) [y](/v1/signout) [z](//elsewhere.example)",
    "<svg/onload=alert(1)>",
    '![x](x "onerror=alert(1)")',
    '```"><script>alert(1)</script>\nx\n```',
    "<a href='javascript:x'>x</a>",
    "--- a\n+++ b\n+<script>alert(1)</script>",
    "x" * (TEXT_MAX + 1) + "<script>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_runs_comes_out(text: str):
    """No element that does anything, no handler, no link that is a script or leads into this server."""
    html = render(text)
    assert not re.search(r"<(?!/?(?:a|p|pre|code|span|h1|em|strong|hr|ul|li)\b)", html)
    assert not re.search(r"<[^>]*\s(?:on\w+|style|src|id)\s*=", html)
    assert all(link.startswith(("http://", "https://", "mailto:")) for link in re.findall(r'href="([^"]*)"', html))


def test_markdown_code_and_diffs_are_marked():
    """By classes alone: the page's policy forbids style in the document."""
    html = render("**a** [b](https://c.example)\n\n```python\ndef f(): pass\n```\n\n```diff\n-x\n+y\n```\n")
    assert "<strong>a</strong>" in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert '<span class="hl-k">def</span>' in html
    assert '<span class="diff-removed">-x\n</span><span class="diff-added">+y\n</span>' in html
    assert render("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n").count("diff-") == 6


def test_what_a_terminal_acts_on_is_left_out():
    """Colours, titles, and characters that turn the reading direction."""
    assert render("\x1b[31mred\x1b[0m \x1b]0;title\x07\u202eabc\u202c\r\nnext") == "<p>red abc<br>\nnext</p>\n"


def test_what_is_too_large_is_shown_as_it_is():
    """Neither read nor highlighted."""
    assert render("**a**\n" + "x" * TEXT_MAX).startswith('<pre class="plain"><code>**a**')
    assert "hl-" not in render("```python\n" + "def f(): pass\n" * (CODE_MAX // 10) + "```")
