"""The mailbox: what is taken, what is set aside, and when a file has had time enough to become a breadcrumb."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from maestro_state.mirror.mailbox import SETTLE_NS, Mailbox
from tests.support.work_samples import age, post

ID = "0d5d1f5c-2f0b-4a3e-9b0f-1c2d3e4f5a6b"
WHOLE = b'{"breadcrumb_id": "w", "timestamp": "20260101_000000_0", "prompt": "whole", "response": ""}'


def mailbox(root: Path) -> Mailbox:
    """Return the mailbox of the one work session."""
    return Mailbox(str(root), (ID,), limit=10_000)


def ids(box: Mailbox, now_ns: int) -> list[str]:
    """Return the ids of what is new, without taking it."""
    return [delivery.breadcrumb.breadcrumb_id for delivery in box.deliveries(now_ns)]


def test_a_file_still_being_written_is_waited_for(tmp_path: Path):
    """As long as it changes it is neither taken nor set aside; whole, it is taken."""
    box = mailbox(tmp_path)
    file = post(tmp_path, (ID,), "a", WHOLE[:20])
    now = file.stat().st_mtime_ns
    assert ids(box, now) == []
    assert box.is_waiting
    for size in (30, 40, 50):
        file.write_bytes(WHOLE[:size])
        now += SETTLE_NS - 1
        os.utime(file, ns=(now, now))
        assert ids(box, now) == []
    file.write_bytes(WHOLE)
    assert ids(box, now) == ["w"]
    assert not box.is_waiting
    assert box.rejected == []


def test_what_stays_broken_is_set_aside_with_its_reason(tmp_path: Path):
    """After it has not changed for a while, it is moved, named, and never stops the rest."""
    box = mailbox(tmp_path)
    broken = post(tmp_path, (ID,), "a", WHOLE[:20], depth=2)
    post(tmp_path, (ID,), "b", WHOLE)
    now = broken.stat().st_mtime_ns
    assert ids(box, now) == ["w"]
    assert ids(box, now + SETTLE_NS) == ["w"]
    (rejected,) = box.rejected
    assert rejected.source == f"docs/sessions/{ID}/breadcrumbs/2/a.json"
    assert rejected.reason.startswith("not JSON")
    assert not broken.exists()
    aside = tmp_path / "docs/sessions" / ID / "rejected"
    assert (aside / "2-a.json").read_bytes() == WHOLE[:20]
    assert json.loads((aside / "2-a.json.reason").read_text())["reason"] == rejected.reason
    assert not box.is_waiting


def test_a_writer_that_paused_for_long_loses_nothing(tmp_path: Path):
    """A file that was set aside and became whole afterwards goes back and is taken."""
    box = mailbox(tmp_path)
    file = post(tmp_path, (ID,), "a", WHOLE[:20])
    with file.open("ab") as writer:
        age(file)
        assert ids(box, file.stat().st_mtime_ns + SETTLE_NS) == []
        assert len(box.rejected) == 1
        writer.write(WHOLE[20:])
    assert ids(mailbox(tmp_path), 0) == ["w"]
    assert file.read_bytes() == WHOLE
    assert list((tmp_path / "docs/sessions" / ID / "rejected").iterdir()) == []


def test_one_set_aside_before_is_not_written_over(tmp_path: Path):
    """Two bad files of the same name are both kept."""
    box = mailbox(tmp_path)
    for content in (b"first", b"second", b"third"):
        age(post(tmp_path, (ID,), "a", content))
        assert ids(box, 1 << 62) == []
    aside = tmp_path / "docs/sessions" / ID / "rejected"
    assert {path.read_bytes() for path in aside.glob("*.json")} == {b"first", b"second", b"third"}


def test_a_file_of_the_future_does_not_wait_for_ever(tmp_path: Path):
    """A clock that is ahead only delays the decision by the usual time."""
    box = mailbox(tmp_path)
    file = post(tmp_path, (ID,), "a", b"broken")
    now = file.stat().st_mtime_ns
    os.utime(file, ns=(now + 10**15, now + 10**15))
    assert ids(box, now) == []
    assert box.is_waiting
    assert ids(box, now + SETTLE_NS) == []
    assert len(box.rejected) == 1


@pytest.mark.parametrize("kind", ["link", "folder", "large", "pipe"])
def test_what_is_no_plain_file_is_not_opened(tmp_path: Path, kind: str):
    """A link, a folder, a pipe or a huge file under a breadcrumb's name is set aside without being read."""
    post(tmp_path, (ID,), "good", WHOLE)
    place = tmp_path / "docs/sessions" / ID / "breadcrumbs/0/a.json"
    secret = tmp_path / "secret"
    secret.write_bytes(WHOLE.replace(b'"w"', b'"secret"'))
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.write_bytes(b" " * 10_001)
    box = mailbox(tmp_path)
    assert ids(box, 1 << 62) == ["w"]
    assert [one.source.rsplit("/", 1)[-1] for one in box.rejected] == ["a.json"]
    assert not place.is_symlink()
    assert not place.exists()
    assert secret.exists()


def test_what_was_taken_is_offered_again_only_if_it_changes(tmp_path: Path):
    """A consumer remembers what it has seen, by what tells a file from its successor."""
    box = mailbox(tmp_path)
    file = post(tmp_path, (ID,), "a", WHOLE)
    for delivery in box.deliveries(0):
        box.took(delivery)
    assert ids(box, 0) == []
    file.write_bytes(WHOLE.replace(b'"w"', b'"other"'))
    assert ids(box, 0) == ["other"]
    (delivery,) = box.deliveries(0)
    box.refuse(delivery, "not now")
    assert ids(box, 0) == []
    assert box.rejected[0].reason == "not now"


@pytest.mark.parametrize("reason", [b'{"source": "\xff"}', b'{"source": ' + b"[" * 5000, b"[]", b""])
def test_a_reason_that_cannot_be_read_stops_nothing(tmp_path: Path, reason: bytes):
    """Anybody may write beside what was set aside; what is new is taken all the same."""
    aside = tmp_path / "docs/sessions" / ID / "rejected"
    aside.mkdir(parents=True)
    (aside / "2-a.json.reason").write_bytes(reason)
    (aside / "2-a.json").write_bytes(WHOLE)
    file = post(tmp_path, (ID,), "b", WHOLE)
    assert ids(mailbox(tmp_path), file.stat().st_mtime_ns) == ["w"]
    assert (aside / "2-a.json").exists()


@pytest.mark.parametrize("timestamp", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_utc_has_no_date_for_stops_nothing(tmp_path: Path, timestamp: str):
    """It is set aside as what is no time; the breadcrumb beside it is taken."""
    box = mailbox(tmp_path)
    odd = post(tmp_path, (ID,), "a", json.dumps(json.loads(WHOLE) | {"timestamp": timestamp}).encode())
    post(tmp_path, (ID,), "b", WHOLE)
    assert ids(box, odd.stat().st_mtime_ns + SETTLE_NS) == ["w"]
    assert "is not a time" in box.rejected[0].reason
