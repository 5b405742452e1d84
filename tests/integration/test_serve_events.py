"""Events over HTTP: once, in order, from any place on; over kills of the server, slow readers and the end."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path

import httpx2
import pytest

from maestro_state import Maestro
from tests.support.followers import Told, events, parsed, silent_follower
from tests.support.served import serving, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("served")


class Follower(threading.Thread):
    """Follows to the end, coming back whenever the line is lost."""

    def __init__(self, url: str, session_id: str) -> None:
        super().__init__(daemon=True)
        self.url, self.session_id = url, session_id
        self.told: list[Told] = []
        self.visits = 0
        self.final_status = 0

    def run(self) -> None:
        pause = threading.Event()
        while True:
            last = self.told[-1].id if self.told else None
            try:
                with httpx2.Client(base_url=self.url, timeout=60, trust_env=False) as client:
                    for event in events(client, self.session_id, last):
                        self.told.append(event)
            except (httpx2.TransportError, AssertionError) as error:
                if str(error).startswith("204"):
                    self.final_status = 204
                    return
                pause.wait(0.05)
            self.visits += 1


def _all_told(followers: list[Follower], count: int) -> bool:
    return all(len(one.told) >= count for one in followers)


def test_every_event_once_over_kills_of_the_server(project: Path):
    """Followers see all events in one order, whoever was killed meanwhile, and are told not to come back at the end."""
    session_id = started(project)
    port, followers = 0, []
    with Maestro(project) as maestro:
        for round_ in range(3):
            with serving(project, port=port) as server:
                port = server.port
                if not followers:
                    followers = [Follower(server.url, session_id) for _ in range(5)]
                    for follower in followers:
                        follower.start()
                for number in range(20):
                    maestro.messages.add("user", f"{round_}.{number}", session_id)
                seen = 1 + 20 * (round_ + 1)
                wait_until(partial(_all_told, followers, seen), "all were told")
                if round_ < 2:
                    server.kill()
                    continue
                maestro.sessions.end(session_id)
                for follower in followers:
                    follower.join(60)
        expected = [(one.id, one.type) for one in maestro.follow.events(session_id, cursor="start")]
    for follower in followers:
        found = [(one.id, one.type) for one in follower.told]
        assert found == expected[: len(found)]
        assert found[-1][1] == "session.finalized"
        assert (follower.final_status, follower.visits >= 2) == (204, True)


def test_where_to_begin_and_where_it_ends(project: Path):
    """From the start, from now, after an id; an ended session is told once more, or not at all."""
    session_id = started(project)
    with Maestro(project) as maestro, serving(project) as server, server.client() as client:
        first = maestro.messages.add("user", "one", session_id).id
        second = maestro.messages.add("user", "two", session_id).id
        stream = events(client, session_id)
        assert [next(stream).type for _ in range(3)] == ["session.started", "message.added", "message.added"]
        stream.close()
        stream = events(client, session_id, start=first)
        assert next(stream).id == second
        stream.close()
        assert client.get(f"/v1/sessions/{session_id}/events", params={"from": "x"}).status_code == 400
        assert client.get("/v1/sessions/none--aaaaaa/events").status_code == 404
        maestro.sessions.end(session_id)
        told = list(events(client, session_id, last_id=first))
        assert [one.type for one in told] == ["message.added", "session.finalized"]
        again = client.get(f"/v1/sessions/{session_id}/events", headers={"last-event-id": told[-1].id})
        assert (again.status_code, again.content) == (204, b"")
        assert client.get(f"/v1/sessions/{session_id}/events").status_code == 204


@pytest.mark.parametrize("path", ["/v1/sessions/{}/events", "/v1/events"])
def test_who_begins_now_and_loses_the_line_misses_nothing(project: Path, path: str):
    """There is an id to come back with before there is any event."""
    session_id = started(project)
    path = path.format(session_id)
    with Maestro(project) as maestro, serving(project) as server, server.client() as client:
        with client.stream("GET", path, params={"from": "now"}) as answer:
            lines = answer.iter_lines()
            place = next(line.removeprefix("id: ") for line in lines if line.startswith("id: "))
        added = maestro.messages.add("user", "while nobody was there", session_id)
        with client.stream("GET", path, params={"from": "now"}, headers={"last-event-id": place}) as answer:
            told = next(parsed(answer.iter_lines()))
        if "sessions" in path:
            assert (told.id, told.type) == (added.id, "message.added")
        else:
            assert (told.data["id"], told.type) == (session_id, "session.changed")


def test_a_silent_reader_holds_up_nobody_and_is_let_go(project: Path):
    """One that reads nothing is cut off; the others get everything meanwhile."""
    session_id = started(project)
    with Maestro(project) as maestro, serving(project) as server:
        silent = silent_follower(server.port, session_id)
        heard = b""
        while b"message.added" not in heard:  # it is among those who are told what comes
            maestro.messages.add("user", "are you there?", session_id)
            heard += silent.recv(1 << 16)
        follower = Follower(server.url, session_id)
        follower.start()
        text = "x" * 100_000
        for number in range(300):
            maestro.messages.add("user", f"{number} {text}", session_id)
        wait_until(lambda: len(follower.told) >= 302, "the other one was told everything")
        follower_ids = [one.id for one in follower.told]
        assert follower_ids == sorted(set(follower_ids), key=lambda one: tuple(map(int, one.split("-"))))
        silent.settimeout(60)
        size = 0
        try:
            while piece := silent.recv(1 << 16):
                size += len(piece)
        except ConnectionResetError:
            pass
        assert size < 300 * 100_000
        silent.close()
        maestro.sessions.end(session_id)
        follower.join(60)


def test_a_stop_tells_followers_to_come_back(project: Path):
    """The line ends properly, with how soon to try again, and the process exits with 0."""
    session_id = started(project)
    with serving(project) as server, server.client() as client:
        path = f"/v1/sessions/{session_id}/events"
        with client.stream("GET", path, params={"from": "start"}) as answer:
            lines = answer.iter_lines()
            while "session.started" not in next(lines):
                pass
            os.kill(server.process.pid, signal.SIGTERM)
            assert "retry: 500" in list(lines)
        assert server.process.wait(60) == 0


def test_the_overview_tells_of_every_session(project: Path):
    """Rows of all sessions first, then of those that change."""
    ids = {started(project, "one"), started(project, "two")}
    with Maestro(project) as maestro, serving(project) as server, server.client() as client:
        stream = client.stream("GET", "/v1/events")
        told = parsed(stream.__enter__().iter_lines())
        assert {next(told).data["id"] for _ in ids} == ids
        third = maestro.sessions.start("three").id
        assert next(told).data["id"] == third
        stream.__exit__(None, None, None)
