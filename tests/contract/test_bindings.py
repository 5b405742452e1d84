"""What a key of another framework promises, on every server: one session, made once, gone on with, and nothing lost."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from maestro_state.adapters.binding import Adapter, Entries
from maestro_state.clock import now_ms
from maestro_state.errors import Conflict, InvalidValue, SessionNotFound
from maestro_state.models.binding import Bound, joined, parts_of
from maestro_state.state.calls import parts
from tests.support.backends import Backend, Clock
from tests.support.passing import TTL_S, let_pass, long_ago

ODD = ("", "thread", "a/b:{c}*..", "../../etc", "名前 é ß", "x" * 5000, "line\nbreak", "a", "A", "%2F/", "sess--abc123")


async def test_many_first_uses_make_one_session(backend: Backend):
    """Twenty who come at once get the same session."""
    async with backend.open_async() as maestro:
        ids = await asyncio.gather(*(maestro.bindings.ensure("langgraph", "thread") for _ in range(20)))

        assert len(set(ids)) == 1
        assert [row.id for row in await maestro.sessions.list()] == ids[:1]
        assert await maestro.bindings.find("langgraph", "thread") == ids[0]


async def test_keys_are_only_data(backend: Backend):
    """Whatever a key is made of, it is a key of its own, and leads nowhere else."""
    async with backend.open_async() as maestro:
        ids = {key: await maestro.bindings.ensure("openai", key) for key in ODD}

        assert len(set(ids.values())) == len(ODD)
        for key, session_id in ids.items():
            assert await maestro.bindings.find("openai", key) == session_id
            assert await maestro.sessions.resolve(f"openai:{key}") == session_id
            assert await maestro.bindings.find("langgraph", key) is None
        bound = [row.document()["bound"] for row in await maestro.sessions.list()]
        assert sorted(one["key"] for one in bound) == sorted(ODD)


def test_several_parts_are_one_key():
    """No two lists of parts become the same key, and each comes back."""
    lists = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "b", "c"), ("", ""), ("%", "/")]
    assert len({joined(*parts) for parts in lists}) == len(lists)
    assert [tuple(parts_of(joined(*parts))) for parts in lists] == lists


async def test_what_is_no_key_is_refused(backend: Backend):
    """Half a character is no text, and an unknown framework has no keys."""
    async with backend.open_async() as maestro:
        for kind, key in (("openai", "\ud800"), ("other", "x"), ("openai", 3)):
            with pytest.raises(InvalidValue):
                await maestro.bindings.ensure(kind, key)
        with pytest.raises(SessionNotFound):
            await maestro.sessions.resolve("openai:nobody")


async def test_the_id_of_a_session_means_that_session(backend: Backend):
    """A key that is the full id of a session joins it; where keys have several parts it is a key like any other."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("joined")

        assert await maestro.bindings.ensure("langgraph", session.id) == session.id
        assert await maestro.bindings.find("openai", session.id) == session.id
        assert await maestro.bindings.ensure("adk", session.id) != session.id


async def test_a_checkout_stays_on_its_session(backend: Backend):
    """Bound sessions are made and gone on with without anybody being put on them."""
    async with backend.open_async() as maestro:
        session = await maestro.sessions.start("mine")
        await maestro.bindings.ensure("adk", "app/user/1")

        assert await maestro.sessions.resolve() == session.id


async def test_a_write_is_one_step_and_is_read_back(backend: Backend):
    """Messages, what is kept and events come together; a stale expectation changes nothing."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("langgraph", "t")
        await thread.write(Entries().message("user", "hello", metadata={"n": 1}).set("head", b"\xff1").event("x.added"))
        with pytest.raises(Conflict):
            await thread.write(Entries().message("user", "late").set("head", b"2").expect("head", b"0"))
        await thread.write(Entries().message("assistant", "hi").set("head", b"2").expect("head", b"\xff1"))
        await thread.write(Entries().first("head", b"3").first("other", b"4").drop("nothing"))

        assert [(one.role, one.content) for one in await thread.messages()] == [("user", "hello"), ("assistant", "hi")]
        assert await thread.kept() == {"head": b"2", "other": b"4"}
        assert len(await thread.events("x.added")) == 1


async def test_once_is_once(backend: Backend):
    """What has a name of its own is written once, in one step and over several."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("claude", "p/s")
        entries = Entries().once("u1").message("user", "a").once("u1").message("user", "a").message("user", "b")
        await thread.write(entries)
        await thread.write(Entries().once("u1").message("user", "a").once("u2").message("user", "c"))

        assert [one.content for one in await thread.messages()] == ["a", "b", "c"]


async def test_what_is_taken_back_stays_in_the_record(backend: Backend):
    """It is marked, handed out no more, and followers are told."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")
        assert await thread.pop() is None
        assert await maestro.bindings.find("openai", "t") is None
        for text in "abcdef":
            await thread.write(Entries().message("user", text))
        assert [(await thread.pop()).content for _ in range(3)] == ["f", "e", "d"]
        await thread.write(Entries().message("user", "g"))
        assert [(await thread.pop()).content for _ in range(2)] == ["g", "c"]
        assert [one.content for one in await thread.messages()] == ["a", "b"]
        assert [one.content for one in await thread.messages(last=1)] == ["b"]
        session_id = await thread.find()
        await thread.write(Entries().clear().message("user", "new"))
        assert [one.content for one in await thread.messages()] == ["new"]
        assert [one.content for one in await maestro.messages.for_model(session_id)] == ["new"]
        record = await maestro.messages.since(ref=session_id)
        assert [one.content for one in record if one.retracted_at] == list("abcdefg")
        assert "retracted_at" in record[0].document()
        assert (await thread.pop()).content == "new"
        assert await thread.pop() is None
        assert len(await thread.events("message.retracted")) == 7


async def test_what_was_deleted_is_not_begun_anew_unasked(backend: Backend):
    """A write that only goes on with what is there makes nothing; of what has ended it makes a fork."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter, Adapter(maestro=maestro) as other:
        thread, same = adapter.binding("openai", "t"), other.binding("openai", "t")
        with pytest.raises(SessionNotFound):
            await thread.write(Entries().message("user", "nobody's"), begins=False)
        await thread.write(Entries().message("user", "a"))
        await same.delete()
        with pytest.raises(SessionNotFound):
            await thread.write(Entries().message("user", "too late"), begins=False)
        assert await thread.pop() is None
        assert await maestro.sessions.list() == []
        await thread.write(Entries().message("user", "b"))
        await maestro.sessions.end(await thread.find())
        await thread.write(Entries().message("user", "c"), begins=False)
        assert [one.content for one in await same.messages()] == ["b", "c"]


@pytest.mark.parametrize("how", ["ended", "expired", "let go"])
async def test_what_has_ended_is_read_as_before_and_gone_on_with(backend: Backend, how: str):
    """Reads come from the archive, the next write goes on in a fork that the key means from then on."""
    clock = long_ago()
    async with backend.open_async(now_ms=clock) as maestro, Adapter(maestro=maestro, ttl_seconds=TTL_S) as adapter:
        thread = adapter.binding("openai", "t")
        for text in "abc":
            await thread.write(Entries().message("user", text, metadata={"n": text}).set("head", text.encode()))
        await thread.pop()
        first = await thread.find()
        if how == "expired":
            let_pass(backend.raw, maestro, first)
            clock.now_ms = now_ms()
        else:
            await maestro.sessions.end(first)
        if how == "let go":
            for key in maestro.server.terms.keys.session(first):
                backend.raw.delete(key)
            backend.raw.delete(*maestro.server.terms.keys.binding(Bound("openai", "t").digest))
        assert [one.content for one in await thread.messages()] == ["a", "b"]
        assert await thread.kept() == {"head": b"c"}
        assert await thread.find() == first

        others = [adapter.binding("openai", "t") for _ in range(4)]
        await asyncio.gather(*(one.write(Entries().message("user", "d")) for one in (thread, *others)))

        second = await thread.find()
        assert second != first
        assert (await maestro.sessions.read(second)).forked_from == first
        assert [one.content for one in await thread.messages()] == ["a", "b", *"ddddd"]
        assert await thread.kept() == {"head": b"c"}
        rows = [row for row in await maestro.sessions.list() if row.bound_to == Bound("openai", "t")]
        assert len(rows) == 2

        # Once more: what the fork only took over is in its archive too.
        await maestro.sessions.end(second)
        for key in maestro.server.terms.keys.session(second):
            backend.raw.delete(key)
        assert await thread.kept() == {"head": b"c"}
        await thread.write(Entries().message("user", "e"))
        assert [one.content for one in await thread.messages()] == ["a", "b", *"ddddd", "e"]
        assert await thread.kept() == {"head": b"c"}


async def test_deleting_leaves_nothing(backend: Backend):
    """The sessions of a key, what they were forked from under it, their archives and the binding go."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("langgraph", "t")
        await thread.write(Entries().message("user", "a"))
        await maestro.sessions.end(await thread.find())
        await thread.write(Entries().message("user", "b"))
        assert await thread.delete()

        assert not await thread.delete()
        assert await maestro.sessions.list(everything=True) == []
        assert await thread.messages() == []
        assert not [key for key in backend.raw.scan_iter() if b":binding" in key or b"--" in key]
        await thread.write(Entries().message("user", "anew"))
        assert [one.content for one in await thread.messages()] == ["anew"]


async def test_deleting_reaches_what_another_machine_archived(backend: Backend):
    """What a key went on from is on the server for its time to live, wherever its archive is: it goes too."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")
        ended = []
        for word in "abc":
            await thread.write(Entries().message("user", word))
            ended.append(await maestro.sessions.end(await thread.find()))
        await thread.write(Entries().message("user", "d"))
        shutil.rmtree(backend.project / ".maestro" / "sessions")
        first = f"{{{ended[0].id}}}".encode()
        assert [key for key in backend.raw.scan_iter() if first in key]  # the control

        assert await thread.delete()
        assert not [key for key in backend.raw.scan_iter() if b":binding" in key or b"--" in key]


async def test_deleting_a_session_that_was_joined_takes_it_along(backend: Backend):
    """A key that is the id of a session which has ended means nothing any more once it was deleted."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        joined_id = (await maestro.sessions.start("plan")).id
        thread = adapter.binding("langgraph", joined_id)
        await thread.write(Entries().message("user", "a"))
        await maestro.sessions.end(joined_id)
        await thread.write(Entries().message("user", "b"))
        assert await thread.find() != joined_id

        assert await thread.delete()
        assert await thread.find() is None
        assert await thread.messages() == []


async def test_who_is_killed_between_binding_and_making_is_followed(backend: Backend):
    """A key that is bound to a session that nobody made yet reads as nothing, and the next write makes it."""
    from maestro_state.state.calls.bindings import bind_session

    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        bound = Bound.of("openai", "t")
        await maestro.server.run(bind_session(maestro.server.terms, bound, f"{bound.slug}--abc123", 60_000))
        thread = adapter.binding("openai", "t")
        assert await thread.find() is None
        assert await thread.messages() == []

        await thread.write(Entries().message("user", "a"))

        assert await thread.find() == f"{bound.slug}--abc123"


async def test_an_id_is_not_used_again(backend: Backend):
    """A session that was there and is not within reach is named by the next one, and is not begun under its id."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")
        await thread.write(Entries().message("user", "a"))
        first = await thread.find()
        await maestro.sessions.delete(first)  # or archived on a machine that this one cannot reach
        assert await thread.messages() == []
        others = [adapter.binding("openai", "t") for _ in range(4)]
        await asyncio.gather(*(one.write(Entries().message("user", "b")) for one in (thread, *others)))

        second = await thread.find()
        assert second != first
        assert [row.id for row in await maestro.sessions.list()] == [second]
        assert (await maestro.sessions.read(second)).forked_from == first
        assert len(await thread.messages()) == 5


async def test_writes_renew_the_binding(backend: Backend):
    """The key lives as long as its session, whoever writes; reading renews nothing."""
    clock = Clock()
    async with backend.open_async(now_ms=clock) as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")
        await thread.write(Entries().message("user", "a"))
        (binding,) = maestro.server.terms.keys.binding(thread.bound.digest)
        session_id = await thread.find()
        backend.raw.pexpire(binding, 5_000)
        clock.advance(seconds=2)
        await thread.messages()
        assert backend.raw.pttl(binding) <= 5_000

        await maestro.messages.add("user", "from a terminal", session_id)

        assert backend.raw.pttl(binding) > 5_000
        assert len(await thread.messages()) == 2


async def test_reading_where_nothing_was_begun_begins_nothing(tmp_path):
    """No folder, no server; the first write begins the project."""
    async with Adapter(project=tmp_path) as adapter:
        thread = adapter.binding("openai", "t")
        assert await thread.messages() == []
        assert await thread.find() is None
        assert await thread.pop() is None
        assert await thread.kept() == {}
        assert not await thread.delete()
        assert list(tmp_path.iterdir()) == []


async def test_tools_are_not_handed_what_was_taken_back(backend: Backend):
    """Neither one message nor all that were before, and nothing in place of what has no words."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")

        async def handed() -> list[str]:
            call = parts.read_history(maestro.server.terms, await thread.find(), "0-0", 100, 16_384)
            return [one.content for one in await maestro.server.run(call)]

        await thread.write(Entries().message("user", "a").message("assistant", "").message("user", "b"))
        assert await handed() == ["a", "b"]
        await thread.pop()
        assert await handed() == ["a"]
        await thread.write(Entries().clear().message("user", "c"))
        assert await handed() == ["c"]
        await thread.write(Entries().message("user", "d"))
        await thread.pop()
        assert await handed() == ["c"]


async def test_values_grow_and_only_rise(backend: Backend):
    """What is appended comes after what was there; the highest by its bytes stays, whoever comes last."""
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("langgraph", "thread")
        await asyncio.gather(*(thread.write(Entries().append("log", b"x").highest("head", str(n))) for n in range(20)))
        for value in ("8", "", "10", "9a", "9", "9Z"):
            await thread.write(Entries().highest("head", value).append("log", value.encode()))

        assert await thread.kept() == {"log": b"x" * 20 + b"8109a99Z", "head": b"9a"}
        assert await thread.peek(["log", "none"]) == {"log": b"x" * 20 + b"8109a99Z"}
        await maestro.sessions.end(await thread.find())
        assert await thread.peek(["log"]) is None


async def test_what_grows_stays_small_enough_for_the_archive(backend: Backend, monkeypatch):
    """A value that would be more than a line of the archive holds is refused, and nothing of the step is done."""
    monkeypatch.setattr("maestro_state.state.calls.bindings.KEPT_MAX", 10)
    async with backend.open_async() as maestro, Adapter(maestro=maestro) as adapter:
        thread = adapter.binding("openai", "t")
        await thread.write(Entries().append("log", b"12345"))
        await thread.write(Entries().append("log", b"67890"))
        with pytest.raises(InvalidValue, match="more than 10 bytes"):
            await thread.write(Entries().set("head", b"x").message("user", "a").append("log", b"1"))
        assert await thread.kept() == {"log": b"1234567890"}
        assert await thread.messages() == []
