"""A hundred terminals write into one session at once, and everybody who looks sees the same."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.programs import python
from tests.support.waiting import wait_until

PROCESSES, TERMINALS, MESSAGES = 10, 10, 50
ALL = PROCESSES * TERMINALS * MESSAGES

pytestmark = pytest.mark.xdist_group("busy")


def resume_often(maestro, session_id, events, stop_at):
    """Follow in short looks, each going on after the last event seen."""
    while len(events) < stop_at:
        after = events[-1].id if events else "start"
        for event in maestro.follow.events(session_id, cursor=after, until_idle_ms=5):
            events.append(event)
            if len(events) % 97 == 0:
                break  # leaves in the middle of what was read


def test_nothing_is_lost_doubled_or_seen_in_another_order(real, tmp_path):
    """5000 of 5000 messages, each terminal's in order, and one order for early, late and resuming readers."""
    with real.open() as maestro, ExitStack() as stack:
        session = maestro.sessions.start("crowded")
        early = [stack.enter_context(python(tmp_path, "follow", real.project, session.id, "start")) for _ in range(2)]
        crowds = [
            stack.enter_context(python(tmp_path, "crowd", real.project, session.id, f"p{number}", TERMINALS, MESSAGES))
            for number in range(PROCESSES)
        ]
        messages = maestro.server.terms.keys.of_session(session.id, "messages")
        wait_until(lambda: real.raw.xlen(messages) >= ALL // 5, "nobody writes")
        late = stack.enter_context(python(tmp_path, "follow", real.project, session.id, "start"))
        resumed: list = []
        resume_often(maestro, session.id, resumed, ALL + 1)
        for crowd in crowds:
            crowd.finish(60.0)
        maestro.sessions.end(session.id)
        resumed += maestro.follow.events(session.id, cursor=resumed[-1].id)
        for follower in (*early, late):
            follower.finish(60.0)

        stored = maestro.messages.since(None, session.id)
        assert len(stored) == ALL
        by_terminal: dict[str, list[int]] = {}
        for message in stored:
            terminal, number = message.content.split(":")
            by_terminal.setdefault(terminal, []).append(int(number))
        assert len(by_terminal) == PROCESSES * TERMINALS
        assert all(numbers == list(range(MESSAGES)) for numbers in by_terminal.values())

        whole = [f"{event.id} {event.type} {event.data.get('content', '')}" for event in resumed]
        assert [line.split()[0] for line in whole[1:-1]] == [message.id for message in stored]
        assert [line.split()[1] for line in (whole[0], whole[-1])] == ["session.started", "session.finalized"]
        for follower in (*early, late):
            assert [line.rstrip() for line in follower.lines()] == [line.rstrip() for line in whole]


def test_plain_read_and_write_loses(real):
    """Control: two that read the list, add to it and write it back lose each other's messages."""
    first, second = real.raw.get("list") or b"", real.raw.get("list") or b""
    real.raw.set("list", first + b"1", ex=60)
    real.raw.set("list", second + b"2", ex=60)
    assert real.raw.getdel("list") == b"2"
