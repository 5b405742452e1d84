"""Which kinds of secrets a content may hold, told before any is searched for by its own pattern.

A kind that is not named is not in the content; one that is named may be. Little content is searched for words, one by
one. That takes 25 ms a megabyte, so more content is searched for all kinds at once by an automaton that takes a
millisecond, without holding other threads up, but over 200 to load and build. Where there is none, words serve for all.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple


class Form(NamedTuple):
    """What every secret of a kind has in it; letters stand for both cases."""

    kind: str
    words: tuple[bytes, ...]  #: one of them, in lower case
    pattern: bytes  #: in what the automaton and `re` both understand; `.` is any byte


FORMS = (
    Form("aws", (b"a3t", b"abia", b"acca", b"akia", b"asia", b"aws"),
         rb"a3t[a-z0-9]{8}|abia[a-z0-9]{8}|acca[a-z0-9]{8}|akia[a-z0-9]{8}|asia[a-z0-9]{8}"
         rb"|aws[^\n]{0,20}(?:key|pw|pass|token)"),
    Form("azure_storage_key", (b"accountkey=",), rb"accountkey="),
    Form("github_token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"gh[pousr]_[a-z0-9_]{8}"),
    Form("gitlab_token", (b"glpat-", b"gldt-", b"glft-", b"glsoat-", b"glrt-", b"gr1348941", b"glcbt-", b"glimt-",
                          b"glptt-", b"glagent-", b"gloas-"),
         rb"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[a-z0-9_-]{8}|gr1348941"),
    Form("mailchimp", (b"-us",), rb"[0-9a-z]{8}-us[0-9]"),
    Form("pypi_token", (b"pypi-ag",), rb"pypi-ag"),
    Form("sendgrid", (b"sg.",), rb"sg\.[a-z0-9_-]{8}"),
    Form("slack", (b"xox", b"hooks.slack.com"), rb"xox[a-z]-[0-9]|hooks\.slack\.com"),
    Form("square_oauth", (b"sq0csp-",), rb"sq0csp-"),
    Form("stripe", (b"k_live_",), rb"k_live_[0-9a-z]{8}"),
    Form("twilio", (b"ac", b"sk"), rb"ac[a-z0-9]{16}|sk[a-z0-9]{16}"),
    Form("Anthropic API Key", (b"sk-ant-",), rb"sk-ant-"),
    Form("OpenAI API Key", (b"sk-",), rb"sk-(?:proj|svcacct|admin)-"),
    Form("Google API Key", (b"aiza",), rb"aiza[0-9a-z_-]{8}"),
    Form("GitHub Token", (b"github_pat_",), rb"github_pat_"),
    Form("private key", (b"private key",), rb"private key"),
    Form("web token", (b"eyj",), rb"eyj[a-z0-9_=-]{8}"),
    Form("npm token", (b":_authtoken",), rb":_authtoken"),
    Form("url", (b"://",), rb"://[^\n]*@"),
    Form("assignment", (b"key", b"pass", b"pwd", b"secret", b"contrase"),
         rb"(?:key|pass|pwd|secret|contrase..?a)[a-z0-9_]*[])'\"]*[ \t\n\r\f\v]*[:=!(]"
         rb"[ \t=:>('\"`@]*[^ \t\n\r\f\v'\"`)]{12}"),
)  # fmt: skip

#: Bytes that a process searches for words before the automaton is worth its while.
_WORDS_MAX = 4 << 20

_searched = 0

#: Automata that nobody uses right now: each does one search at a time, and a fork loses those that were in use.
_free: deque[Any] = deque()
_is_there = True


def kinds_in(content: bytes) -> set[str]:
    """Return the kinds of secrets that a content may hold."""
    global _searched
    _searched += len(content)
    found = by_automaton(content) if _is_there and _searched > _WORDS_MAX else None
    return by_words(content) if found is None else found


def by_words(content: bytes) -> set[str]:
    """Tell by words alone."""
    lower = content.lower()
    return {form.kind for form in FORMS if any(word in lower for word in form.words)}


def by_automaton(content: bytes) -> set[str] | None:
    """Tell by patterns, all in one pass; None where there is no automaton."""
    try:
        automaton = _free.pop()
    except IndexError:
        automaton = _build()
    if automaton is None:
        return None
    kinds: set[str] = set()
    automaton.scan(content, match_event_handler=lambda number, *_: kinds.add(FORMS[number].kind))
    _free.append(automaton)
    return kinds


def _build() -> Any:
    global _is_there
    try:
        import hyperscan
    except ImportError:  # there is none for this machine
        _is_there = False
        return None
    automaton = hyperscan.Database()
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_SINGLEMATCH
    try:
        automaton.compile(expressions=[form.pattern for form in FORMS], ids=list(range(len(FORMS))), flags=flags)
    except hyperscan.error:  # nor for this processor
        _is_there = False
        return None
    return automaton
