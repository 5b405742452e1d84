"""Heartbeats: they go on until they are ended, whatever goes wrong in between, which is said once."""

from __future__ import annotations

import threading

import pytest
from maestro_workers import heartbeat

from maestro_state.errors import ServerUnavailable
from tests.support.waiting import wait_until


class _Log:
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, event: str, *, reason: str) -> None:
        """Keep one line."""
        self.said.append(f"{event} {reason}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> _Log:
    """Return what hears the complaints; heartbeats come as fast as they can."""
    log = _Log()
    monkeypatch.setattr(heartbeat, "_log", log)
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.001)
    return log


def test_each_outage_is_said_once_and_heartbeats_go_on(log: _Log):
    """A server that is away is tried again and again, and complained of once until it was back."""
    given = []

    def give() -> None:
        given.append(len(given))
        if len(given) % 10 < 5:
            raise ServerUnavailable("away")

    running = heartbeat.Heartbeat(give)
    wait_until(lambda: len(given) > 24, "it beats")
    running.end()
    count = len(given)

    away = [number for number in range(1, count + 1) if number % 10 < 5]
    assert len(log.said) == sum(number - 1 not in away for number in away)
    assert set(log.said) == {"not_tended away"}
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
    assert len(given) == count


def test_a_heartbeat_that_hangs_is_left_behind_and_is_the_last(log: _Log, monkeypatch: pytest.MonkeyPatch):
    """Whoever ends it does not wait for a server for ever."""
    monkeypatch.setattr(heartbeat, "END_S", 0.01)
    given, go_on = [], threading.Event()

    def give() -> None:
        given.append(True)
        go_on.wait(30)

    running = heartbeat.Heartbeat(give)
    wait_until(lambda: given, "a heartbeat is under way")
    running.end()
    assert [thread for thread in threading.enumerate() if thread.name == "heartbeat"]  # control: it hangs
    go_on.set()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "heartbeat"], "it is gone")
    assert given == [True]
    assert log.said == []
