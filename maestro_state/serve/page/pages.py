"""The HTML of the page. Whatever a session holds is text here: escaped, and put in by scripts as text only."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Nothing from elsewhere, no script or style in the page itself, in nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/static/page.css">
<script type="module" src="/static/{script}.js"></script>
</head>
<body>
<header><a href="/">maestro</a></header>
<main{attributes}>
{content}
</main>
</body>
</html>
"""


def index(rows: Iterable[Mapping[str, object]]) -> str:
    """Return the page that lists sessions as links."""
    lines = [
        f'<li><a href="/sessions/{quote(str(row["id"]), safe="")}">{escape(str(row["id"]))}</a> '
        f"<span>{escape(str(row['state']))}</span> <span>{escape(str(row['status']))}</span> "
        f"<time>{escape(str(row['updated_at']))}</time></li>"
        for row in rows
    ]
    shown = "\n".join(lines) or "<li>No sessions yet. In a terminal: <code>maestro session start NAME</code></li>"
    return _page("Sessions · maestro", "index", f'<h1>Sessions</h1>\n<ul id="sessions">\n{shown}\n</ul>')


def session(session_id: str) -> str:
    """Return the page that shows a session's conversation."""
    name = escape(session_id, quote=True)
    content = (
        f'<h1>{name}</h1>\n<p id="line" role="status">connecting</p>\n'
        '<div id="log" role="log" aria-live="polite" aria-label="Conversation" tabindex="0"></div>'
    )
    return _page(f"{session_id} · maestro", "session", content, f' data-session="{name}"')


def sign_in() -> str:
    """Return the page that asks for a token."""
    content = (
        "<h1>Sign in</h1>\n"
        '<form id="signin"><label>Token <input id="token" type="password" autocomplete="off" required></label> '
        '<button>Sign in</button></form>\n<p id="line" role="status">maestro token add USER makes a token.</p>'
    )
    return _page("Sign in · maestro", "signin", content)


def _page(title: str, script: str, content: str, attributes: str = "") -> str:
    return _PAGE.format(title=escape(title), script=script, content=content, attributes=attributes)
