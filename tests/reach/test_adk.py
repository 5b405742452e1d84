"""Sessions of Google's ADK in Maestro: what its own services do, compared with one of them, and what is Maestro's."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from maestro_state.adapters.adk import MaestroSessionService
from maestro_state.errors import InvalidValue

KEY = {"app_name": "app", "user_id": "user/1", "session_id": "s"}


def event(text: str | None = None, author: str = "user", **more: Any) -> Event:
    """Return an event that says something, or that only changes the state."""
    content = types.Content(role=author, parts=[types.Part(text=text)]) if text else None
    delta = more.pop("delta", None)
    return Event(
        id=more.pop("id", Event.new_id()),
        invocation_id="i",
        author=author,
        content=content,
        actions=EventActions(state_delta=delta or {}),
        **more,
    )


def plain(session: Session) -> dict[str, Any]:
    """Return what can be compared of a session."""
    return session.model_dump(mode="json")


async def test_as_in_memory(place):
    """The same calls give the same sessions, events, states and lists."""
    memory = InMemorySessionService()
    events = [
        event("hello", delta={"a": 1, "app:b": [2], "user:c": {"d": None}, "temp:e": 5}, timestamp=10.5),
        event(author="agent", delta={"a": None, "x": "é"}, timestamp=11.0),
        event("bytes", author="agent", timestamp=12.25, long_running_tool_ids={"b", "a"}, custom_metadata={"k": [1]}),
        event("partial", author="agent", partial=True),
        event("last", timestamp=13.0, branch="a.b", turn_complete=True),
    ]
    async with MaestroSessionService(**place) as service:
        for one in (service, memory):
            start = {"a": 0, "app:first": 1, "user:first": 2, "temp:gone": 3}
            session = await one.create_session(app_name="app", user_id="user/1", session_id=" s ", state=dict(start))
            assert (session.id, session.events) == ("s", [])
            for added in events:
                await one.append_event(session, added.model_copy(deep=True))
            assert session.state["temp:e"] == 5
            assert len(session.events) == 4
            other = await one.create_session(app_name="app", user_id="user/2")
            await one.append_event(other, event("other", timestamp=1.0))
        for config in (
            None,
            GetSessionConfig(num_recent_events=0),
            GetSessionConfig(num_recent_events=2),
            GetSessionConfig(num_recent_events=50),
            GetSessionConfig(after_timestamp=11.0),
            GetSessionConfig(after_timestamp=99.0),
            GetSessionConfig(after_timestamp=1.0),
            GetSessionConfig(num_recent_events=3, after_timestamp=12.0),
        ):
            ours, theirs = [await one.get_session(**KEY, config=config) for one in (service, memory)]
            assert plain(ours) == plain(theirs)
        assert ours.state == theirs.state
        assert await service.get_user_state(app_name="app", user_id="user/1") == {"first": 2, "c": {"d": None}}
        assert await service.get_user_state(app_name="app", user_id="nobody") == {}
        for user in ("user/1", "nobody"):
            lists = [(await one.list_sessions(app_name="app", user_id=user)).sessions for one in (service, memory)]
            assert [plain(one) for one in lists[0]] == [plain(one) for one in lists[1]]
        found = (await service.list_sessions(app_name="app")).sessions
        assert [(one.user_id, one.last_update_time, one.events) for one in found] == [
            ("user/2", 1.0, []),
            ("user/1", 13.0, []),
        ]
        assert (await service.list_sessions(app_name="none")).sessions == []


async def test_ids_are_taken_once(place):
    """Also when many come at once; what is not there is None, or not found."""
    async with MaestroSessionService(**place) as service, MaestroSessionService(**place) as other:
        assert await service.get_session(**KEY) is None
        assert await service.maestro_id(**KEY) is None
        await service.delete_session(**KEY)
        made = await asyncio.gather(
            *((service, other)[number % 2].create_session(**KEY) for number in range(10)), return_exceptions=True
        )
        assert sorted(isinstance(one, AlreadyExistsError) for one in made) == [False] + [True] * 9
        handle = next(one for one in made if isinstance(one, Session))
        await other.append_event(handle, event("hello"))
        await service.delete_session(app_name="app", user_id="user/1", session_id=" s ")
        assert await other.get_session(**KEY) is None
        for one in (other, service):
            with pytest.raises(SessionNotFoundError):
                await one.append_event(handle, event("too late"))
        assert await other.maestro_id(**KEY) is None
        assert (await other.list_sessions(app_name="app")).sessions == []
        assert (await service.create_session(**KEY)).events == []


async def test_an_event_for_a_deleted_session_begins_none(place):
    """So there is none to take away again, which might be the one that somebody else makes meanwhile."""
    async with MaestroSessionService(**place) as service, MaestroSessionService(**place) as other:
        gone = await service.create_session(**KEY)
        await other.delete_session(**KEY)

        async def begun(**_: Any) -> str:
            raise AssertionError("a session was begun")

        service._of(*KEY.values()).binding.ensure = begun
        with pytest.raises(SessionNotFoundError):
            await service.append_event(gone, event("too late"))
        assert (await other.create_session(**KEY)).events == []


async def test_a_session_that_goes_while_they_are_listed(place):
    """Is not among them, and nothing is raised; those of other apps and users with names alike are not either."""
    async with MaestroSessionService(**place) as service, MaestroSessionService(**place) as other:
        for app, user in (("app", "user/1"), ("app", "user/10"), ("app/user", "1"), ("app%2Fuser", "1"), ("app2", "")):
            state = {"app:a": app, "user:u": user}
            await service.create_session(app_name=app, user_id=user, session_id="s", state=state)
        await service.create_session(app_name="app", user_id="user/1", session_id="stays", state={"n": 1})
        read = service.kept_in

        async def late(*args: Any) -> Any:
            await other.delete_session(**KEY)
            return await read(*args)

        service.kept_in = late
        (found,) = (await service.list_sessions(app_name="app", user_id="user/1")).sessions
        assert (found.id, found.state) == ("stays", {"n": 1, "app:a": "app", "user:u": "user/1"})
        everybody = (await service.list_sessions(app_name="app")).sessions
        assert [(one.user_id, one.state["user:u"]) for one in everybody] == [("user/10",) * 2, ("user/1",) * 2]


async def test_an_equal_event_again_is_nothing(place):
    """Neither another entry nor another change; one that only has the same id is another event."""
    async with MaestroSessionService(**place) as service:
        session = await service.create_session(**KEY)
        first = event("one", delta={"n": 1, "app:n": 1}, id="same")
        await service.append_event(session, first)
        await service.append_event(session, event("two", delta={"n": 2, "app:n": 2}))
        await service.append_event(session, first.model_copy(deep=True))
        await service.append_event(session, event("another", id="same"))
        found = await service.get_session(**KEY)
        assert len(session.events) == len(found.events) == 3
        assert found.state == session.state == {"n": 2, "app:n": 2}


async def test_a_handle_that_is_behind_is_refused_or_not(place):
    """As the service was told: by revision, not by clock; what is refused changes nothing."""
    async with (
        MaestroSessionService(**place) as service,
        MaestroSessionService(on_conflict="reject", **place) as strict,
    ):
        await service.create_session(**KEY)
        ahead, behind = [await strict.get_session(**KEY) for _ in range(2)]
        await strict.append_event(ahead, event("one", timestamp=1.0))
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await strict.append_event(behind, event("two", timestamp=99.0, delta={"n": 1, "app:n": 1}))
        by_hand = ahead.model_copy(deep=True)
        by_hand._storage_update_marker = None
        await strict.append_event(ahead, event("three"))
        with pytest.raises(StaleSessionError):
            await strict.append_event(by_hand, event("four"))
        by_hand.events.append(ahead.events[-1])
        await strict.append_event(by_hand, event("five"))
        await service.append_event(behind, event("six"))
        found = await service.get_session(**KEY)
        assert [one.content.parts[0].text for one in found.events] == ["one", "three", "five", "six"]
        assert found.state == {}
    with pytest.raises(InvalidValue):
        MaestroSessionService(on_conflict="merge")


async def test_what_is_said_is_a_message(place):
    """Role, text, calls of tools and their results; the event is whole beside it."""
    call = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={"at": "é"}))
    result = types.Part(function_response=types.FunctionResponse(id="c1", name="look", response={"seen": "ü"}))
    async with MaestroSessionService(**place) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, event("hello"))
        for part in (call, result, types.Part(text="thinking", thought=True), types.Part(text="done")):
            content = types.Content(role="model", parts=[part])
            await service.append_event(session, Event(author="agent", content=content, id=Event.new_id()))
        found = await service.maestro.messages.since(ref="adk:app/user%2F1/s")
        assert [(one.role, one.content) for one in found] == [
            ("user", "hello"),
            ("assistant", ""),
            ("tool", '{"seen": "ü"}'),
            ("assistant", ""),
            ("assistant", "done"),
        ]
        assert found[1].tool_calls == [{"id": "c1", "name": "look", "arguments": {"at": "é"}}]
        assert found[0].metadata["adk"]["author"] == "user"
        await service.maestro.messages.add("user", "from a terminal", "adk:app/user%2F1/s")
        again = await service.get_session(**KEY, config=GetSessionConfig(num_recent_events=2))
        assert again.events == session.events[-2:]


@pytest.mark.parametrize("is_let_go", [False, True])
async def test_a_session_that_has_ended_goes_on(place, real, is_let_go):
    """Its events and all states as before, from the archive; the next event is in a fork."""
    async with MaestroSessionService(**place) as service:
        session = await service.create_session(**KEY, state={"a": 1, "app:b": 2, "user:c": 3})
        await service.append_event(session, event("hello", delta={"a": 2}))
        before = plain(await service.get_session(**KEY))
        ended = await service.maestro_id(**KEY)
        for row in await service.maestro.sessions.list():
            await service.maestro.sessions.end(row.id)
        if is_let_go:
            real.raw.flushall()

        assert plain(await service.get_session(**KEY)) == before
        (listed,) = (await service.list_sessions(app_name="app")).sessions
        assert listed.state == before["state"]
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**KEY)
        await service.append_event(session, event("more", delta={"user:c": 4}))
        found = await service.get_session(**KEY)
        assert [one.content.parts[0].text for one in found.events] == ["hello", "more"]
        assert found.state == {"a": 2, "app:b": 2, "user:c": 4}
        assert (await service.maestro.sessions.read(await service.maestro_id(**KEY))).forked_from == ended
        assert len((await service.list_sessions(app_name="app")).sessions) == 1

        await service.delete_session(**KEY)
        assert await service.get_user_state(app_name="app", user_id="user/1") == {"c": 4}
        assert (await service.create_session(**KEY)).state == {"app:b": 2, "user:c": 4}


async def test_what_json_has_no_form_for(place, caplog):
    """Is kept as ADK's own durable services keep it, and said as they do; bytes in an event come back as they were."""
    theirs = SqliteSessionService(":memory:")
    part = types.Part(inline_data=types.Blob(data=b"\xff\x00", mime_type="image/png"), thought_signature=b"\xfe")
    said = Event(id="e", author="agent", content=types.Content(parts=[part]), output={"o": [1]}, timestamp=2**31)
    states: list[dict[str, Any]] = []
    async with MaestroSessionService(**place) as service:
        for one in (service, theirs):
            start = {"at": datetime(2026, 1, 2, tzinfo=UTC), "set": {1}, "big": 2**70}
            session = await one.create_session(**KEY, state=start)
            assert not caplog.records
            await one.append_event(session, said.model_copy(deep=True))
            session = await one.get_session(**KEY)
            assert session.events == [said]
            await one.append_event(session, event(delta={"call": len, "user:call": len}, timestamp=2**31 + 1))
            assert [record.levelname for record in caplog.records][:1] == ["WARNING"]
            caplog.clear()
            states.append((await one.get_session(**KEY)).state)
    await theirs.close()
    assert states[0] == states[1]


async def test_sixteen_writers(place):
    """Every event is there once, and every change of every state."""
    services = [MaestroSessionService(**place) for _ in range(16)]
    await services[0].create_session(**KEY)

    async def write(number: int) -> None:
        handle = await services[number].get_session(**KEY)
        for turn in range(5):
            delta = {f"s{number}": turn, f"app:a{number}": turn, f"user:u{number}": turn}
            await services[number].append_event(handle, event(f"{number} {turn}", delta=delta))

    await asyncio.gather(*(write(number) for number in range(16)))
    found = await services[0].get_session(**KEY)
    assert len({one.content.parts[0].text for one in found.events}) == len(found.events) == 80
    wanted = {f"{scope}{number}": 4 for number in range(16) for scope in ("s", "app:a", "user:u")}
    assert found.state == wanted
    for service in services:
        await service.close()


def test_several_loops(place):
    """One object, in loops one after another and at once."""
    service = MaestroSessionService(**place)
    asyncio.run(service.create_session(**KEY))

    async def write(name: str) -> None:
        handle = await service.get_session(**KEY)
        for number in range(5):
            await service.append_event(handle, event(f"{name} {number}"))

    threads = [threading.Thread(target=asyncio.run, args=(write(str(number)),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asyncio.run(service.get_session(**KEY)).events) == 20
    asyncio.run(service.close())


async def test_a_long_state_is_made_short(place):
    """What it costs to read is its size, not how often it was changed."""
    async with MaestroSessionService(**place) as service:
        session = await service.create_session(**KEY)
        for number in range(130):
            await service.append_event(session, event(delta={"n": number, "user:n": number}))
        for key in ("adk:app/user%2F1/s", "adk:app/user%2F1"):
            kept = await service.binding("adk", key.removeprefix("adk:")).kept()
            assert len(kept["state"].splitlines()) < 70
            assert [name for name in kept if name.startswith(("owed", "paid"))] == []
        assert (await service.get_session(**KEY)).state == {"n": 129, "user:n": 129}


async def test_a_large_state_is_made_short(place, real):
    """Also by programs that add one event each; so that a line of the archive holds it."""
    for number in range(6):
        async with MaestroSessionService(**place) as service:
            session = await service.get_session(**KEY) or await service.create_session(**KEY)
            large = f"{number} " + "x" * (6 << 20)
            await service.append_event(session, event(delta={"large": large, "user:large": large}))
    async with MaestroSessionService(**place) as service:
        for key in ("app/user%2F1/s", "app/user%2F1"):
            kept = await service.binding("adk", key).kept()
            assert len(kept["state"]) < 20 << 20
        session_id = await service.maestro_id(**KEY)
        await service.maestro.sessions.end(session_id)
        for name in real.raw.scan_iter(f"*{session_id}*"):
            real.raw.delete(name)
        assert (await service.get_session(**KEY)).state == {"large": large, "user:large": large}


async def test_what_is_owed_is_paid(place):
    """Killed between an event and the app's state: whoever reads the session next makes the change, once."""
    async with MaestroSessionService(**place) as service, MaestroSessionService(**place) as other:
        session = await service.create_session(**KEY)

        async def killed(*args: Any) -> None:
            """Do nothing more."""

        service._pay = killed
        await service.append_event(session, event("one", delta={"app:n": 1}))
        assert await other._shared("app") == {}  # the fault bites
        assert (await other.get_session(**KEY)).state == {"app:n": 1}
        await other.append_event(session, event("two", delta={"app:n": 2}))
        assert (await other.get_session(**KEY)).state == {"app:n": 2}


async def test_addresses(place, monkeypatch, real):
    """As `adk web` gives them, with what else it passes along."""
    monkeypatch.chdir(real.project)
    for uri in ("maestro:", "maestro://", f"maestro:{real.project}", f"maestro://{real.project}"):
        async with MaestroSessionService(uri=uri, agents_dir="/agents", anything=1) as service:
            assert str(service.maestro.project.root) == str(real.project)
    with pytest.raises(InvalidValue):
        MaestroSessionService("redis://localhost")
