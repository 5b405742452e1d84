"""Markdown pages in which nothing stored passes for structure, judged by a reader of CommonMark with GFM's tables."""

from __future__ import annotations

import io

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from maestro_state.mirror.export import People
from maestro_state.mirror.markdown import MarkdownExport, code_span, escaped
from maestro_state.mirror.spool import Spool
from maestro_state.models.context import ContextItem, Snapshot
from maestro_state.models.message import Event, Message
from maestro_state.models.run import Flags, RelevantOutput, Run, SentItem
from maestro_state.models.session import Counters, Session, Stats

READER = MarkdownIt("gfm-like", {"linkify": False, "html": True})

#: Pieces of markup, of HTML, and of what other readers make something of.
PIECES = st.sampled_from([
    "# forged", "## Runs", "```", "````", "~~~", "\n", "\r", "\n\n", "|", "---", "- ", "1. ", "> ", "===", "***", "**",
    "<script>alert(1)</script>", "<!--", "-->", "<b>", "</td>", "[x](javascript:alert(1))", "![i](http://h/p)", "__",
    "http://h.example/", "www.h.example", "[a]: http://h", "`", "``", "\\", "&lt;", "&#60;", "$$", "@somebody", "#1",
    "\u202e", "\x1b[2J", "\x9b", "\u2028", "\x00", " ", "a", "é", "\t", "x" * 90,
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=8).map("".join)


def a_page(text: str, content: str, output: bytes, *, pieces: int = 3) -> str:
    """Export a session that has the same text in every field."""
    stored = content.encode("utf-8", "replace")
    file = io.BytesIO()
    page = MarkdownExport(file, People("owner", {"ctx-0001": text, "0001": text}))
    page.begin(
        Session(id="a--abcdef", slug=text, state=text, tool_active=text, created_at=text, updated_at=text,
                abort_reason=text, counters=Counters(), stats=Stats(), notes=text, session_id="a--abcdef", user_id=text,
                status="expired", last_activity=text, context_summary=content, project_context={},
                working_directory=text, preferences={}, ttl_seconds=1, forked_from=text),
        [text],
    )  # fmt: skip
    page.section("context")
    page.item(ContextItem(id="ctx-0001", kind=text, source={"path_rel": text}, labels=[text, text], notes=text,
                          snapshot=Snapshot("x", text), state="active"), stored)  # fmt: skip
    page.item(ContextItem(id="ctx-0001", kind=text, source={"path_rel": text}, snapshot=Snapshot("x", text),
                          state="removed"), b"\xff")  # fmt: skip
    page.end_section()
    page.section("runs")
    page.begin_run(
        Run(id="0001", tool=text, prompt_source="cli", flags=Flags(False, False), status=text, created_at=text,
            started_at=text, finished_at=text, error=text, context_refs=[], context_version=[]),
        stored,
        [SentItem(id=text, kind=text, snapshot_blob=text, digest=text)],
    )  # fmt: skip
    with Spool(1 << 20) as spool:
        for at in range(0, len(output), max(1, len(output) // pieces)):
            spool.add(output[at : at + max(1, len(output) // pieces)])
        spool.finish()
        page.output(spool)
    page.removed(text)
    page.end_run([text])
    page.end_section()
    page.section("messages")
    page.message(Message("1-0", text, content, tool_calls=[{"tool": text, "id": text}],
                         tool_results=[{"call_id": text}], user=text))  # fmt: skip
    page.end_section()
    page.section("events")
    page.event(Event("1-0", text or "x", {text: text, "state": {"a": text}}))
    page.end_section()
    page.end([RelevantOutput(text, text, text)], None)
    return file.getvalue().decode()


def structure(page: str) -> list[str]:
    """Return what a reader makes of a page: the kinds of its parts, and of what is inside of lines."""
    kinds = []
    for token in READER.parse(page):
        kinds.append(f"{token.type} {token.tag}")
        # Text, and what only shows a character: where a line is left empty there is none.
        kinds += [one.type for one in token.children or [] if one.type not in ("text", "text_special", "softbreak")]
    return kinds


PLAIN = structure(a_page("word", "word", b"word"))


@settings(max_examples=150, deadline=None)
@given(TEXTS.filter(lambda text: text.split()), TEXTS.filter(str.strip), TEXTS.filter(str.strip))
@example("a|b", "```\n# x\n```", "`````\n# x")
@example("a`b``c", "~~~\n</td>", "```")
@example("<script>alert(1)</script>", "\r```\r# x", "a\u2028```")
@example("[a](http://h) ![b](http://h) <http://h> &lt;", "x", "y")
def test_no_text_in_any_field_changes_the_structure(text: str, content: str, output: str):
    """The page has exactly the parts that it has with a plain word in every place: no more, no fewer, no other."""
    assert structure(a_page(text, content, output.encode())) == PLAIN


@settings(deadline=None)
@given(TEXTS.filter(lambda text: text.split()))
def test_what_is_escaped_reads_as_it_was(text: str):
    """A reader of Markdown shows the text itself, on one line, without what steers a terminal."""
    (paragraph,) = [one for one in READER.parse(f"x {escaped(text)}") if one.type == "inline"]
    shown = "".join(one.content for one in paragraph.children)
    wanted = "x " + " ".join(text.split())
    assert len(shown) == len(wanted)
    assert all(seen in (meant, "\ufffd") for seen, meant in zip(shown, wanted, strict=True))


def test_unescaped_the_same_texts_do_change_it(monkeypatch):
    """Control: without escaping, a heading, a link and an image are made of what was stored."""
    monkeypatch.setattr("maestro_state.mirror.markdown._MARKUP", __import__("re").compile("(?!)(x)"))
    found = structure(a_page("[a](http://h) ![b](http://h) <script>", "x", b"y"))
    assert "link_open" in found
    assert "image" in found
    assert "html_inline" in found


def test_a_code_span_holds_backticks():
    """However many there are, the span is one."""
    for text in ("`", "``", "a`b", "`` `", "x"):
        (inline,) = [one for one in READER.parse(f"a {code_span(text)} b") if one.type == "inline"]
        assert [one.type for one in inline.children] == ["text", "code_inline", "text"]
        assert inline.children[1].content == text


@given(st.lists(st.sampled_from([b"`", b"``", b"a", b"\n", b"```"]), max_size=30))
def test_rows_of_backticks_are_counted_over_the_ends_of_pieces(pieces: list[bytes]):
    """The longest row is that of the whole, wherever it is cut."""
    import re

    with Spool(1 << 20) as spool:
        for piece in pieces:
            spool.add(piece)
        assert spool.longest_ticks == max(map(len, re.findall(rb"`+", b"".join(pieces))), default=0)
