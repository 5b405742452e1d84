"""Commands that come after a session's time was over: what they say, and what is on disk then."""

from __future__ import annotations

import json

import pytest

from maestro_state import Maestro
from maestro_state.clock import iso
from maestro_state.local.embedded import socket_path
from tests.support.cli_runs import maestro_command
from tests.support.passing import TTL_S, let_pass, long_ago


@pytest.fixture
def over(real):
    """Return a session of a project whose time was over while nothing of its stack ran, and when that was."""
    clock = long_ago()
    with Maestro(real.project, now_ms=clock) as then:
        session = then.sessions.start("over", ttl_seconds=TTL_S)
        then.messages.add("user", "kept")
        then.archive.checkpoint()
        let_pass(real.raw, then, session.id)
        assert not real.raw.exists(then.server.terms.keys.of_session(session.id, "session"))
    return session.id, iso(clock.now_ms + TTL_S * 1000)


def test_the_next_command_freezes_and_says_so(real, over):
    """`session end` refuses with one line that names the time and the way on; the next one says the state."""
    session_id, at = over
    # No stack: its sweep would be another one who notices.
    address = {"MAESTRO_REDIS_URL": f"unix://{socket_path(real.project)}"}

    def command(*words):
        return maestro_command(real.project, *words, env=address)

    first = command("session", "end")
    assert first.returncode == 4
    assert f"is frozen: its time was over at {at}" in first.stderr
    assert f"maestro session fork {session_id} NEW" in first.stderr
    assert first.stderr.count("\n") <= 2
    record = json.loads((real.project / ".maestro/sessions" / session_id / "session.json").read_text())
    assert (record["state"], record["finalized_at"]) == ("finalizada", at)
    again = command("session", "end")
    assert again.returncode == 4
    assert "finalizada" in again.stderr
    assert f"maestro session fork {session_id} NEW" in again.stderr
    listed = json.loads(command("session", "list", "--json").stdout)["sessions"]
    assert [(row["state"], row["finalized_at"]) for row in listed] == [("finalizada", at)]
    forked = command("session", "fork", session_id, "on")
    assert forked.returncode == 0, forked.stderr
    messages = json.loads(command("messages", "--json").stdout)["messages"]
    assert [message["content"] for message in messages] == ["kept"]
