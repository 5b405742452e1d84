"""What is damaged in an archive is said by whoever reads it, and never passed off as what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from maestro_state.errors import FileCorrupt, RemovedByCleanup
from maestro_state.mirror.layouts import session as layout
from maestro_state.state.calls.index import forget_session
from tests.support.backends import Backend
from tests.support.stored import filler

DAMAGE: dict[str, Callable[[Path], object]] = {
    "changed": lambda path: path.write_bytes(path.read_bytes()[::-1]),  # same size: only the digest tells
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
}


async def archived(backend: Backend, maestro) -> Path:
    """Archive a session with two runs that only the disk has; return its folder."""
    session = await maestro.sessions.start("work")
    fill = filler(backend, session.id)
    fill.run(b"an answer\n", prompt=b"explain")
    fill.run(b"another\n", prompt=b"again")
    await maestro.sessions.end()
    backend.raw.delete(*maestro.server.terms.keys.session(session.id))
    await maestro.server.run(forget_session(maestro.server.terms, session.id))
    return backend.project / ".maestro/sessions" / session.id


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_output_or_prompt_is_never_shown_as_whole(backend: Backend, damage: str):
    """Reading, following and exporting say which file it is; what is whole beside it is read as before."""
    async with backend.open_async() as maestro:
        folder = await archived(backend, maestro)
        first, second = await maestro.runs.list(folder.name)
        assert await maestro.runs.output("0001", folder.name) == b"an answer\n"  # control: whole before
        assert await maestro.runs.prompt(second, folder.name) == b"again"
        DAMAGE[damage](folder / "runs/0001/output.txt")
        DAMAGE[damage](folder / "runs/0002/prompt.txt")
        with pytest.raises(FileCorrupt, match=r"0001/output\.txt is ") as caught:
            await maestro.runs.output("0001", folder.name)
        assert caught.value.hint == f"maestro verify {folder.name}"
        with pytest.raises(FileCorrupt, match=r"0002/prompt\.txt is "):
            await maestro.runs.prompt(second, folder.name)
        with pytest.raises(FileCorrupt, match=r"0001/output\.txt is "):
            [event async for event in maestro.follow.events(folder.name, cursor="start")]
        assert await maestro.runs.output("0002", folder.name) == b"another\n"
        assert await maestro.runs.prompt(first, folder.name) == b"explain"
        for form in ("md", "json"):
            done = await maestro.archive.export(folder.name, form=form)
            assert [f"000{number}/" in note for number, note in enumerate(done.warnings, start=1)] == [True, True]
            text = (folder / "exports" / done.path.rpartition("/")[2]).read_text()
            assert "another" in text
            assert text.count("output.txt is ") == text.count("prompt.txt is ") == 1
        exported = json.loads(text)["runs"]
        assert ["output.txt is " in exported[0]["damage"][0], "prompt.txt is " in exported[1]["damage"][0]] == [
            True
        ] * 2


async def test_an_output_that_cleanup_removed_is_no_damage(backend: Backend):
    """It is said to be removed, never passed off as empty; one that is missing beside it is still damage."""
    async with backend.open_async() as maestro:
        folder = await archived(backend, maestro)
        await maestro.archive.cleanup(days=0)
        assert not (folder / "runs/0001/output.txt").exists()  # control: the last one is kept
        with pytest.raises(RemovedByCleanup):
            await maestro.runs.output("0001", folder.name)
        (warning,) = (await maestro.archive.export(folder.name)).warnings
        assert warning == "cleanup had removed the output of 1 run: 0001"
        types = [event.type async for event in maestro.follow.events(folder.name, cursor="start")]
        assert "run.finished" in types
        (folder / "runs/0002/output.txt").unlink()
        with pytest.raises(FileCorrupt, match=r"0002/output\.txt is missing"):
            await maestro.runs.output("0002", folder.name)


async def test_what_a_killed_checkpoint_left_costs_nothing(backend: Backend):
    """Half a line, and files that never were: the next checkpoint is whole, and keeps what only the archive has."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("work")
        fill = filler(backend, session.id)
        folder = backend.project / ".maestro/sessions" / session.id
        fill.run(b"an answer\n")
        for number in range(3):
            await maestro.messages.add("user", f"number {number}")
            await maestro.archive.checkpoint()
        backend.raw.xtrim(maestro.server.terms.keys.of_session(session.id, "messages"), maxlen=1, approximate=False)
        left = backend.project / ".maestro/sessions/.staging" / f"{session.id}.next/runs/0001/output.txt"
        left.parent.mkdir(parents=True)
        left.write_bytes(b"never committed\n")
        with (folder / "messages.jsonl").open("ab") as file:
            file.write(b'{"id": "')
        assert (await maestro.archive.verify(session.id)).ok
        await maestro.messages.add("user", "the last")
        assert (await maestro.archive.checkpoint()).current
        assert (folder / "runs/0001/output.txt").read_bytes() == b"an answer\n"
        assert (folder / "messages.jsonl").read_bytes().count(b"\n") == 4
        assert (await maestro.archive.verify(session.id)).ok


async def test_an_archive_that_does_not_say_how_far_it_goes_is_written_anew(backend: Backend):
    """What it had is in the trash."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("work")
        await maestro.messages.add("user", "one")
        await maestro.archive.checkpoint()
        folder = backend.project / ".maestro/sessions" / session.id
        manifest = layout.decode_manifest((folder / layout.MANIFEST).read_bytes(), session.id)
        (folder / layout.MANIFEST).write_bytes(layout.encode_manifest(msgspec.structs.replace(manifest, last_id="")))
        await maestro.messages.add("user", "two")
        assert (await maestro.archive.checkpoint()).current
        assert (folder / layout.MESSAGES).read_bytes().count(b"\n") == 2
        assert (backend.project / ".maestro/trash" / session.id / layout.MESSAGES).read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("damage", ["cut off", "emptied", "missing"])
@pytest.mark.parametrize("path", ["context/blobs/ctx-0001.txt", "context/items/ctx-0001.json", layout.MESSAGES])
async def test_what_goes_missing_while_a_session_lives_is_there_again_after_the_next_change(
    backend: Backend, path: str, damage: str
):
    """The server has it still: later it may be on no other disk. The damaged one is in the trash."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("work")
        await maestro.context.add("a text", kind="text")
        await maestro.messages.add("user", "hello")
        for number in range(2):  # the first checkpoint is swapped in, the second one made in place
            await maestro.sessions.set("preferences", {"n": number})
            await maestro.archive.checkpoint()
        folder = backend.project / ".maestro/sessions" / session.id
        before = (folder / path).read_bytes()
        DAMAGE[damage](folder / path)
        assert not (await maestro.archive.verify(session.id)).ok  # control
        await maestro.sessions.set("preferences", {"n": 2})
        assert (await maestro.archive.checkpoint()).current
        assert (await maestro.archive.verify(session.id)).ok
        assert (folder / path).read_bytes() == before
        assert (backend.project / ".maestro/trash" / session.id / layout.MANIFEST).exists()
