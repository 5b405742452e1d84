"""Any order of events in the life of sessions agrees with a plain model: on a fake server by the thousand,
and on a real one that is killed in between. A failure prints its steps and a blob that repeats them.
"""

from __future__ import annotations

import os

import fakeredis
import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from maestro_state import Maestro
from maestro_state.errors import SessionExpired
from maestro_state.net.own_client import connection_of
from tests.property.session_machine import SessionLife
from tests.property.session_model import Modelled
from tests.support.servers import valkey


def lives(examples: int, steps: int) -> settings:
    """Return how many lives of how many steps are tried: ten times as many when new ones are looked for."""
    return settings(
        max_examples=examples * (10 if os.environ.get("TEST_EXPLORE") else 1),
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )


def on_fake(most: int) -> type[SessionLife]:
    """Return lives on a fake server."""
    server = fakeredis.FakeServer(version=(7,))
    # One connection for all lives: a Lua machine of its own for each would take most of the time.
    connection = connection_of(fakeredis.FakeRedis(server=server))

    class OnFake(SessionLife):
        raw = fakeredis.FakeRedis(server=server)
        most_sessions = most

        def connect(self) -> None:
            self.maestro = Maestro(self.project, now_ms=self.clock)
            self.maestro.server.connection = connection

    return OnFake


@pytest.mark.parametrize(("most", "count"), [(1, 120), (6, 80)])
def test_lives_on_a_fake_server(most, count):
    """200 lives of 30 steps agree with the model: those of one session, and those of several."""
    run_state_machine_as_test(on_fake(most), settings=lives(count, 30))


def test_lives_on_a_real_server_that_is_killed(tmp_path):
    """Lives in which the server is killed and started again agree with the same model."""
    # As the embedded server is set up: written before it is answered, whatever the disk does meanwhile.
    written = ["--appendfsync", "no"]
    with valkey(tmp_path, args=written) as server, redis.Redis(unix_socket_path=server.socket) as raw:
        kills = []

        class OnReal(SessionLife):
            def connect(self) -> None:
                self.raw = raw
                self.maestro = Maestro(self.project, now_ms=self.clock, redis_url=server.url)

            @rule()
            def crash(self) -> None:
                """The server is killed and started again; a client that is connected notices only a pause."""
                server.restart()
                kills.append(1)

        run_state_machine_as_test(OnReal, settings=lives(25, 30))
        assert kills


def test_what_differs_from_the_model_is_found_out(monkeypatch):
    """Control: a vanished message, a forgotten index and a model without expiry make the comparison fail."""
    life = on_fake(6)()
    life.begin()
    session_id = life.start(name="fix", ttl=600)
    life.add_message(session_id=session_id, content="hello")
    keys = life.maestro.server.terms.keys
    life.look(session_id=session_id)
    kept = life.raw.dump(keys.of_session(session_id, "messages"))
    life.raw.delete(keys.of_session(session_id, "messages"))
    with pytest.raises(AssertionError):
        life.look(session_id=session_id)
    life.raw.restore(keys.of_session(session_id, "messages"), 60_000, kept)
    life.raw.hdel(keys.of_index("summaries", session_id), session_id)
    with pytest.raises(AssertionError):
        life.list_all()
    life.pass_time(seconds=600)
    life.add_message(session_id=session_id, content="refused, as the model says")
    monkeypatch.setattr(Modelled, "refusal", lambda self, now: None)
    with pytest.raises(SessionExpired):
        life.add_message(session_id=session_id, content="the model expects it to be taken")
    life.model.clear()
    life.maestro.sessions.delete(session_id)
    life.teardown()
