"""Events over HTTP while everything they come from is killed: once, in one order, for everybody (RELIABILITY 44)."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path

import httpx2
import pytest

from maestro_state import Maestro
from maestro_state.local import embedded
from maestro_state.models.message import id_order
from tests.support.followers import Told, parsed
from tests.support.served import Served, serving, started
from tests.support.waiting import wait_until

FOLLOWERS, ROUNDS, MESSAGES = 8, 3, 15
HOSTILE = "</script><script>alert(1)</script>\r\n\r\nevent: session.aborted\ndata: {}\n\nid: 9999999999999-0\n\n"

pytestmark = [pytest.mark.usefixtures("served"), pytest.mark.xdist_group("busy")]


class Comer(threading.Thread):
    """Follows a stream as a browser does: when the line is lost it comes back, with the id it saw last or without."""

    def __init__(self, url: str, path: str, *, remembers: bool = True, start: str = "start") -> None:
        super().__init__(daemon=True)
        self.url, self.path, self.remembers, self.start_from = url, path, remembers, start
        self.told: list[Told] = []
        self.last: str | None = None
        self.visits = 0
        self.is_done = threading.Event()

    def run(self) -> None:
        """Follow until told not to come back, or asked to stop."""
        pause = threading.Event()
        while not self.is_done.is_set():
            headers = {"last-event-id": self.last} if self.last and self.remembers else {}
            try:
                with (
                    httpx2.Client(base_url=self.url, timeout=60, trust_env=False) as client,
                    client.stream("GET", self.path, params={"from": self.start_from}, headers=headers) as answer,
                ):
                    if answer.status_code == 204:
                        return
                    self.visits += 1
                    for event in parsed(self._noted(answer.iter_lines())):
                        self.told.append(event)
            except (httpx2.TransportError, httpx2.StreamError):
                pass
            pause.wait(0.05)

    def _noted(self, lines):
        """Note the id that was seen last: of what came whole, because only that is told."""
        seen = self.last
        for line in lines:
            if self.is_done.is_set():
                return
            if line.startswith("id: "):
                seen = line[4:]
            yield line
            if not line:
                self.last = seen


def killed(project: Path) -> None:
    """Kill the state server; the next call starts it again."""
    os.kill(embedded.status(project).pid or 0, signal.SIGKILL)


def _has(comers: list[Comer], text: str) -> bool:
    return all(any(one.data.get("content") == text for one in comer.told) for comer in comers)


def test_every_event_once_while_both_servers_are_killed(project: Path):
    """Whoever says what was seen last misses nothing and gets nothing twice; the control, who does not, misses some."""
    session_id = started(project)
    path = f"/v1/sessions/{session_id}/events"
    port, comers, forgetful = 0, [], None
    with Maestro(project) as maestro:
        for round_ in range(ROUNDS):
            if round_:
                killed(project)
                maestro.messages.add("user", f"while nobody served {round_}", session_id)
            with serving(project, "--no-web", port=port) as server:
                port = server.port
                if forgetful is None:
                    comers = [Comer(server.url, path) for _ in range(FOLLOWERS)]
                    forgetful = Comer(server.url, path, remembers=False, start="now")
                    for comer in (*comers, forgetful):
                        comer.start()
                for number in range(MESSAGES):
                    maestro.messages.add("user", f"{round_}.{number} {HOSTILE}", session_id)
                    if number == MESSAGES // 2:
                        killed(project)
                last = f"{round_}.{MESSAGES - 1} {HOSTILE}"
                wait_until(partial(_has, comers, last), "all were told")
                wait_until(lambda at=round_, one=forgetful: one.visits > at, "the control came back")
                if round_ < ROUNDS - 1:
                    server.kill()
                    continue
                maestro.sessions.end(session_id)
                for comer in comers:
                    comer.join(60)
                    assert not comer.is_alive()
                forgetful.is_done.set()
        expected = [(one.id, one.type) for one in maestro.follow.events(session_id, cursor="start")]
    end = next(at for at, (_, kind) in enumerate(expected) if kind == "session.finalized") + 1
    for comer in comers:
        assert [(one.id, one.type) for one in comer.told] == expected[:end]
        assert comer.visits >= ROUNDS
    missed = {f"while nobody served {round_}" for round_ in range(1, ROUNDS)}
    assert not missed & {one.data.get("content") for one in forgetful.told}


def _rows(comer: Comer) -> dict[str, str]:
    return {one.data["id"]: one.data.get("state", one.type) for one in comer.told}


def test_what_changes_anywhere_is_told_once_over_kills_of_both(project: Path):
    """The stream of all sessions goes on where it was: no place twice, in order, and it ends with how things are."""
    first = started(project, "first")
    port, comer = 0, None
    with Maestro(project) as maestro:
        for round_ in range(ROUNDS):
            with serving(project, "--no-web", port=port) as server:
                port = server.port
                if comer is None:
                    comer = Comer(server.url, "/v1/events")
                    comer.start()
                    wait_until(lambda one=comer: one.last, "the first rows came, and their place")
                ids = [maestro.sessions.start(f"s{round_}-{number}").id for number in range(4)]
                killed(project)
                maestro.context.add("a text", ref=ids[0], kind="text")
                wait_until(lambda wanted=ids, one=comer: set(wanted) <= set(_rows(one)), "new ones were told")
                server.kill()
            away = maestro.sessions.start(f"away-{round_}").id
        with serving(project, "--no-web", port=port):
            wait_until(lambda: away in _rows(comer), "what changed while nobody served was told")
            maestro.sessions.end(first)
            wait_until(lambda: _rows(comer)[first] == "finalizada", "the end was told")
            maestro.sessions.delete(first)
            wait_until(lambda: _rows(comer)[first] == "session.removed", "that it is gone was told")
            comer.is_done.set()
    places = [id_order(one.id) for one in comer.told if one.id]
    assert places == sorted(set(places))
    assert comer.visits > ROUNDS


def test_a_place_that_is_not_kept_any_more_begins_anew(project: Path):
    """Who was away for too long is told all rows; who was not, only what changed."""
    ids = [started(project, name) for name in ("one", "two")]
    with Maestro(project) as maestro, serving(project, "--no-web") as server, server.client() as client:
        place = maestro.follow.newest_change()
        third = maestro.sessions.start("three").id
        assert _first(client, place, 1) == [third]
        changes = maestro.server.terms.keys.change[0]
        maestro.server.connection.call("XTRIM", changes, "MAXLEN", 1)
        assert set(_first(client, place, 3)) == {*ids, third}


def _first(client: httpx2.Client, place: str, count: int) -> list[str]:
    with client.stream("GET", "/v1/events", headers={"last-event-id": place}) as answer:
        told = parsed(answer.iter_lines())
        return [next(told).data["id"] for _ in range(count)]


def test_slow_readers_cost_little(project: Path):
    """Who does not read is let go and held up nobody; what is kept for all of them is one bounded piece of memory."""
    session_id = started(project)
    with Maestro(project) as maestro, serving(project, "--no-web") as server:
        reader = Comer(server.url, f"/v1/sessions/{session_id}/events")
        reader.start()
        wait_until(lambda: reader.told, "it follows")
        before = _memory_kb(server)
        silent = [_silent(server.port, session_id) for _ in range(50)]
        text = "x" * 100_000
        for number in range(250):
            maestro.messages.add("user", f"{number} {text}", session_id)
        wait_until(lambda: len(reader.told) == 251, "the one that reads was told everything")
        grown = _memory_kb(server) - before
        maestro.sessions.end(session_id)
        reader.join(60)
        for line in silent:
            line.close()
    places = [one.id for one in reader.told]
    assert len(places) == len(set(places)) == 252
    # Fifty times what each of them did not read would be over a gigabyte.
    assert grown < 200_000


def _memory_kb(server: Served) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def _silent(port: int, session_id: str):
    from tests.support.followers import silent_follower

    line = silent_follower(port, session_id)
    line.recv(1)  # it is served
    return line
