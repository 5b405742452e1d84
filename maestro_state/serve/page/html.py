"""The HTML of the page: a frame for each screen, which its script fills. Whatever a session holds is text here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from maestro_state.vocabulary import STATE_MEANINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Nothing from elsewhere, no script or style in the page itself, in nobody's frame. Text becomes HTML in one place
#: (static/rendered.js): browsers that know trusted types let it happen nowhere else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types maestro"
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
{styles}
<script src="/static/theme.js"></script>
{preloads}
<script type="module" src="/static/{script}.js"></script>
</head>
<body{may}>
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="brand" href="/"><img src="/static/icon.svg" alt="" width="22" height="22">maestro</a>
{nav}
<span class="grow"></span>
{line}
{user}
<button id="theme" type="button" class="quiet" title="Dark or light (t)" aria-label="Dark or light">◐</button>
<button id="help" type="button" class="quiet" title="Keys (?)" aria-label="Keys">?</button>
</header>
<main id="main" class="{screen}" tabindex="-1"{attributes}>
{content}
</main>
</body>
</html>
"""


class Viewer(NamedTuple):
    """Who looks: the page offers what they may do, and nothing else."""

    may_change: bool = True
    user: str | None = None  #: who signed in, where somebody has to


_ANYBODY = Viewer()


class _Screen(NamedTuple):
    path: str
    name: str


_SCREENS = (
    _Screen("/", "Sessions"),
    _Screen("/work", "Work"),
    _Screen("/discussions", "Discussions"),
    _Screen("/usage", "Usage"),
    _Screen("/health", "Health"),
)
_STYLES = ("tokens", "page")
#: Styles of one screen.
_MORE_STYLES = {"session": ("prose", "talk"), "discussions": ("prose",)}
#: Modules that every screen has, and those of one: fetched at once, not one after the other as each names the next.
_MODULES = ("frame", "dom", "api", "stream", "words")
_MORE = {
    "index": ("plots", "signin", "chips"),
    "session": (
        "chips",
        "rendered",
        "window",
        "conversation",
        "runcard",
        "plots",
        "panels",
        "ask",
        "output",
        "actions",
    ),
    "work": ("rendered",),
    "discussions": ("rendered",),
    "usage": ("plots",),
}
_NEW = '<button id="new" type="button">New session</button>'


def index(rows: Iterable[Mapping[str, object]], viewer: Viewer = _ANYBODY) -> str:
    """Return the page that lists sessions as links."""
    lines = [
        f'<li class="row"><a class="name" href="/sessions/{quote(str(row["id"]), safe="")}">'
        f"{escape(str(row['id']))}</a> "
        f'<span class="state">{_state(str(row["state"]))}</span> <time>{escape(str(row["updated_at"]))}</time></li>'
        for row in rows
    ]
    shown = "\n".join(lines)
    content = (
        '<div class="head"><h1>Sessions</h1><p id="sums" class="sums"></p></div>\n'
        '<div class="tools" role="search"><input id="search" type="search" '
        'placeholder="Filter, or search everything said  /" '
        'aria-label="Filter sessions and search what was said" autocomplete="off" spellcheck="false">'
        '<div id="states" class="chips" role="group" aria-label="States"></div>'
        f"{_NEW if viewer.may_change else ''}</div>\n"
        f'<ul id="sessions" aria-label="Sessions">\n{shown}\n</ul>\n'
        '<section id="found" aria-label="Found in what was said" hidden></section>'
    )
    return _page("Sessions · maestro", "index", content, viewer, here="/")


def _state(word: str) -> str:
    meaning = STATE_MEANINGS.get(word)
    return escape(f"{word} · {meaning}" if meaning else word)


def session(session_id: str, viewer: Viewer = _ANYBODY) -> str:
    """Return the page that shows a session's conversation."""
    name = escape(session_id, quote=True)
    path = quote(session_id, safe="")
    content = (
        f'<section class="talk" aria-label="Conversation of {name}">\n'
        f'<div class="head"><h1>{_named(session_id)}</h1><span id="state" class="state"></span>'
        '<div id="actions" class="actions"></div></div>\n'
        '<div id="log" class="log" role="log" aria-label="Conversation" aria-live="off" tabindex="0"></div>\n'
        '<div class="to-newest"><button id="newest" type="button" class="newest" hidden>Newest ↓</button></div>\n'
        f"{'<ask-box></ask-box>' if viewer.may_change else ''}\n</section>\n"
        '<aside id="panels" class="panels" aria-label="About this session"></aside>\n'
        '<div id="said" class="unseen" role="status" aria-live="polite"></div>'
    )
    fetched = f'<link rel="preload" as="fetch" crossorigin href="/sessions/{path}/timeline?last=200">'
    return _page(f"{session_id} · maestro", "session", content, viewer, here="/", fetched=fetched,
                 attributes=f' data-session="{name}"')  # fmt: skip


def _named(session_id: str) -> str:
    """Return a session's name as HTML: what somebody called it, and softly what makes it the only one."""
    slug, dashes, tail = session_id.rpartition("--")
    return f"{escape(slug)}<small>--{escape(tail)}</small>" if dashes else escape(session_id)


def screen(path: str, viewer: Viewer = _ANYBODY) -> str:
    """Return the page of a screen that its script draws."""
    name = next(one.name for one in _SCREENS if one.path == path)
    head = f'<div class="head"><h1>{name}</h1><p id="sums" class="sums"></p></div>'
    content = f'{head}\n<div id="content" aria-busy="true"></div>'
    return _page(f"{name} · maestro", path.strip("/"), content, viewer, here=path)


def refused(message: str, hint: str | None, viewer: Viewer = _ANYBODY) -> str:
    """Return the page that says why there is nothing to show, and what to do next."""
    more = f"<small>In a terminal: <code>{escape(hint)}</code></small>" if hint else ""
    content = (
        f'<div class="head"><h1>Not here</h1></div>\n<div class="alert">{escape(message)}{more}</div>\n'
        '<p class="after"><a class="button" href="/">All sessions</a></p>'
    )
    return _page("Not here · maestro", "frame", content, viewer, here="/", is_live=False)


def away(message: str | None, hint: str | None) -> str:
    """Return the page that says that the state server is away; its script shows what was asked for when it is back."""
    reason = f"<small>{escape(message)}</small>" if message else ""
    more = f"<small>{escape(hint)}</small>" if hint else ""
    content = (
        '<div class="head"><h1>The state server is away</h1></div>\n'
        f'<div class="alert">What is asked for is shown as soon as it answers again.{reason}{more}</div>'
    )
    return _page("Away · maestro", "frame", content, here="", attributes=" data-away")


def elsewhere(path: str) -> str:
    """Return the page that asks whether to open what another site linked to: by a link of our own, not by that one."""
    address = escape(path, quote=True)
    content = (
        '<div class="head"><h1>Opened from another site</h1></div>\n'
        '<p class="soft">Another site led you here. Go on only if that is what you meant to do.</p>\n'
        f'<p class="after"><a class="button" href="{address}">Open {escape(unquote(path))}</a></p>'
    )
    return _page("Opened from another site · maestro", "frame", content, is_live=False)


def sign_in() -> str:
    """Return the page that asks for a token."""
    content = (
        '<form id="signin" class="card"><h1>Sign in</h1>'
        '<div class="field"><label for="token">Token</label>'
        '<input id="token" type="password" autocomplete="current-password" autofocus required></div>'
        '<div id="line" role="status"></div>'
        '<button class="main">Sign in</button>\n'
        '<p class="soft small fix">No token yet? Whoever runs this server makes one: '
        "<code>maestro token add YOUR-NAME</code></p></form>"
    )
    return _page("Sign in · maestro", "signin", content, is_live=False)


def _page(
    title: str, script: str, content: str, viewer: Viewer = _ANYBODY, *,
    here: str | None = None, attributes: str = "", fetched: str = "", is_live: bool = True,
) -> str:  # fmt: skip
    """Return a whole page. Screens are offered to who is let in; how the line is, where there is one."""
    links = "".join(
        f'<a href="{one.path}"{" aria-current=page" if one.path == here else ""}>{one.name}</a>' for one in _SCREENS
    )
    nav = f'<nav aria-label="Screens">{links}</nav>' if here is not None else ""
    line = '<line-state role="status"></line-state>' if is_live else ""
    user = "" if viewer.may_change else '<span class="chip" title="You may look, and change nothing">read only</span>'
    if viewer.user is not None:
        name = escape(viewer.user, quote=True)
        user += (
            f'<button id="signout" type="button" class="quiet" title="Signed in as {name}">'
            f"Sign out <b>{name}</b></button>"
        )
    modules = (*_MODULES, *_MORE.get(script, ())) if here is not None else ()
    preloads = [fetched, *(f'<link rel="modulepreload" href="/static/{name}.js">' for name in modules)]
    styles = [
        f'<link rel="stylesheet" href="/static/{name}.css">' for name in (*_STYLES, *_MORE_STYLES.get(script, ()))
    ]
    return _PAGE.format(
        title=escape(title), script=script, screen=script, content=content, attributes=attributes, nav=nav, line=line,
        user=user, may="" if viewer.may_change else ' data-may="read"', styles="\n".join(styles),
        preloads="\n".join(one for one in preloads if one),
    )  # fmt: skip
