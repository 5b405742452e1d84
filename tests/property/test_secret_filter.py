"""The filter before the search for secrets loses none: whatever the contents, every pattern finds what it found."""

from __future__ import annotations

import re
import string
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state import secret_filter, secrets
from maestro_state.secret_filter import FORMS, by_automaton, by_words, kinds_in
from tests.unit.test_secrets import SECRETS

EVERY_KIND = {form.kind for form in FORMS}
CHARACTERS = string.ascii_letters + string.digits + "-_=+/. "

#: All that makes a kind of secret what it is, and what stands around it.
PIECES = [word for form in FORMS for word in form.words] + [
    b"://", b"@", b":", b"=", b" ", b'"', b"'", b"\n", b"\r\n", b"\x00", b"\xff", b"user:", b"s3cr3tpw9", b"api_",
    b"password",
    b"-----BEGIN RSA PRIVATE KEY-----", b"xoxb-12-", b"proj-", b"token", b"-us1", b"A1b2C3d4E5f6G7h8", b"0" * 16,
    "contraseña".encode(), b"eyJhbGciOiJIUzI1NiJ9.", b"[redacted", b"(", b")", b"]", b">", b"!",
]  # fmt: skip


def _library() -> list[re.Pattern[bytes]]:
    names = (*secrets._DETECTORS, ("npm", "NpmDetector"), ("basic_auth", "BasicAuthDetector"))
    found = [vars(import_module(f"detect_secrets.plugins.{module}"))[name] for module, name in names]
    own = [re.compile(pattern) for _, pattern in secrets._MORE]
    texts = [one for detector in found for one in vars(detector)["denylist"]]
    return [secrets._of_bytes(pattern) for pattern in texts] + own + [secrets._TOKEN, secrets._KEY_BEGIN]


def _mixed(part: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    piece = st.sampled_from(PIECES)
    changed = st.one_of(piece, piece.map(bytes.upper), piece.map(bytes.swapcase), part)
    return st.lists(changed, max_size=12).map(b"".join)


def spans(content: bytes, kinds: set[str]) -> list[secrets.SecretSpan]:
    """Return what is found when the search is told that these kinds may be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "kinds_in", lambda _: kinds)
        return secrets.find_spans(content, "notes.yml", limit=None)


def assert_nothing_is_lost(content: bytes) -> None:
    """Compare with the findings of all patterns."""
    everything = spans(content, EVERY_KIND)
    automaton = by_automaton(content)
    assert automaton is not None
    assert spans(content, automaton) == everything
    assert spans(content, by_words(content)) == everything


@pytest.mark.parametrize("pattern", _library(), ids=lambda pattern: pattern.pattern[:30].decode())
def test_what_a_pattern_matches_is_let_through(pattern: re.Pattern[bytes]):
    """Of every detector: examples made from its own pattern, alone and among others."""

    @settings(max_examples=20)
    @given(st.from_regex(pattern), st.sampled_from([b"", *PIECES]), st.sampled_from([b"", *PIECES]))
    def check(secret: bytes, before: bytes, after: bytes) -> None:
        assert_nothing_is_lost(before + secret + after)

    check()


@given(_mixed(st.binary(max_size=40) | st.text(CHARACTERS, max_size=60).map(str.encode)))
def test_what_is_put_together_of_pieces_is_let_through(content: bytes):
    """Random bytes and texts with the words of secrets in them."""
    assert_nothing_is_lost(content)


@given(st.sampled_from([*SECRETS.values()]), st.binary(max_size=30), st.binary(max_size=30))
def test_known_secrets_are_let_through(secret: str, before: bytes, after: bytes):
    """Every kind that the unit tests know, in random surroundings."""
    assert_nothing_is_lost(before + b"\n" + secret.encode() + after)


@given(_mixed(st.binary(max_size=20)))
def test_the_automaton_reads_patterns_as_re_does(content: bytes):
    """One table for both: an expression means the same to either."""
    flags = re.IGNORECASE | re.DOTALL
    assert by_automaton(content) == {form.kind for form in FORMS if re.search(form.pattern, content, flags)}


def test_many_may_search_at_once():
    """Threads do not get into each other's search."""
    contents = [secret.encode() * 200 for secret in SECRETS.values()] * 4
    alone = [by_automaton(content) for content in contents]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(by_automaton, contents)) == alone


def test_without_an_automaton_words_serve(monkeypatch: pytest.MonkeyPatch):
    """Where it cannot be loaded, the same secrets are found."""
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    monkeypatch.setattr(secret_filter, "_free", type(secret_filter._free)())
    monkeypatch.setattr(secret_filter, "_is_there", True)
    monkeypatch.setattr(secret_filter, "_searched", secret_filter._WORDS_MAX)
    content = SECRETS["Stripe Access Key"].encode()
    assert by_automaton(content) is None
    assert kinds_in(content) == by_words(content)
    assert secrets.find_secrets("notes.txt", content)
