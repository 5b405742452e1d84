"""What discussions promise, on every server: live for all terminals, on disk at once, closed by one final JSON."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from maestro_state.api.discussions import Discussions
from maestro_state.errors import (
    AmbiguousReference,
    DiscussionClosed,
    DiscussionNotFound,
    DiscussionOpen,
    InvalidValue,
    NoOpenDiscussion,
    Refused,
)
from maestro_state.local.project import Project
from tests.support.backends import Backend, Clock

FINAL = {"patch_operations": [{"op_type": "add_track", "data": {"track_name": "Login"}}]}
HOME = "docs/maestro/sessions/discuss"
META_FIELDS = ["session_id", "context", "contract_type", "created_at", "updated_at", "status", "final_json_present",
               "engine", "model", "initial_prompt"]  # fmt: skip


def meta_on_disk(root: Path, discussion_id: str) -> dict[str, Any]:
    """Read meta.json past Maestro."""
    return json.loads((root / HOME / discussion_id / "meta.json").read_bytes())


def lines_on_disk(root: Path, discussion_id: str) -> list[dict[str, Any]]:
    """Read transcript.jsonl past Maestro."""
    return [json.loads(line) for line in (root / HOME / discussion_id / "transcript.jsonl").read_bytes().splitlines()]


async def test_a_discussion_from_start_to_replay(backend: Backend):
    """What is said is on the server and on disk at once; the final JSON closes it; the replay is appended."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start(kind="track", ref="login", reason="asked for")
        assert str(uuid.UUID(meta.session_id, version=4)) == meta.session_id
        assert (meta.contract_type, meta.status, meta.final_json_present) == ("track", "open", False)
        await room.say("plan the login")
        await room.say("here it is", role="assistant", model="m1")
        closed = await room.done(FINAL)
        outcome = await room.replay(meta.session_id)

        assert (closed.status, closed.final_json_present, closed.initial_prompt) == ("closed", True, "plan the login")
        assert outcome.document()["result"] == "REPLAY_OK"
        stored = meta_on_disk(backend.project, meta.session_id)
        assert list(stored) == META_FIELDS
        assert stored["context"] == {"kind": "track", "ref": "login", "router_reason": "asked for"}
        lines = lines_on_disk(backend.project, meta.session_id)
        assert [(line["type"], line["payload"]) for line in lines] == [
            ("user_message", {"content": "plan the login"}),
            ("assistant_message", {"content": "here it is", "model": "m1"}),
            ("final_json", FINAL),
            ("replay_run", {"dry_run": False, "result": "REPLAY_OK", "ops_count": 1}),
        ]
        assert all(list(line) == ["ts", "type", "payload"] for line in lines)
        assert all(len(line["ts"]) == len("2025-12-27T14:30:25.123456") for line in lines)
        assert (await room.show(meta.session_id)).document()["events"] == lines


async def test_two_terminals_in_one_discussion(backend: Backend):
    """Both see everything both said, in one order, whichever asks."""
    async with backend.open_async() as one, backend.open_async() as other:
        meta = await one.discussions.start()
        for number in range(10):
            await (one if number % 2 else other).discussions.say(f"n{number}")
        for maestro in (one, other):
            events = (await maestro.discussions.show()).transcript.events
            assert [event.payload["content"] for event in events] == [f"n{number}" for number in range(10)]
        await other.discussions.done(FINAL)
        with pytest.raises(DiscussionClosed):
            await one.discussions.say("too late", meta.session_id)


async def test_another_checkout_joins_by_id_and_has_it_all_on_disk(backend: Backend, tmp_path: Path):
    """A discussion of another checkout on the same server is joined by naming it; nobody joins one by accident."""
    async with backend.open_async() as here:
        meta = await here.discussions.start()
        await here.discussions.say("from here")
        there = here.discussions
        moved = Discussions(here.blocking.server, Project(str(tmp_path)))

        with pytest.raises(NoOpenDiscussion):
            moved.say("by accident")
        assert [row.meta.session_id for row in moved.list().rows] == [meta.session_id]
        assert moved.show(meta.session_id).meta.initial_prompt == "from here"
        assert not (tmp_path / "docs").exists()
        moved.say("from there", meta.session_id[:8])
        await there.done(FINAL)
        assert moved.show(meta.session_id).meta.status == "closed"
        assert lines_on_disk(tmp_path, meta.session_id) == lines_on_disk(backend.project, meta.session_id)


async def test_only_one_final_json(backend: Backend):
    """A second final JSON is refused, live or from disk, and leaves everything as it was."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        await room.done(FINAL)
        before = lines_on_disk(backend.project, meta.session_id)
        for ref in (meta.session_id, None):
            with pytest.raises(DiscussionClosed):
                await room.done(FINAL, ref)
        backend.raw.flushall()
        with pytest.raises(DiscussionClosed):
            await room.done(FINAL, meta.session_id)
        assert lines_on_disk(backend.project, meta.session_id) == before


async def test_the_final_json_is_checked_at_once(backend: Backend):
    """JSON that does not keep to the contract is refused and the discussion stays open; an empty list is valid."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start(contract="task")
        for payload in (FINAL, {}, [], {"patch_operations": None}):
            with pytest.raises(InvalidValue):
                await room.done(payload)
        assert meta_on_disk(backend.project, meta.session_id)["status"] == "open"
        assert (await room.done({"patch_operations": []})).status == "closed"


async def test_the_last_answer_can_be_the_final_json(backend: Backend):
    """Without a file, the JSON the assistant said last ends the discussion; an answer without any does not."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        with pytest.raises(InvalidValue):
            await room.done()
        await room.say("not yet", role="assistant")
        with pytest.raises(InvalidValue):
            await room.done()
        await room.say(f"Here you are:\n```json\n{json.dumps(FINAL, indent=1)}\n```\nGood luck.", role="assistant")
        await room.done()
        assert lines_on_disk(backend.project, meta.session_id)[-1]["payload"] == FINAL


async def test_replaying_an_open_discussion_says_what_to_do(backend: Backend):
    """Without final JSON a replay is refused, and an error event says so, on the server and on disk."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        with pytest.raises(DiscussionOpen, match="no final_json"):
            await room.replay(meta.session_id)
        assert [line["type"] for line in lines_on_disk(backend.project, meta.session_id)] == ["error"]
        await room.say("go on")
        assert [event.type for event in (await room.show()).transcript.events] == ["error", "user_message"]


async def test_a_failed_replay_changes_nothing_and_is_on_record(backend: Backend):
    """What does not fit is an error event and a REPLAY_FAIL; the plan files stay as they are."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        missing = {"op_type": "add_phase", "data": {"phase_name": "x", "track_id": "none"}}
        await room.done({"patch_operations": [*FINAL["patch_operations"], missing]})
        for dry_run in (True, False):
            outcome = await room.replay(meta.session_id, dry_run=dry_run)
            assert outcome.result == "REPLAY_FAIL"
            assert "track_id" in outcome.error
        assert not list((backend.project / "docs/maestro").glob("*.json"))
        last = lines_on_disk(backend.project, meta.session_id)[-2:]
        assert last[0] == {"ts": last[0]["ts"], "type": "error", "payload": {"message": outcome.error}}
        assert last[1]["payload"] == {
            "dry_run": False,
            "result": "REPLAY_FAIL",
            "ops_count": 0,
            "error": outcome.error,
        }


async def test_a_dry_run_plans_and_changes_no_plan_file(backend: Backend):
    """A dry run shows the new files, writes none of them, and is on record as one."""
    async with backend.open_async() as maestro:
        meta = await maestro.discussions.start()
        await maestro.discussions.done(FINAL)
        outcome = await maestro.discussions.replay(meta.session_id, dry_run=True)

        assert (outcome.result, outcome.ops_count) == ("REPLAY_OK", 1)
        assert [change.path for change in outcome.changes] == ["docs/maestro/tracks.json"]
        assert not (backend.project / "docs/maestro/tracks.json").exists()
        assert lines_on_disk(backend.project, meta.session_id)[-1]["payload"]["dry_run"] is True


async def test_a_plan_is_that_of_a_dry_run_and_leaves_no_trace(backend: Backend):
    """Neither in the discussion nor in the plan files; an open one has none, and that is no error of its own either."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        with pytest.raises(DiscussionOpen):
            await room.plan(meta.session_id)
        await room.done(FINAL)
        before = lines_on_disk(backend.project, meta.session_id)
        planned = await room.plan(meta.session_id)
        assert lines_on_disk(backend.project, meta.session_id) == before
        assert not (backend.project / "docs/maestro/tracks.json").exists()
        assert planned == await room.replay(meta.session_id, dry_run=True)


async def test_an_open_discussion_the_server_forgot_goes_on_from_disk(backend: Backend):
    """After the server lost it, or its life passed, the next thing said takes it up; nothing is lost or doubled."""
    clock = Clock()
    async with backend.open_async(now_ms=clock, ttl_seconds=100) as maestro:
        room = maestro.discussions
        meta = await room.start()
        await room.say("one")
        backend.raw.flushall()
        await room.say("two")
        clock.advance(seconds=1000)
        await room.say("three")
        clock.advance(seconds=-5000)
        await room.say("four")
        await room.done(FINAL)

        lines = lines_on_disk(backend.project, meta.session_id)
        assert [line["payload"].get("content") for line in lines] == ["one", "two", "three", "four", None]
        assert [line["ts"] for line in lines] == sorted({line["ts"] for line in lines})
        stored = meta_on_disk(backend.project, meta.session_id)
        assert (stored["initial_prompt"], stored["created_at"]) == ("one", meta.created_at)


async def test_a_thousand_events_in_one_millisecond_keep_their_order(backend: Backend):
    """A clock that stands still does not confuse the files: every event has a time of its own."""
    async with backend.open_async(now_ms=Clock()) as maestro:
        room = maestro.discussions
        meta = await room.start()
        terms, stamp = maestro.server.terms, maestro.server.stamp
        from maestro_state.state.calls.discussions import add_event

        for number in range(1010):
            payload = {"content": str(number)}
            await maestro.server.run(add_event(terms, stamp(), meta.session_id, "user_message", payload))
        await room.say("last")
        lines = lines_on_disk(backend.project, meta.session_id)
        assert [line["payload"]["content"] for line in lines] == [*map(str, range(1010)), "last"]
        assert len({line["ts"] for line in lines}) == 1011


async def test_a_repeated_command_is_said_once(backend: Backend):
    """The same command id gives the first event again."""
    async with backend.open_async() as maestro:
        meta = await maestro.discussions.start()
        first = await maestro.discussions.say("hello", idempotency_key="abcdefgh")
        again = await maestro.discussions.say("hello", idempotency_key="abcdefgh")
        assert again == first
        assert len(lines_on_disk(backend.project, meta.session_id)) == 1


async def test_files_that_fell_behind_catch_up(backend: Backend):
    """A transcript cut off anywhere, or lost, is whole again after the next call: the server has it."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        for number in range(5):
            await room.say(f"n{number}")
        path = backend.project / HOME / meta.session_id / "transcript.jsonl"
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            path.write_bytes(whole[:at])
            await room.show(meta.session_id)
            assert path.read_bytes() == whole
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        (path.parent / ".meta.json.0123456789ab.tmp").write_text("left by a kill")
        await room.say("n5", meta.session_id)
        assert sorted(one.name for one in path.parent.iterdir()) == ["meta.json", "transcript.jsonl"]
        assert path.read_bytes().startswith(whole)


async def test_bad_messages_and_contexts_are_refused(backend: Backend):
    """A wrong role, kind, contract, size or encoding starts and says nothing."""
    async with backend.open_async(max_blob_bytes=1000) as maestro:
        room = maestro.discussions
        for options in ({"kind": "moon"}, {"contract": "moon"}, {"ref": "\ud800"}, {"engine": "x" * 2000}):
            with pytest.raises(InvalidValue):
                await room.start(**options)
        assert (await room.list()).rows == []
        with pytest.raises(NoOpenDiscussion):
            await room.say("nobody there")
        await room.start()
        for content, options in (
            ("x", {"role": "system"}),
            ("x" * 1001, {}),
            ("\ud800", {}),
            ("x", {"model": "m"}),
        ):
            with pytest.raises(InvalidValue):
                await room.say(content, **options)
        assert (await room.show()).transcript.events == ()


async def test_references(backend: Backend, tmp_path: Path):
    """An id, its unique beginning, latest and a path find a discussion; others are refused with a reason."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro:
        room = maestro.discussions
        one = await room.start()
        clock.advance(seconds=5)
        two = await room.start()
        folder = backend.project / HOME
        for ref in (one.session_id, one.session_id[:10], str(folder / one.session_id)):
            assert (await room.show(ref)).meta.session_id == one.session_id
        assert (await room.show("latest")).meta.session_id == two.session_id
        for ref in ("", "x", "..", "../..", "\0", "a" * 5000, "no-such-thing", str(tmp_path), "{index}"):
            with pytest.raises(DiscussionNotFound):
                await room.show(ref)
        for name in ("abcd1", "abcd2"):
            shutil.copytree(folder / one.session_id, folder / name)
        with pytest.raises(AmbiguousReference):
            await room.show("abcd")
        with pytest.raises(Refused, match="holds the discussion"):
            await room.say("into a copy", "abcd1")
        for name in (one.session_id, two.session_id):
            shutil.rmtree(folder / name)
        with pytest.raises(NoOpenDiscussion):
            await room.say("by accident, into a copy")


async def test_a_link_in_place_of_a_discussion_is_not_followed(backend: Backend, tmp_path: Path):
    """Nothing is read or written through a link that a repository brought."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        folder = backend.project / HOME / meta.session_id
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        before = {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
        with pytest.raises(Exception, match="does not follow"):
            await room.say("through the link", meta.session_id)
        assert {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()} == before


async def test_one_that_cannot_be_read_does_not_hide_the_others(backend: Backend):
    """A damaged record is named in the list; the rest is listed."""
    async with backend.open_async() as maestro:
        room = maestro.discussions
        meta = await room.start()
        (backend.project / HOME / "broken").mkdir()
        (backend.project / HOME / "broken" / "meta.json").write_text("{")
        listing = await room.list()
        assert [row.meta.session_id for row in listing.rows] == [meta.session_id]
        assert list(listing.damaged) == ["broken"]


async def test_keys_of_a_discussion_expire_together(backend: Backend):
    """All keys of a discussion carry its id as tag and the same TTL."""
    async with backend.open_async(ttl_seconds=100, dirty_grace_seconds=50) as maestro:
        meta = await maestro.discussions.start()
        await maestro.discussions.say("x")
        keys = maestro.server.terms.keys.discussion(meta.session_id)
        assert all(f"{{{meta.session_id}}}" in key for key in keys)
        assert len({backend.raw.pexpiretime(key) for key in keys}) == 1
        assert all(0 < backend.raw.pttl(key) <= 150_000 for key in keys)


@pytest.mark.parametrize("damage", [None, {"context": b"{"}, {"schema": b"9999"}])
async def test_one_damaged_on_the_server_is_named(backend: Backend, damage: dict[str, bytes] | None):
    """A stranger's key, a record that cannot be read, or one of a newer Maestro; the others are listed."""
    async with backend.open_async() as maestro:
        well, damaged = (await maestro.discussions.start()).session_id, (await maestro.discussions.start()).session_id
        shutil.rmtree(maestro.project.root / HOME / damaged)
        key = maestro.server.terms.keys.discussion(damaged)[0]
        if damage is None:
            backend.raw.set(key, "x")
        else:
            backend.raw.hset(key, mapping=damage)
        listing = await maestro.discussions.list()
        backend.raw.delete(key)
    assert [row.meta.session_id for row in listing.rows] == [well]
    assert list(listing.damaged) == [damaged]
