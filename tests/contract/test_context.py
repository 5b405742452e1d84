"""What the context of a session promises, on every server."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from maestro_state.errors import (
    ContentTooLarge,
    InvalidTransition,
    InvalidValue,
    ItemNotFound,
    MaestroError,
    PathNotFound,
    Refused,
    SessionNotFound,
)
from maestro_state.models.context import ContextItem
from maestro_state.state.calls.context import remove_context
from tests.support.backends import Backend, Clock


def write(root: Path, name: str, content: bytes | str = "content\n") -> Path:
    """Write a file of the project."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


async def test_a_file_is_kept_with_its_content_of_that_moment(backend: Backend):
    """A file item has path, digest, time and size, and its snapshot stays when the file changes."""
    path = write(backend.project, "src/login.py", "print(1)\n")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("files")
        added = await maestro.context.add(str(path), labels=["initial"], note="look here")
        path.write_text("print(2)\n")

        item, content = await maestro.context.show(added.items[0].id)
        digest = hashlib.sha256(b"print(1)\n").hexdigest()
        assert content == b"print(1)\n"
        assert item == added.items[0]
        assert (item.id, item.kind, item.state, item.labels) == ("ctx-0001", "file", "active", ["initial"])
        assert item.notes == "look here"
        assert {"path_rel", "added_at", "digest", "mtime", "size"} == set(item.source)
        assert (item.source["path_rel"], item.source["digest"]) == ("src/login.py", digest)
        assert (item.snapshot.blob, item.snapshot.digest) == ("../blobs/ctx-0001.txt", digest)


async def test_the_stored_item_is_the_document(backend: Backend):
    """What the server holds is the item's JSON exactly as it is archived, its id in both places."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("json")
        text = 'ctx-0001 ", "id": "ctx-9999"} \\ \u2028 ünïcode'
        added = await maestro.context.add("--x", text, kind="text", labels=['a "b"', "ctx-0002"], note=text)
        stored = backend.raw.hgetall(maestro.server.terms.keys.of_session(session.id, "items"))

        assert [msgspec.json.decode(stored[item.id.encode()], type=ContextItem) for item in added.items] == added.items
        assert msgspec.json.decode(stored[b"ctx-0002"]) == msgspec.to_builtins(added.items[1])


async def test_first_and_last_item_move_the_state(backend: Backend):
    """The first item makes a session com_contexto, removing the last makes it iniciada again."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("states")
        await maestro.context.add("one", "two", kind="text")
        assert (await maestro.sessions.read()).state == "com_contexto"
        await maestro.context.remove("ctx-0001")
        assert (await maestro.sessions.read()).state == "com_contexto"
        removed = await maestro.context.remove("2")
        assert (await maestro.sessions.read()).state == "iniciada"
        assert removed[0].state == "removed"
        assert removed[0].removed_at

        await maestro.context.add("three", kind="text")
        assert await maestro.context.clear() == 1
        assert await maestro.context.clear() == 0
        assert (await maestro.sessions.read()).state == "iniciada"
        assert [row.state for row in await maestro.sessions.list()] == ["iniciada"]


async def test_as_many_items_as_one_call_takes_are_removed_all_or_none(backend: Backend):
    """A thousand items go at once; one more is refused before anything is changed, and how to clear all is said."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("many")
        await maestro.context.add(*(f"text {number}" for number in range(1001)), kind="text")
        ids = [str(number + 1) for number in range(1001)]
        with pytest.raises(InvalidValue, match="1001 items are named; at most 1000") as refused:
            await maestro.context.remove(*ids)
        assert "maestro context clear" in refused.value.hint
        assert len(await maestro.context.list()) == 1001

        assert len(await maestro.context.remove(*ids[:1000], *ids[:5])) == 1000
        assert [item.id for item in await maestro.context.list()] == ["ctx-1001"]
        if backend.name == "real":  # control: Lua itself would have failed, with words for nobody
            many = [f"ctx-{number:04d}" for number in range(1, 9001)]
            call = remove_context(maestro.server.terms, maestro.server.stamp(), session.id, many)
            with pytest.raises(MaestroError, match="too many results to unpack"):
                await maestro.server.run(call)


async def test_removed_items_stay_in_the_history(backend: Backend):
    """A removed item is out of the list, still shown with its content, and its number is not given out again."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("history")
        await maestro.context.add("first", kind="text")
        await maestro.context.remove("ctx-0001")
        await maestro.context.add("second", kind="text")

        assert [item.id for item in await maestro.context.list()] == ["ctx-0002"]
        assert [item.state for item in await maestro.context.list(everything=True)] == ["removed", "active"]
        assert (await maestro.context.show("ctx-0001"))[1] == b"first"
        with pytest.raises(Refused, match="removed already"):
            await maestro.context.remove("ctx-0001")
        with pytest.raises(ItemNotFound):
            await maestro.context.remove("ctx-0002", "ctx-0007")
        assert [item.id for item in await maestro.context.list()] == ["ctx-0002"]
        with pytest.raises(InvalidValue):
            await maestro.context.show("../1")


async def test_equal_contents_are_stored_once(backend: Backend):
    """Contents are kept by digest: the same bytes from anywhere take one place."""
    for number in range(3):
        write(backend.project, f"same/{number}.txt", b"the same bytes")
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("once")
        await maestro.context.add("same", folder=backend.project)
        await maestro.context.add("the same bytes", kind="text")

        blobs = backend.raw.hgetall(maestro.server.terms.keys.of_session(session.id, "blobs"))
        assert blobs == {hashlib.sha256(b"the same bytes").hexdigest().encode(): b"the same bytes"}
        assert len(await maestro.context.list()) == 4


async def test_drift(backend: Backend):
    """The list says of each file whether it now differs: same, changed or missing; a touched file is the same."""
    for name in ("same", "touched", "changed", "longer", "gone", "folder"):
        write(backend.project, name, "12345")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("drift")
        names = ("same", "touched", "changed", "longer", "gone", "folder")
        await maestro.context.add(*names, kind="file", folder=backend.project)
        await maestro.context.add("text", kind="text")
        os.utime(backend.project / "touched", (1, 1))
        write(backend.project, "changed", "54321")
        write(backend.project, "longer", "123456")
        (backend.project / "gone").unlink()
        (backend.project / "folder").unlink()
        (backend.project / "folder").mkdir()

        drift = [item.drift for item in await maestro.context.list()]
        assert drift == ["same", "same", "changed", "changed", "missing", "changed", None]
        assert [item.drift for item in (await maestro.sessions.status()).context] == drift


async def test_a_change_within_the_clocks_tick_is_seen(backend: Backend):
    """A file rewritten in the same size with the same time is still found to differ."""
    path = write(backend.project, "racy", "aaaa")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("racy")
        await maestro.context.add("racy", kind="file", folder=backend.project)
        before = path.stat()
        path.write_text("bbbb")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert [item.drift for item in await maestro.context.list()] == ["changed"]


async def test_refresh_takes_new_snapshots_of_what_changed(backend: Backend):
    """Changed files become new items in the place of the old ones, which stay in history; others stay as they are."""
    for name in ("a", "b", "c"):
        write(backend.project, name, "old")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("refresh")
        await maestro.context.add("a", "b", "c", kind="file", folder=backend.project, labels=["kept"])
        await maestro.context.add("text", kind="text")
        write(backend.project, "b", "new")
        (backend.project / "c").unlink()
        refreshed = await maestro.context.refresh()

        assert [(item.id, item.source["path_rel"], item.labels) for item in refreshed.items] == [
            ("ctx-0005", "b", ["kept"])
        ]
        assert [(one.path, one.reason) for one in refreshed.skipped] == [("c", "the file is gone")]
        assert [item.id for item in await maestro.context.list()] == ["ctx-0001", "ctx-0003", "ctx-0004", "ctx-0005"]
        assert (await maestro.context.show("ctx-0002"))[1] == b"old"
        assert (await maestro.context.refresh()).items == []
        with pytest.raises(Refused):
            await maestro.context.refresh("ctx-0004")
        with pytest.raises(Refused):
            await maestro.context.refresh("ctx-0002")
        assert (await maestro.sessions.read()).state == "com_contexto"
        assert await maestro.context.clear() == 4
        assert (await maestro.sessions.read()).state == "iniciada"


@pytest.mark.parametrize("content", [b"", bytes(range(256)), b"\xff\xfe\0\0", b"no newline", b"\r\n" * 100])
async def test_bytes_are_kept_exactly(backend: Backend, content: bytes):
    """Whatever a file holds comes back byte for byte."""
    path = write(backend.project, "bytes.bin", content)
    async with backend.open_async() as maestro:
        await maestro.sessions.start("bytes")
        await maestro.context.add(str(path))
        assert (await maestro.context.show("1"))[1] == content


async def test_too_large_is_refused_before_anything_is_stored(backend: Backend):
    """One named file or text above the limit refuses the whole command; in a folder it is skipped, and said."""
    write(backend.project, "in/small", b"x" * 100)
    write(backend.project, "in/large", b"x" * 101)
    async with backend.open_async(max_blob_bytes=100) as maestro:
        session = await maestro.sessions.start("large")
        with pytest.raises(ContentTooLarge):
            await maestro.context.add("in/small", "in/large", folder=backend.project)
        with pytest.raises(ContentTooLarge):
            await maestro.context.add("small", "x" * 101, kind="text")
        with pytest.raises(InvalidValue):
            await maestro.context.add(b"")
        keys = maestro.server.terms.keys
        assert not backend.raw.exists(keys.of_session(session.id, "blobs"), keys.of_session(session.id, "items"))

        added = await maestro.context.add("in", folder=backend.project)
        assert [item.source["path_rel"] for item in added.items] == ["in/small"]
        assert [one.path for one in added.skipped] == ["in/large"]


async def test_a_frozen_or_absent_session_takes_no_context(backend: Backend):
    """Nothing is added to, or left of, a session that is ended or gone."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("frozen")
        await maestro.context.add("before", kind="text")
        await maestro.sessions.end(archive=False)
        for attempt in (
            lambda: maestro.context.add("late", kind="text"),
            lambda: maestro.context.remove("ctx-0001"),
            lambda: maestro.context.clear(),
            lambda: maestro.tools.use("echo"),
        ):
            with pytest.raises(InvalidTransition):
                await attempt()
        assert [item.state for item in await maestro.context.list()] == ["active"]

        keys = maestro.server.terms.keys.session(session.id)
        backend.raw.delete(*keys)
        for attempt in (
            lambda: maestro.context.add("late", kind="text"),
            lambda: maestro.context.list(),
            lambda: maestro.context.show("1"),
            lambda: maestro.context.clear(),
        ):
            with pytest.raises(SessionNotFound):
                await attempt()
        assert not backend.raw.exists(*keys)


async def test_terminals_adding_at_once_lose_and_double_nothing(backend: Backend):
    """Items added from several terminals at the same time all get numbers of their own, without a gap."""
    async with backend.open_async() as one, backend.open_async() as two:
        await one.sessions.start("crowd")
        batches = [
            (one if number % 2 else two).context.add(f"{number} a", f"{number} b", kind="text") for number in range(20)
        ]
        added = [item.id for batch in await asyncio.gather(*batches) for item in batch.items]

        assert sorted(added) == [f"ctx-{number:04d}" for number in range(1, 41)]
        assert [item.id for item in await one.context.list()] == sorted(added)
        contents = [(await one.context.show(item_id))[1].decode() for item_id in added]
        assert sorted(contents) == sorted(f"{number} {half}" for number in range(20) for half in "ab")


async def test_a_repeated_call_adds_once(backend: Backend):
    """The same call sent again, as after a lost reply, is answered with the first answer and adds nothing."""
    from maestro_state.state.calls import context as ops

    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("repeat")
        server = maestro.server
        item = ops.new_text(server.terms, server.now_ms(), b"once", (), None)
        await server.change(session.id, ops.put_blobs(server.terms, server.stamp(), session.id, {item.digest: b"once"}))
        call = ops.add_context(server.terms, server.stamp(), session.id, [item])
        first = await server.change(session.id, call)
        assert await server.change(session.id, call) == first
        assert len(await maestro.context.list()) == 1
        # the control: another call with the same content does add
        other = ops.add_context(server.terms, server.stamp(), session.id, [item])
        assert await server.change(session.id, other) != first


async def test_followers_see_every_item_come_and_go(backend: Backend):
    """Each item added or removed is one event, in order."""
    clock = Clock()
    write(backend.project, "a.txt", "1")
    async with backend.open_async(now_ms=clock) as maestro:
        await maestro.sessions.start("events")
        await maestro.context.add("a.txt", "text", folder=backend.project)
        write(backend.project, "a.txt", "22")
        await maestro.context.refresh()
        await maestro.context.remove("ctx-0002")
        await maestro.tools.use("echo")

        events = [event async for event in maestro.follow.events(cursor="start", until_idle_ms=1)]
        seen = [(event.type, event.data.get("item"), event.data.get("replaces")) for event in events[1:]]
        assert seen == [
            ("context.added", "ctx-0001", None),
            ("context.added", "ctx-0002", None),
            ("context.added", "ctx-0003", "ctx-0001"),
            ("context.removed", "ctx-0002", None),
            ("tool.selected", None, None),
        ]


async def test_many_files_go_in_whole_batches(backend: Backend):
    """Adding many files tells its progress batch by batch; an interruption leaves whole batches."""
    for number in range(450):
        write(backend.project, f"many/{number:03d}.txt", f"{number}")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("many")
        told: list[tuple[int, int]] = []
        added = await maestro.context.add(
            "many", folder=backend.project, progress=lambda done, total: told.append((done, total))
        )
        assert told == [(200, 450), (400, 450), (450, 450)]
        assert [item.source["path_rel"] for item in added.items] == [f"many/{number:03d}.txt" for number in range(450)]

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await maestro.context.add("many", folder=backend.project, again=True, progress=interrupt)
        items = await maestro.context.list()
        assert [item.id for item in items] == [f"ctx-{number:04d}" for number in range(1, 651)]
        assert (await maestro.sessions.read()).counters.ctx_seq == 650
        assert await maestro.context.clear() == 650


async def test_what_was_read_before_trouble_is_added(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    """A file that is gone when its batch is due ends the command; every batch before it is in, whole."""
    for number in range(12):
        write(backend.project, f"few/{number:02d}.txt", f"{number}")
    paths = [f"few/{number:02d}.txt" for number in range(12)]
    monkeypatch.setattr("maestro_state.state.calls.context.BATCH_ITEMS", 3)
    async with backend.open_async() as maestro:
        await maestro.sessions.start("trouble")

        def lose_the_last(done: int, total: int) -> None:
            (backend.project / paths[-1]).unlink(missing_ok=True)
            assert (done, total) in ((3, 12), (6, 12), (9, 12))

        with pytest.raises(PathNotFound):
            await maestro.context.add(*paths, folder=backend.project, progress=lose_the_last)
        assert [item.source["path_rel"] for item in await maestro.context.list()] == paths[:9]


async def test_what_is_no_file(backend: Backend):
    """An argument that names no file is a text, unless it looks like a path."""
    async with backend.open_async() as maestro:
        await maestro.sessions.start("text")
        for argument in ("src/none.py", "none.py", "./a b", "*.none", "missing/*.py"):
            with pytest.raises(PathNotFound):
                await maestro.context.add(argument, folder=backend.project)
        texts = ("why does it fail?", "see src/none.py", "none", "3.14", "what*is[this")
        added = await maestro.context.add(*texts, folder=backend.project)
        assert [item.kind for item in added.items] == ["text"] * len(texts)
        forced = await maestro.context.add("src/none.py", kind="text")
        assert (await maestro.context.show(forced.items[0].id))[1] == b"src/none.py"


async def test_the_same_file_unchanged_is_one_item(backend: Backend):
    """A file that is active with the same content is returned as it is; changed, removed or asked for, it is added."""
    path = write(backend.project, "a.py", "one\n")
    write(backend.project, "b.py", "one\n")
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("once")
        first = (await maestro.context.add(str(path), labels=["first"])).items
        again = await maestro.context.add(str(path), str(backend.project / "b.py"), "a text", labels=["again"])
        assert [item.id for item in again.items] == ["ctx-0001", "ctx-0002", "ctx-0003"]
        assert again.items[0] == first[0]
        assert again.unchanged == ["ctx-0001"]

        await maestro.context.add("a text", kind="text")
        assert (await maestro.context.add(str(path), again=True)).items[0].id == "ctx-0005"
        await maestro.context.remove("ctx-0001", "ctx-0005")
        assert (await maestro.context.add(str(path))).items[0].id == "ctx-0006"
        path.write_text("two\n")
        assert (await maestro.context.add(str(path))).items[0].id == "ctx-0007"
        active = [item.id for item in await maestro.context.list()]
        assert active == ["ctx-0002", "ctx-0003", "ctx-0004", "ctx-0006", "ctx-0007"]

        await maestro.sessions.end(session.id, archive=False)
        with pytest.raises(InvalidTransition):
            await maestro.context.add(str(path))
