"""Promoting what a run printed to context, on every server."""

from __future__ import annotations

import msgspec
import pytest

from maestro_state.errors import ContentTooLarge, InvalidValue, Refused, RunNotFound, WorkFailed
from tests.support.backends import Backend
from tests.support.context_files import store_run

TEN = [b"1\n2\n3", b"\n4\n5\n6\r7\n", b"8\n9\n", b"ten without newline"]


async def test_an_output_becomes_an_item_and_its_run_relevant(backend: Backend):
    """The whole output, put together from its chunks, is a new item; the run is marked with the note."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("whole")
        keys = maestro.server.terms.keys
        store_run(backend.raw, keys, session, "0001", TEN)
        store_run(backend.raw, keys, session, "0002", [b"\xff\0"] * 200)
        added = await maestro.context.use_output("1", note="the plan")
        item, content = await maestro.context.show(added.items[0].id)

        assert content == b"".join(TEN)
        assert (item.kind, item.source["run_id"], item.labels, item.notes) == ("output", "0001", [], "the plan")
        relevant = backend.raw.hget(keys.of_session(session.id, "runs"), "0001:relevant")
        assert msgspec.json.decode(relevant) == {
            "run_id": "0001", "added_at": item.source["added_at"], "note": "the plan"
        }  # fmt: skip
        assert (await maestro.sessions.read()).state == "com_contexto"

        last = (await maestro.context.use_output("last")).items[0]
        assert (last.source["run_id"], last.labels) == ("0002", ["last_output"])
        assert (await maestro.context.show(last.id))[1] == b"\xff\0" * 200


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("1-1", b"1\n"),
        ("2-3", b"2\n3\n"),
        ("6-6", b"6\r7\n"),
        ("9", b"ten without newline"),
        ("8-99", b"9\nten without newline"),
        ("8-", b"9\nten without newline"),
    ],
)
async def test_lines_count_from_one_with_both_ends(backend: Backend, lines: str, wanted: bytes):
    """A part of an output is taken by its lines."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("lines")
        store_run(backend.raw, maestro.server.terms.keys, session, "0001", TEN)
        item = (await maestro.context.use_output("0001", lines=lines)).items[0]
        assert (await maestro.context.show(item.id))[1] == wanted
        assert item.source["lines"] == lines


async def test_what_cannot_be_promoted(backend: Backend):
    """A run that is not there, open, or without output is refused, as is a bad range; nothing is added or marked."""
    async with backend.open_async(max_blob_bytes=40) as maestro:
        session = await maestro.sessions.start("refused")
        keys = maestro.server.terms.keys
        with pytest.raises(RunNotFound):
            await maestro.context.use_output("last")
        store_run(backend.raw, keys, session, "0001", [b"so far"], status="running")
        store_run(backend.raw, keys, session, "0002", [], status="error")
        store_run(backend.raw, keys, session, "0003", [b"one line\n"])
        store_run(backend.raw, keys, session, "0004", [b"x" * 41])
        for run, lines, error in (
            ("0001", None, Refused),
            ("0002", None, Refused),
            ("0007", None, RunNotFound),
            ("x", None, InvalidValue),
            ("0003", "0-1", InvalidValue),
            ("0003", "2-1", InvalidValue),
            ("0003", "2-3", InvalidValue),
            ("0003", "a-b", InvalidValue),
            ("0004", None, ContentTooLarge),
        ):
            with pytest.raises(error):
                await maestro.context.use_output(run, lines=lines)
        assert await maestro.context.list(everything=True) == []
        stored = backend.raw.hkeys(keys.of_session(session.id, "runs"))
        assert not [name for name in stored if name.endswith(b":relevant")]


async def test_an_output_that_is_not_whole_is_not_promoted(backend: Backend):
    """When chunks are missing, the recorded digest tells, and nothing is added."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("torn")
        keys = maestro.server.terms.keys
        store_run(backend.raw, keys, session, "0001", TEN)
        outputs = keys.of_session(session.id, "outputs")
        backend.raw.xdel(outputs, backend.raw.xrange(outputs, count=1)[0][0])
        with pytest.raises(WorkFailed, match="not what was recorded"):
            await maestro.context.use_output("last")
        assert await maestro.context.list() == []
