"""Tokens of `maestro serve` on the state server."""

from __future__ import annotations

import pytest

from maestro_state import Maestro
from maestro_state.errors import Refused
from maestro_state.state.calls import tokens as ops


def test_browsers_go_with_the_token_they_signed_in_by(maestro: Maestro):
    """A list shows none that lets nobody in; another's stay."""
    room = maestro.tokens
    ana, bob = room.add("ana").id, room.add("bob").id
    for parent in (ana, ana, bob):
        room.add("somebody", days=30, parent=parent)
    room.revoke(ana)
    assert len(room.list()) == 2
    assert {(one.id == bob, one.parent) for one in room.list()} == {(True, None), (False, bob)}


def test_a_full_list_makes_room_by_what_counts_no_more(maestro: Maestro, monkeypatch: pytest.MonkeyPatch):
    """First what is over or has lost its token, then browsers of who signed in most; what was given stays."""
    monkeypatch.setattr(ops, "TOKENS_MAX", 8)
    room = maestro.tokens
    ana, bob = room.add("ana").id, room.add("bob").id
    room.add("bob", days=30, parent=bob)
    lost = "gone00"  # revoked in the moment in which somebody signed in by it
    room.add("eva", days=30, parent=lost)
    many = [room.add("ana", days=30, parent=ana).id for _ in range(4)]
    assert len(room.list()) == 8
    many.append(room.add("ana", days=30, parent=ana).id)
    assert [one.user for one in room.list() if one.parent == lost] == []
    many.append(room.add("ana", days=30, parent=ana).id)
    left = room.list()
    assert {one.id for one in left} >= {ana, bob, many[-1]}
    assert len([one for one in left if one.parent == ana]) < len(many)
    assert len([one for one in left if one.parent == bob]) == 1
    while any(one.parent for one in room.list()) or len(room.list()) < 8:
        room.add("zoe")
    with pytest.raises(Refused, match="already"):  # what was given is nobody's to take
        room.add("zoe")
