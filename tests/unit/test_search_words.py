"""From what is typed to what the index is asked, and the piece of a text that shows why it was found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_state.errors import InvalidValue
from maestro_state.local.project import Project
from maestro_state.search.opening import open_store
from maestro_state.search.query import Question, ask
from maestro_state.search.snippets import snippet
from maestro_state.search.store import Entry, Store
from maestro_state.search.words import QUERY_MAX, TERMS_MAX, split, terms

SESSION = "talk--abc123"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a cache with a few texts."""
    folder = tmp_path_factory.mktemp("p")
    (folder / ".maestro").mkdir()
    made = open_store(Project(str(folder)), os.environ | {"XDG_STATE_HOME": str(folder.parent / "state")})
    fill(made, *TEXTS)
    return made


TEXTS = (
    "why does fix_login_cookie fail",
    "why does fixLoginCookie fail",
    "HTTPServer restarts at noon",
    "le café de Ángela, naïve",
    "e\u0301cole de\u0301compose\u0301e",
    "修复登录问题",
    "cookie is lost after the login page",
    "STRASSE und Straße",
    "quotes \" and ' and -- and ) OR ( NEAR",
    "die Größe der Straße, in hauptStraße",
)


def fill(store: Store, *texts: str) -> None:
    """Put texts into a cache, each as a message."""
    with store.transaction():
        number = store.put(SESSION, is_live=False, is_whole=True)
        store.add((number, Entry("message", f"{at}-0", at, text, "user")) for at, text in enumerate(texts))


def found(store: Store, query: str) -> list[int]:
    """Return which texts a question finds."""
    hits = ask(store, Question(terms(query), limit=100)).results
    return sorted(int(hit.entry.split("-")[0]) for hit in hits)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("login", [0, 1, 6]),
        ("LOGIN cookie", [0, 1, 6]),
        ('"login cookie"', [0, 1]),
        ('"cookie is lost"', [6]),
        ("fixLoginCookie", [0, 1]),
        ("fix_login_cookie", [0, 1]),
        ("log*", [0, 1, 6]),
        ('"the log*"', [6]),
        ("ogin", []),
        ("server", [2]),
        ("httpserver", [2]),
        ("cafe angela NAIVE", [3]),
        ("CAFÉ", [3]),
        ("école décomposée", [4]),
        ("ecole", [4]),
        ("登录", [5]),
        ("strasse", [7, 9]),
        ("STRASSE", [7, 9]),
        ("Straße", [7, 9]),
        ("GRÖSSE", [9]),
        ("gross*", [9]),
        ("haupt", [9]),
        ('"hauptstrasse"', [9]),
        ("“cookie is lost”", [6]),
        ("login -page", [6]),
        ("OR", [8]),
        ("NEAR", [8]),
        ('"unclosed login', []),
        ("why AND fail", []),
    ],
)
def test_words_are_found_however_they_are_written(store: Store, query: str, wanted: list[int]):
    """All words, phrases, prefixes; accents and case do not matter; joined names are found by their parts."""
    assert found(store, query) == wanted


@pytest.mark.parametrize("query", ["", " ", "*", '""', "!!! -- ''", "_", "🙂"])
def test_a_question_without_a_word_is_refused(query: str):
    """There is nothing to search for."""
    with pytest.raises(InvalidValue, match="no word"):
        terms(query)


def test_questions_have_bounds():
    """What is longer than any question is refused with its bound."""
    with pytest.raises(InvalidValue, match=str(QUERY_MAX)):
        terms("x" * (QUERY_MAX + 1))
    with pytest.raises(InvalidValue, match=str(TERMS_MAX)):
        terms("x " * (TERMS_MAX + 1))


@given(query=st.text(max_size=80) | st.text(alphabet="\"*()^:-+{}' ANDORNTE\0\\aé登", max_size=60))
def test_nothing_that_is_typed_is_syntax(store: Store, query: str):
    """Any text is a question or refused; none is an error of the index."""
    try:
        found(store, query)
    except InvalidValue:
        return


@given(text=st.text(max_size=400), word=st.text(alphabet="abcXYé登1_", min_size=1, max_size=6))
def test_a_snippet_is_one_line_of_the_text(text: str, word: str):
    """Whatever the text holds: no line breaks, and nothing that was not there but marks and dots."""
    try:
        asked = terms(word)
    except InvalidValue:
        return
    shown = snippet(f"{text} {word} {text}", asked)
    assert len(shown.splitlines()) <= 1 or "\n" not in shown
    assert shown.count("«") == shown.count("»")


def test_a_snippet_marks_what_was_found():
    """Whole names are marked, words in a row once, and a far place is found."""
    assert snippet("why does fix_login_cookie fail", terms("login")) == "why does «fix_login_cookie» fail"
    assert snippet("the cookie is lost", terms('"cookie is"')) == "the «cookie is» lost"
    assert snippet("a Café here", terms("cafe")) == "a «Café» here"
    assert snippet("its «own» marks", terms("marks")) == "its ‹own› «marks»"
    far = snippet("x " * 50_000 + "needle in it", terms("needle"))
    assert far.startswith("…")
    assert far.endswith("«needle» in it")


@pytest.mark.parametrize(
    ("query", "text", "wanted"),
    [
        ("or zebra", "words of a zebra or two", "words of a «zebra or» two"),
        ("a b", "data between a and b", "data between «a» and «b»"),
        ("login", "relogins, then fixLogin and login_cookie", "relogins, then «fixLogin» and «login_cookie»"),
        ("log*", "catalogue of logins", "catalogue of «logins»"),
        ("修", "再修复", "«再修复»"),
        ("http", "LoginHTTPServer, xhttpx", "«LoginHTTPServer», xhttpx"),
        ("GRÖSSE strasse", "die Größe der Straße", "die «Größe» der «Straße»"),
        ("straße", "STRASSE, session", "«STRASSE», session"),
    ],
)
def test_only_words_that_were_found_are_marked(query: str, text: str, wanted: str):
    """Not every place where their letters are."""
    assert snippet(text, terms(query)) == wanted


def test_only_joined_names_are_split():
    """A text without any costs nothing more."""
    assert split("plain words, snake_case and dots.in.it") is None
    assert split("camelCase and HTTPServer2Go") == "camel Case HTTP Server2 Go"
    assert split("die Größe, hauptStraße") == "Grösse haupt Straße hauptStrasse haupt Strasse"


def test_the_cache_is_private_and_ignored(tmp_path: Path):
    """It holds what people said."""
    (tmp_path / "p" / ".maestro").mkdir(parents=True)
    open_store(Project(str(tmp_path / "p")), os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}).close()
    folder = tmp_path / "p" / ".maestro" / "cache"
    assert (folder / "search.db").stat().st_mode & 0o777 == 0o600
    assert (folder / ".gitignore").read_text() == "*\n"
