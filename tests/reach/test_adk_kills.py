"""A program that is killed while it adds events leaves every one whole that it was told of; ADK's own tools find us."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from google.adk.cli.service_registry import get_service_registry, load_services_module
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService

from maestro_state.adapters.adk import MaestroSessionService

DOCUMENT = (Path(__file__).parents[2] / "docs" / "adk.md").read_text()

PROGRAM = """
import asyncio, sys
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from maestro_state.adapters.adk import MaestroSessionService

async def main():
    service = MaestroSessionService(project=sys.argv[1])
    session = await service.get_session(app_name="app", user_id="user", session_id="s")
    for number in range(100_000):
        name = f"{sys.argv[2]}-{number}"
        delta = {name: number, f"app:{name}": number, f"user:{name}": number}
        await service.append_event(session, Event(id=name, author="agent", actions=EventActions(state_delta=delta)))
        print(name, flush=True)

asyncio.run(main())
"""


def _killed_after(events: int, *args: str) -> list[str]:
    """Have a program add events and kill it; returns what it was told of by then."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *args], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().decode().strip() for _ in range(events)]
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL  # the fault bites: it had 100 000 to add
    return told


async def test_a_kill_between_any_two_steps(place):
    """Of each event all changes are made, of the session, the app and the user; or it is not there."""
    key = {"app_name": "app", "user_id": "user", "session_id": "s"}
    told: list[str] = []
    async with MaestroSessionService(**place) as service:
        await service.create_session(**key)
        for turn in range(4):
            told += await asyncio.to_thread(_killed_after, 5 + turn, str(place["project"]), str(turn))
            found = await service.get_session(**key)
            names = [one.id for one in found.events]
            assert set(told) <= set(names)
            assert len(names) == len(set(names))
            assert found.state.keys() == {scope + name for name in names for scope in ("", "app:", "user:")}


def test_adk_web_finds_it(place, tmp_path):
    """By the lines that the document says, with what `adk` passes along."""
    (lines,) = re.findall(r"^    services:\n(?:^    +.*\n)+", DOCUMENT, re.MULTILINE)
    (tmp_path / "services.yaml").write_text(textwrap.dedent(lines))
    load_services_module(str(tmp_path))
    service = get_service_registry().create_session_service(f"maestro:{place['project']}", agents_dir=str(tmp_path))
    assert isinstance(service, MaestroSessionService)
    asyncio.run(service.create_session(app_name="app", user_id="user", session_id="s"))
    asyncio.run(service.close())


async def test_the_migration_note(place):
    """As it stands in the document; of what sessions share, the last word counts and not the last session's."""
    (lines,) = re.findall(r"^    for row in .*?(?=^\S)", DOCUMENT, re.DOTALL | re.MULTILINE)
    old, keys = InMemorySessionService(), [{"app_name": "shop", "user_id": "u", "session_id": one} for one in "ab"]
    sessions = [await old.create_session(**key, state={"a": 1, "user:b": 2}) for key in keys]
    for number, session in enumerate((sessions[0], sessions[1], sessions[0])):
        delta = {"n": number} if number == 2 else {"n": number, "app:n": number, "user:b": number}
        event = Event(id=str(number), author="user", timestamp=1.0 + number, actions=EventActions(state_delta=delta))
        await old.append_event(session, event)
    async with MaestroSessionService(**place) as new:
        names = {"old": old, "new": new}
        exec("async def copy():\n" + textwrap.indent(textwrap.dedent(lines), "    "), names)
        await names["copy"]()
        for key in keys:
            found = [await one.get_session(**key) for one in (new, old)]
            assert found[0].model_dump() == found[1].model_dump()
        assert len((await new.list_sessions(app_name="shop")).sessions) == len(keys)
