"""Rows that anybody may have written: one that cannot be decoded is left out or refused, whatever is wrong with it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from maestro_state.errors import FileCorrupt, InvalidValue
from maestro_state.models.worker import Worker
from maestro_state.state.calls import index, index_pages, parcels, quarantine, work, workers
from maestro_state.state.calls.terms import Terms
from maestro_state.state.keys import Keyspace
from maestro_state.tools.after_call import from_llm_log

TERMS = Terms(Keyspace("m"), user="ana", ttl_ms=1, grace_ms=0, idle_after_ms=1, max_value_bytes=1)
VIEW = index.View(1, 1, None)
#: Deeper than any reader goes.
DEEP = b"[" * 5000 + b"]" * 5000
#: What may be wrong with a value.
BROKEN = [b'"\xff"', DEEP]

SESSION = b'["1-0","fix-login--pwzqjb","iniciada",1,1.0,1,"ana",null,null,null,null,[1,1,null],%b]'
WORK = b'["1-0","running",1,1,1,"ana",null,"task","p",{"of":%b},{},1,1]'
WORKER = msgspec.json.encode(Worker(id="w", host="h", pid=1, since="", runs_at_once=1, project="/p"))
DAMAGED = b'{"code":"c","reason":"r","seen_ms":1,"more":%b}'

#: List of rows → how many can be read, and a row with a place for what is wrong with it.
LISTS: dict[str, tuple[Callable[[list[Any]], int], bytes]] = {
    "sessions": (lambda rows: len(index.entries_of(rows)), SESSION),
    "shown sessions": (lambda rows: len(index.rows_of(rows, VIEW)), SESSION),
    "work sessions": (lambda rows: len(work.all_work(TERMS).read(rows)), WORK),
    "workers": (
        lambda rows: len(workers.read_present(TERMS).read([part for row in rows for part in (b"w", row)])),
        b"1 " + WORKER[:-1] + b',"more":%b}',
    ),
    "damaged": (lambda rows: len(quarantine.rows(TERMS).read([p for row in rows for p in (b"s", row)])), DAMAGED),
}


@pytest.mark.parametrize("name", LISTS)
def test_one_row_hides_no_other(name: str):
    """Whoever may write there may write anything; the rows around it are read."""
    count, row = LISTS[name]
    whole = row % b"1"
    assert count([whole, row % DEEP, whole]) == 2
    assert count([whole, whole]) == 2  # the control


@pytest.mark.parametrize("broken", BROKEN)
def test_a_cursor_that_is_none_is_refused(broken: bytes):
    """It is anybody's text: of a terminal, or of a request."""
    said = urlsafe_b64encode(b'[1,1,"2026","fix-login--pwzqjb",' + broken + b"]").decode()
    with pytest.raises(InvalidValue, match="cursor"):
        index_pages.read_cursor(said)


def test_a_piece_that_is_none_is_refused():
    """What comes through the server may come from anybody."""
    deep = b"\x95\x01\xa4part\xa1b\xc4\x00" + b"\x91" * 5000 + b"\x00"
    with pytest.raises(FileCorrupt, match="piece"):
        parcels.next_piece(TERMS, "0" * 32, 1).read([b"key", deep])


@pytest.mark.parametrize("broken", BROKEN)
def test_a_log_that_cannot_be_read_tells_nothing(broken: bytes):
    """The log of the tool llm: its call ended well without it."""
    assert from_llm_log(b'[{"response": ' + broken + b"}]", None) is None
