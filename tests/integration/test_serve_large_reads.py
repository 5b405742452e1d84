"""Reads of much: made beside the event loop, which answers others meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maestro_state import AsyncMaestro
from maestro_state.serve.handlers import messages
from maestro_state.serve.schemas.contents import MessagesQuery

LOOP = threading.main_thread()


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    ("query", "is_beside"),
    [
        ({}, False),
        ({"last": 100}, False),
        ({"last": 101}, True),
        ({"since": "start"}, True),
        ({"for_model": True}, True),
    ],
    ids=str,
)
async def test_many_messages_are_read_beside_the_loop(
    project: Path, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any], is_beside: bool
):
    """Those that may be many, with the same answer; a few are read at once, as the control shows."""
    encoders: list[threading.Thread] = []
    document = messages.document

    def noted(value: Any) -> Any:
        encoders.append(threading.current_thread())
        return document(value)

    monkeypatch.setattr(messages, "document", noted)
    async with AsyncMaestro(project) as maestro:
        session_id = (await maestro.sessions.start("long")).id
        first = await maestro.messages.add("user", "one", session_id)
        await maestro.messages.add("assistant", "two", session_id)
        asked = {**query, "since": first.id} if "since" in query else query
        request: Any = SimpleNamespace(query=MessagesQuery(**asked), maestro=maestro, ref=session_id)
        answer = await messages.read_messages(request)
        assert (b'"two"' in answer.body, b'"one"' in answer.body) == (True, "since" not in query)
    assert [thread is not LOOP for thread in encoders] == [is_beside]
