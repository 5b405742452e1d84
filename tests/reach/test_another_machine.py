"""An agent that comes back after a month, on another machine: the server forgot it, the team's archive did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.local.embedded import socket_path
from tests.support.cli_runs import printed
from tests.support.framework_agents import ALL, ids, refs


@pytest.mark.parametrize("kind", ALL, ids=ids)
async def test_it_goes_on_there(shop, raw, tmp_path: Path, kind):
    """Pulled by its key: reads as it was, gone on with in a fork; and the first machine finds what was said there."""
    url = f"unix://{socket_path(shop.project)}"
    here, there = {"project": shop.project, "redis_url": url}, {"project": tmp_path, "redis_url": url}
    (tmp_path / ".maestro").mkdir()
    env = {"MAESTRO_REDIS_URL": url}
    shop.start_worker()
    for turn in range(2):  # the second time the key has several archives
        agent = kind(**here)
        await agent.say(turn)
        for ref in refs(kind):
            printed(shop.project, "--session", ref, "session", "end", env=env)
        assert await agent.read() == list(range(turn + 1))
        await agent.store.close()
        raw.delete(*(key for key in raw.keys("maestro:*") if b"--" in key or b"binding" in key))
    agent = kind(**there)
    assert await agent.read() == []  # the control: that machine has nothing yet

    *_, done = [printed(tmp_path, "pull", ref, env=env) for ref in refs(kind)]
    assert await agent.read() == [0, 1]
    await agent.say(2)
    assert await agent.read() == [0, 1, 2]
    with Maestro(**there) as maestro:
        assert maestro.sessions.read(kind.ref).forked_from == done["session_id"]
        bound = [row.document()["bound"] for row in maestro.sessions.list() if row.bound_to and not row.archived]
        assert dict(zip(("kind", "key"), kind.ref.split(":", 1), strict=True)) in bound
    await agent.store.close()
    again = kind(**here)
    assert await again.read() == [0, 1, 2]
    await again.store.close()
