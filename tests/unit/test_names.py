"""Names and ids of sessions: letters of any script, one form of each, nothing that leads out of a folder."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maestro_state.errors import InvalidName, SessionNotFound
from maestro_state.models.names import is_reference, is_session_id, pick, session_slug


@given(st.text(max_size=40))
def test_a_slug_is_safe_and_its_own_slug(name: str):
    """Whatever is typed: small letters, digits, marks and single dashes, in the one form that an id may have."""
    try:
        slug = session_slug(name)
    except InvalidName:
        return
    assert session_slug(slug) == slug
    assert is_session_id(f"{slug}--abc123")
    assert is_reference(slug)
    assert {unicodedata.category(char)[0] for char in slug.replace("-", "")} <= {"L", "M", "N"}
    assert slug == unicodedata.normalize("NFC", slug.lower())
    assert not slug.startswith("-")
    assert "--" not in slug
    assert len(f"{slug}--abc123".encode()) <= 168


@pytest.mark.parametrize(
    "text",
    [
        "日本/..--abc123",
        "日本--ABC123",
        "日本--abc12",
        "日 本--abc123",
        "日本\u202e--abc123",
        "ÉTÉ--abc123",
        "été--abc123",
        "\u304b\u3099--abc123",
        "日" * 60 + "--abc123",
        "--abc123",
        "日本.old--abc123",
    ],
)
def test_another_form_is_no_id(text: str):
    """Two spellings never mean one session, and no path is an id."""
    assert not is_session_id(text)


@pytest.mark.parametrize(
    ("ref", "meant"),
    [
        ("fix", "fix-login--abc123 or fix-logout--abc124"),
        ("Fix-Logi", "fix-login--abc123"),
        ("fxi-login", "fix-login--abc123 or fix-logout--abc124"),
        ("修复", "修复登录--abc125"),
        ("deploy", None),
        ("", None),
    ],
)
def test_what_may_be_meant_is_named(ref: str, meant: str | None):
    """A name that is cut short or mistyped leads to whole ids, which can be copied; one like no other to none."""
    with pytest.raises(SessionNotFound) as error:
        pick(ref, ["fix-login--abc123", "fix-logout--abc124", "修复登录--abc125"])
    assert str(error.value) == f"no session '{ref}'" + (f"; did you mean {meant}?" if meant else "")
