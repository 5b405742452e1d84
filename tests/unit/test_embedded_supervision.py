"""The small decisions around the embedded stack: pauses between restarts, reasons, fields of INFO."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from maestro_workers.pool.children import FIRST_PAUSE_S, LONGEST_PAUSE_S, WELL_AFTER_S
from maestro_workers.stack.services import Keeper

from maestro_state.local.embedded.probe import read_info
from maestro_state.local.embedded.server import last_reason


@dataclass
class FakeService:
    """A service whose life the test decides."""

    name: str = "fake"
    alive: bool = False
    starts: int = 0
    broken: bool = False
    stopped: list[float] = field(default_factory=list)

    def start(self) -> None:
        """Start, unless it is broken."""
        if self.broken:
            raise FileNotFoundError(2, "No such file or directory")
        self.starts += 1
        self.alive = True

    def stop(self, timeout_s: float) -> None:
        """Remember that it was stopped."""
        self.stopped.append(timeout_s)

    def is_alive(self) -> bool:
        """Say what the test said."""
        return self.alive


def test_a_service_is_started_at_once_and_left_alone_while_it_lives():
    """The first look starts it, the next ones do nothing."""
    service = FakeService()
    keeper = Keeper(service, lambda _: None)
    for now_s in range(5):
        keeper.tend(float(now_s))
    assert service.starts == 1


def test_each_restart_waits_twice_as_long_up_to_a_limit():
    """A service that keeps dying is started more and more rarely."""
    service, now_s, pauses = FakeService(), 0.0, []
    keeper = Keeper(service, lambda _: None)
    keeper.tend(now_s)
    for _ in range(10):
        service.alive = False
        pauses.append(keeper.tend(now_s))
        now_s += pauses[-1]
        keeper.tend(now_s)
    assert service.starts == 11
    assert pauses[:3] == [FIRST_PAUSE_S, FIRST_PAUSE_S * 2, FIRST_PAUSE_S * 4]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_service_that_lived_long_is_restarted_quickly_again():
    """One that was well for a while starts over with the shortest pause."""
    service = FakeService()
    keeper = Keeper(service, lambda _: None)
    keeper.tend(0.0)
    service.alive = False
    keeper.tend(1.0)
    keeper.tend(1.0 + FIRST_PAUSE_S)
    service.alive = False
    assert keeper.tend(2.0 + FIRST_PAUSE_S + WELL_AFTER_S) == FIRST_PAUSE_S


def test_a_service_that_cannot_start_is_logged_and_tried_again():
    """A missing program does not end the supervisor."""
    service, lines = FakeService(broken=True), []
    keeper = Keeper(service, lines.append)
    assert keeper.tend(0.0) == FIRST_PAUSE_S
    assert lines == ["service_not_started name=fake reason=No such file or directory"]
    service.broken = False
    keeper.tend(FIRST_PAUSE_S)
    assert service.starts == 1


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (b"", ""),
        (b"\n  \n", ""),
        (b"1:M 1 Jan * Ready\n1:M 1 Jan # Can't open x: y\n1:M 1 Jan * more\n", "Can't open x: y"),
        (b"1:M 1 Jan # broken\n1:M 1 Jan # Valkey is now ready to exit, bye bye...\n", "broken"),
        (b"1:M 1 Jan # broken\n1:M 1 Jan # WARNING Memory overcommit\n", "broken"),
        (b"plain \x1b[31mred\x07 \xff text", "plain [31mred � text"),
        (b"x" * 1000, "x" * 300),
    ],
)
def test_the_reason_is_the_last_warning_as_clean_text(log, reason):
    """What a server says last is one short line without control characters."""
    assert last_reason(log) == reason


def test_info_is_read_field_by_field():
    """Headings and blank lines are left out, values keep their colons."""
    text = b"# Server\r\nvalkey_version:9.1.2\r\n\r\nexecutable:/a:b\r\n"
    assert read_info(text) == {"valkey_version": "9.1.2", "executable": "/a:b"}
