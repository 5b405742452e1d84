"""What a framework deletes is nowhere: not on the server, not in its log, not in archives, caches and logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from maestro_state import Maestro
from tests.support.canary import KEYS, Canary
from tests.support.cli_runs import printed
from tests.support.embedded_project import supervisors
from tests.support.waiting import wait_until

#: Says something in a framework's session; returns the id of the session and what deletes it.
Told = tuple[str, Callable[[], Awaitable[None]]]


async def of_langgraph(project: Path, word: str, keep: Callable[[Any], Any]) -> Told:
    """Put a checkpoint of a thread."""
    from langgraph.checkpoint.base import empty_checkpoint

    from maestro_state.adapters.langgraph import MaestroSaver

    saver = keep(MaestroSaver(project=project))
    where = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
    made = empty_checkpoint() | {"channel_values": {"said": word}, "channel_versions": {"said": 1}}
    where = await saver.aput(where, made, {"step": 1, "source": "loop"}, made["channel_versions"])
    await saver.aput_writes(where, [("said", word)], "task")
    return await saver.amaestro_id("thread"), lambda: saver.adelete_thread("thread")


async def of_adk(project: Path, word: str, keep: Callable[[Any], Any]) -> Told:
    """Append an event, which also changes the state of the session."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    from maestro_state.adapters.adk import MaestroSessionService

    service, key = keep(MaestroSessionService(project=project)), {"app_name": "app", "user_id": "user"}
    session = await service.create_session(**key, session_id="one")
    said = types.Content(role="user", parts=[types.Part(text=word)])
    await service.append_event(
        session, Event(author="user", content=said, actions=EventActions(state_delta={"a": word}))
    )
    return await service.maestro_id(**key, session_id="one"), lambda: service.delete_session(**key, session_id="one")


async def of_claude(project: Path, word: str, keep: Callable[[Any], Any]) -> Told:
    """Append an entry of a transcript."""
    from maestro_state.adapters.claude_agent import MaestroSessionStore

    store, key = keep(MaestroSessionStore(project=project)), {"project_key": "p", "session_id": "one"}
    said = {"role": "user", "content": word}
    await store.append(key, [{"type": "user", "uuid": "u1", "timestamp": "2026-01-01T00:00:00Z", "message": said}])
    return await store.maestro_id(key), lambda: store.delete(key)


@pytest.mark.parametrize("tell", [of_langgraph, of_adk, of_claude])
async def test_what_a_framework_deletes_is_nowhere(project, tell):
    """Once the private server's log was written anew, at the latest when the stack was stopped."""
    canary, opened = Canary(project), []

    def keep(adapter: Any) -> Any:
        opened.append(adapter)
        return adapter

    session, delete = await tell(project, canary.word, keep)
    with Maestro(project) as maestro:
        canary.fill(maestro, session)
        assert canary.places() == {"server", "sessions", "cache", KEYS}
        await delete()
        assert canary.places() == {"server"}  # the control: deleting alone leaves the server's log
        wait_until(lambda: supervisors(project), "somebody looks after the stack")
    for adapter in opened:
        await adapter.close()
    assert printed(project, "stack", "stop") == {"stopped": True}
    assert canary.places() == set()
