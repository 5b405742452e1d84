"""Text that tools, people and models wrote, as HTML that can do nothing: markdown read, code highlighted, all of it
washed.

Three kept libraries do it, here rather than in the page, which so has no code from elsewhere: markdown-it-py reads
CommonMark and never lets HTML through, Pygments marks code with classes (no style in the page, so the policy can forbid
it), and nh3 takes out what is not on a short list, whatever the first two let pass. What is too large or has endless
lines is not read at all: it is shown as it is.
"""

from __future__ import annotations

import re
import signal
import time
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: Longest text that is read as markdown, longest code that is highlighted and its longest line, in characters.
TEXT_MAX, CODE_MAX, LINE_MAX = 64 * 1024, 32 * 1024, 2000
#: Texts that are not rendered again when they are shown again, and the longest such.
_KEPT, _KEPT_MAX = 1024, 16 * 1024

#: What rendered text may consist of. No image: it would be asked for from elsewhere.
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "pre": {"class"}, "span": {"class"}, "ol": {"start"}}
_SCHEMES = ("http://", "https://", "mailto:")

#: Languages that are highlighted. Lexers are regular expressions, and there are hundreds: these are well used ones.
_LANGUAGES = frozenset({
    "bash", "c", "c++", "clojure", "console", "cpp", "cs", "csharp", "css", "dart", "docker", "dockerfile",
    "elixir", "elm", "erlang", "fish", "go", "golang", "graphql", "haskell", "hcl", "html", "ini", "java",
    "javascript", "js", "json", "jsonc", "jsx", "julia", "kotlin", "kt", "less", "lua", "make", "makefile",
    "markdown", "md", "nginx", "nix", "objc", "ocaml", "perl", "php", "powershell", "proto", "protobuf", "ps1",
    "py", "pycon", "python", "python3", "r", "rb", "rs", "ruby", "rust", "scala", "scss", "sh", "shell", "sql",
    "svelte", "swift", "terraform", "tf", "toml", "ts", "tsx", "typescript", "vim", "vue", "xml", "yaml", "yml",
    "zig", "zsh",
})  # fmt: skip
#: What a terminal acts on and nobody reads, and characters that turn the reading direction for all that follows.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_DIFF = re.compile(r"diff --git |--- \S.*\n\+\+\+ \S|Index: \S.*\n=+\n")


def render(text: str) -> str:
    """Return a text as HTML: markdown, or a diff, or, when it is too large for either, itself."""
    text = plain(text)
    if len(text) > TEXT_MAX or any(len(line) > LINE_MAX * 4 for line in text.split("\n")):
        return as_it_is(text)
    return _kept(text) if len(text) <= _KEPT_MAX else _rendered(text)


def as_it_is(text: str) -> str:
    """Return a text as HTML that shows it unread."""
    return f'<pre class="plain"><code>{escape(plain(text))}</code></pre>'


def render_within(text: str, seconds: float) -> tuple[str, float]:
    """Return a text as HTML, and what that took; as it is when it takes more than so many seconds of the processor.

    Only in a process's first thread: it is a signal that ends it, which regular expressions look out for as well.
    """
    if seconds <= 0:
        return as_it_is(text), 0.0
    signal.signal(signal.SIGPROF, _stop)
    begin = time.process_time()
    try:
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            html = render(text)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except (_TooLong, MemoryError, RecursionError):
        html = as_it_is(text)
    return html, time.process_time() - begin


class _TooLong(BaseException):
    """It took too long. Nothing in between takes it for an error of its own."""


def _stop(_number: int, _frame: object) -> NoReturn:
    raise _TooLong


def plain(text: str) -> str:
    """Return a text without what a terminal would act on."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n"))).replace("\r", "\n")


def prepare() -> None:
    """Import what renders, so that the first who looks does not wait for it."""
    render("```python\npass\n```")


@lru_cache(maxsize=_KEPT)
def _kept(text: str) -> str:
    return _rendered(text)


def _rendered(text: str) -> str:
    import nh3

    html = (
        f"<pre><code>{_code(text, 'diff')}</code></pre>" if _DIFF.match(text.lstrip("\n")) else _reader().render(text)
    )
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_checked,
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # A line that somebody ended stays ended: what tools print is more often lines than paragraphs.
    options: Any = {"html": False, "linkify": False, "typographer": False, "breaks": True, "highlight": _code}
    # Without images what would be one becomes a link to it.
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("image")


def _checked(_tag: str, name: str, value: str) -> str | None:
    """Let only addresses pass that say where they lead: none of this server, none that is a script."""
    if name == "href":
        return value if value.lower().startswith(_SCHEMES) else None
    return value


def _code(code: str, language: str = "", _: str = "") -> str:
    language = language.lower()
    if len(code) > CODE_MAX or any(len(line) > LINE_MAX for line in code.split("\n")):
        return escape(code)
    if language in ("diff", "patch") or (not language and _DIFF.match(code)):
        return _diff(code)
    if language not in _LANGUAGES:
        return escape(code)
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(code)
    marked: str = highlight(code, lexer, HtmlFormatter(nowrap=True, classprefix="hl-"))
    return marked


def _diff(code: str) -> str:
    """Mark whole lines of a diff: what a lexer marks ends with the text, and a line looks torn."""
    lines = []
    for line in code.removesuffix("\n").split("\n"):
        kind = "file" if line.startswith(("+++", "---", "diff ", "index ")) else _LINES.get(line[:1], "same")
        lines.append(f'<span class="diff-{kind}">{escape(line)}\n</span>')
    return "".join(lines)


_LINES = {"+": "added", "-": "removed", "@": "place", "\\": "note"}
