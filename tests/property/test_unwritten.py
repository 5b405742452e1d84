"""Whatever the archive lacks is in the index of unwritten changes from the moment that the change is acknowledged."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from maestro_workers.stack.sweeps import has_all_on_disk

from maestro_state import Maestro, Terminal
from maestro_state.errors import MaestroError
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.state import scripts
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls.terminals import attach_terminal
from tests.property.test_checkpoints import Life
from tests.support.backends import Backend, Clock

CHANGES = (
    *("message", "field", "tool", "text", "same_text", "file", "remove", "run", "preview", "claim", "print", "usage"),
    *("finish", "fail", "cancel", "lose", "promote", "look"),
)
WRITES = ("sync", "sweep", "sync_before_mark", "sync_before_index")
STEPS = st.tuples(st.sampled_from([*CHANGES, *WRITES, *WRITES, *WRITES]), st.integers(0, 2), st.sampled_from([0, 0.3]))
FULL = [
    (what, 0, 0)
    for change in (
        *CHANGES,
        "run",
        "claim",
        "usage",
        "print",
        "finish",
        "promote",
        "run",
        "claim",
        "fail",
        "run",
        "cancel",
    )
    for what in ("sync", change)
] + [(what, 0, 0.3) for what in ("message", "sweep", "text", "sync_before_mark", "sync_before_index", "text")]

DONE: Counter[str] = Counter()


class Watched(Life):
    """One session of which it is looked at after every step whether the index knows what the archive lacks."""

    other: Maestro

    def look(self, back: int) -> None:
        """A terminal comes: activity, and nothing that the archive would have."""
        server = self.maestro.server
        me = Terminal("me", "here", f"tty{back}", "2027-01-01T00:00:00.000+00:00")
        server.change(self.session_id, attach_terminal(server.terms, server.stamp(), self.session_id, me))

    def sync(self, back: int) -> None:
        self.maestro.archive.checkpoint()

    def sweep(self, back: int) -> None:
        self.maestro.archive.sweep()

    def sync_before_mark(self, back: int) -> None:
        """Somebody changes it when all is written and about to be marked."""
        query = archiving.read_time().command
        with before(self.maestro.server, "fetch", lambda one: one.command == query, self.meanwhile):
            self.maestro.archive.checkpoint()

    def sync_before_index(self, back: int) -> None:
        """Somebody changes it between the mark and its way into the index."""
        with before(self.maestro.server, "run", lambda one: one.script.name == "index_session", self.meanwhile):
            self.maestro.archive.checkpoint()

    def meanwhile(self) -> None:
        self.other.messages.add("user", "meanwhile", self.session_id)

    def do(self, what: str, back: int, seconds: float) -> None:
        self.count += 1
        self.clock.advance(seconds=seconds)
        with suppress(MaestroError):
            getattr(self, what)(back)
            DONE[what] += 1
        assert self.is_known(), what

    def is_known(self) -> bool:
        """Tell whether the index has it when the archive lacks something."""
        keys = self.maestro.server.terms.keys
        last_id, archived_id = self.raw.hmget(keys.of_session(self.session_id, "session"), "last_id", "archived_id")
        dirty = keys.of_index("dirty", self.session_id)
        return last_id == archived_id or self.raw.zscore(dirty, self.session_id) is not None


@contextmanager
def before(server: Any, name: str, fits: Callable[[Any], bool], action: Callable[[], None]) -> Iterator[None]:
    """Have something happen right before a call of the server's."""
    original = getattr(server, name)

    def wrapped(one: Any) -> Any:
        if fits(one):
            action()
        return original(one)

    setattr(server, name, wrapped)
    try:
        yield
    finally:
        setattr(server, name, original)


@contextmanager
def life_on(backend: Backend) -> Iterator[Watched]:
    clock = Clock()
    with backend.open(now_ms=clock) as maestro, backend.open(now_ms=clock) as other:
        life = Watched(maestro, backend, clock)
        life.other = other
        yield life


def test_what_the_archive_lacks_is_known_as_unwritten(real: Backend):
    """After every step of any sequence of changes, checkpoints and sweeps; and one more sweep leaves nothing."""

    @settings(max_examples=25 * (10 if os.environ.get("TEST_EXPLORE") else 1), suppress_health_check=list(HealthCheck))
    @example(steps=FULL)
    @given(steps=st.lists(STEPS, min_size=10, max_size=40))
    def lives(steps: list[tuple[str, int, float]]) -> None:
        with life_on(real) as life:
            for what, back, seconds in steps:
                life.do(what, back, seconds)
            assert has_all_on_disk(life.maestro)
            key = life.maestro.server.terms.keys.of_session(life.session_id, "session")
            manifest = ArchivedSession(life.maestro.archive._places.own, life.session_id).manifest()
            assert manifest is not None
            assert manifest.last_id == real.raw.hget(key, "last_id").decode()

    lives()
    assert DONE.keys() == {*CHANGES, *WRITES}  # control: each was possible at least once


def test_a_throttled_first_change_would_not_be_known(real: Backend, monkeypatch: pytest.MonkeyPatch):
    """Control: with the index renewed once a second at most, what is added right after a checkpoint is lost to it."""
    original = scripts._read
    rule = "if admitted.is_first_unwritten then return true end"
    read = lambda *parts: original(*parts).replace(rule, "")  # noqa: E731
    assert rule in original("includes", "renew_ttl.lua")
    monkeypatch.setattr(scripts, "_read", read)
    scripts.load.cache_clear()
    try:
        with life_on(real) as life:
            for what in ("text", "sync"):
                life.do(what, 0, 0)
            with pytest.raises(AssertionError, match="text"):
                life.do("text", 0, 0)
    finally:
        monkeypatch.undo()
        scripts.load.cache_clear()


def test_a_change_whose_maker_died_before_indexing_it_is_found_before_a_stop(real: Backend):
    """A killed terminal leaves a change that no index has: stopping looks at the sessions themselves."""
    with life_on(real) as life:
        life.do("sync", 0, 0)
        life.maestro.server.note = lambda *_: None
        life.message(0)
        assert not life.is_known()  # control: the index does not know
        del life.maestro.server.note
        assert has_all_on_disk(life.maestro)
        last_id, archived_id = real.raw.hmget(
            life.maestro.server.terms.keys.of_session(life.session_id, "session"), "last_id", "archived_id"
        )
        assert last_id == archived_id
