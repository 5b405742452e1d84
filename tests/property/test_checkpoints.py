"""Whatever happens to a session between checkpoints, they leave the archive that is written in one go."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from maestro_state import Maestro
from maestro_state._sync.source import Live
from maestro_state.errors import ArchiveFailed, MaestroError, WorkFailed
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.models.message import id_order
from maestro_state.models.run import Usage
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls.claims import LEASE_MS, SUSPICION_MS, Claim, Ended
from maestro_state.upkeep.checkpoint import Checkpoints
from maestro_state.vocabulary import FROZEN
from tests.support.backends import Backend, Clock

#: What can happen, and what happens more often than other things.
KINDS = (
    *("message", "field", "text", "same_text", "file", "remove", "run", "preview", "claim", "print", "usage", "finish"),
    *("fail", "cancel", "lose", "promote", "tool", "stranger", "save", "restore", "behind"),
)
OFTEN = ("checkpoint", "checkpoint", "run", "claim", "print", "print", "finish")
#: With the number of an item or run that it happens to, counted from the newest.
STEPS = st.tuples(st.sampled_from([*KINDS, *OFTEN, *OFTEN]), st.integers(0, 2))

#: One life in which all of it happens.
FULL = (
    *("text", "same_text", "file", "remove", "same_text", "run", "claim", "print", "checkpoint", "usage", "print"),
    *("finish", "stranger", "checkpoint", "promote", "run", "claim", "print", "checkpoint", "lose", "checkpoint"),
    *("preview", "field", "tool", "stranger", "run", "claim", "print", "save", "print", "same_text", "checkpoint"),
    *(
        "restore",
        "behind",
        "message",
        "print",
        "text",
        "checkpoint",
        "finish",
        "run",
        "claim",
        "fail",
        "run",
        "cancel",
    ),
    *("cancel", "checkpoint", "message"),
)

#: How often each has happened.
DONE: Counter[str] = Counter()


class Life:
    """One session, and what is done to it."""

    def __init__(self, maestro: Maestro, backend: Backend, clock: Clock) -> None:
        self.maestro, self.project, self.raw, self.clock = maestro, backend.project, backend.raw, clock
        self.session_id = maestro.sessions.start("life", tool="echo").id
        self.items: list[str] = []
        self.runs: list[str] = []
        self.claims: dict[str, tuple[Claim, bytes]] = {}
        self.strangers: dict[Path, str] = {}
        self.saved: dict[str, bytes] = {}
        self.was_restored = False
        #: Messages and events that were archived, by their ids.
        self.archived: dict[str, dict[str, bytes]] = {layout.MESSAGES: {}, layout.EVENTS: {}}
        self.count = 0

    def step(self, what: str, back: int) -> None:
        """Do one thing; one that the session does not allow now is no step."""
        self.count += 1
        self.clock.advance(seconds=0.3)
        if what == "checkpoint":
            self.checkpoint()
            return
        with suppress(MaestroError):
            getattr(self, what)(back)
            DONE[what] += 1

    def message(self, back: int) -> None:
        self.maestro.messages.add("user", f"number {self.count}" * (back + 1))

    def field(self, back: int) -> None:
        self.maestro.sessions.set("preferences", {"count": self.count})

    def tool(self, back: int) -> None:
        self.maestro.tools.use("echo")

    def text(self, back: int) -> None:
        added = self.maestro.context.add(f"text {self.count}", kind="text")
        self.items += [item.id for item in added.items]

    def same_text(self, back: int) -> None:
        added = self.maestro.context.add("always the same", kind="text")
        self.items += [item.id for item in added.items]

    def file(self, back: int) -> None:
        path = self.project / f"file-{back}.txt"
        path.write_text(f"version {self.count}")
        self.items += [item.id for item in self.maestro.context.add(str(path)).items]
        path.write_text(f"after {self.count}")
        self.items += [item.id for item in self.maestro.context.refresh().items]

    def remove(self, back: int) -> None:
        self.maestro.context.remove(self.items[-1 - back % len(self.items)] if self.items else "ctx-0001")

    def run(self, back: int) -> None:
        self.runs.append(self.maestro.runs.start(f"prompt {back}", retries=back).id)

    def preview(self, back: int) -> None:
        self.runs.append(self.maestro.runs.start("look", dry=True).id)

    def _chosen(self, back: int) -> str:
        return self.runs[-1 - back % len(self.runs)] if self.runs else "0001"

    def claim(self, back: int) -> None:
        run_id = self._chosen(back)
        self.claims[run_id] = (self.maestro.claims.claim(self.session_id, run_id, "me"), b"")

    def print(self, back: int) -> None:
        run_id = self._chosen(back)
        claim, printed = self._claim_of(run_id)
        data = f"{run_id} said {self.count}\n".encode() * (back + 1)
        self.maestro.claims.add_outputs(claim, len(printed), [data])
        self.claims[run_id] = (claim, printed + data)

    def _claim_of(self, run_id: str) -> tuple[Claim, bytes]:
        if run_id not in self.claims:
            raise WorkFailed("nobody has it")
        return self.claims[run_id]

    def usage(self, back: int) -> None:
        self.maestro.claims.renew(self._claim_of(self._chosen(back))[0], Usage(tokens_input=self.count))

    def finish(self, back: int, status: str = "success") -> None:
        claim, printed = self._claim_of(self._chosen(back))
        ended = Ended(status=status, exit_code=0, size=len(printed), digest=layout.sha256(printed))
        del self.claims[self._chosen(back)]
        self.maestro.claims.finish(claim, ended)

    def fail(self, back: int) -> None:
        self.finish(back, "error")

    def cancel(self, back: int) -> None:
        self.maestro.runs.cancel(self._chosen(back))

    def lose(self, back: int) -> None:
        """The owner of a run says nothing more: it is put back, or given up."""
        for wait_ms in (LEASE_MS + 1, SUSPICION_MS + 1):
            self.clock.advance(seconds=wait_ms / 1000)
            self.maestro.claims.recover_run(self.session_id, self._chosen(back))

    def promote(self, back: int) -> None:
        self.items.append(self.maestro.context.use_output("last").items[0].id)

    def stranger(self, back: int) -> None:
        """Somebody puts a file of their own into the archive, or takes it away again."""
        folder = self.project / ".maestro/sessions" / self.session_id
        path = (folder / "NOTES.md", folder / "exports/mine.md", folder / "runs/mine.txt")[back]
        if self.strangers.pop(path, None) is not None:
            path.unlink()
        elif not path.parent.is_dir():
            raise WorkFailed("there is no archive yet")
        else:
            self.strangers[path] = f"mine {self.count}"
            path.write_text(self.strangers[path])

    def save(self, back: int) -> None:
        """Remember the server's state, as a replica that lags behind has it."""
        keys = self.maestro.server.terms.keys.session(self.session_id)
        self.saved = {key: self.raw.dump(key) for key in keys if self.raw.exists(key)}

    def restore(self, back: int) -> None:
        """The server loses what came after; owners of runs repeat what it does not have."""
        if not self.saved:
            raise WorkFailed("nothing was saved")
        self.raw.delete(*self.maestro.server.terms.keys.session(self.session_id))
        for key, value in self.saved.items():
            self.raw.restore(key, 10**9, value)
        self.was_restored = True
        self.runs = [run.id for run in self.maestro.runs.list()]
        for run_id, (claim, printed) in [*self.claims.items()]:
            with suppress(MaestroError):
                has = len(self.maestro.runs.output(run_id))
                self.maestro.claims.add_outputs(claim, has, [printed[has:]] if printed[has:] else [])

    def behind(self, back: int) -> None:
        """From now on somebody writes whose clock is some seconds behind."""
        self.clock.advance(seconds=-5)

    def checkpoint(self) -> None:
        self.message(0)  # what has no event, such as a heartbeat, is archived with the next one that has
        with ExitStack() as stack:
            if self.was_restored:
                # Behind since: what the archive has is kept as it is until the session gets further, or ends.
                stack.enter_context(suppress(ArchiveFailed))
            assert self.maestro.archive.checkpoint().current
            self.compare()

    def compare(self) -> None:
        """Hold the archive against one that is written from nothing."""
        apart = self.project / "apart"
        apart.mkdir(exist_ok=True)
        home = Home.below(str(apart), f"x-{self.count:010x}")
        checkpoints = Checkpoints(self.maestro.server, self.maestro.archive._places)
        checkpoints._write(Live(self.maestro.server, self.session_id), home, fresh=True)
        wanted = contents(Path(home.path_of(self.session_id)))
        found = contents(self.project / ".maestro/sessions" / self.session_id)
        theirs = {str(path.relative_to(self.project / ".maestro/sessions" / self.session_id)): text.encode()
                  for path, text in self.strangers.items()}  # fmt: skip
        for name, archived in self.archived.items():
            here, there = ({layout.id_of_line(line): line for line in files.get(name, b"").splitlines()}
                           for files in (found, wanted))  # fmt: skip
            archived |= there
            if self.was_restored:  # what the archive has it keeps, though the server lost it, each at its place
                assert here == archived
                assert [*here] == sorted(here, key=id_order)
                found[name] = wanted[name] = b""
            archived |= here
        assert sorted(found) == sorted(wanted | theirs)
        assert found == wanted | theirs
        assert self.maestro.archive.verify(self.session_id).ok


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file but the manifest, which counts generations."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del found[layout.MANIFEST]
    # Lines before a run's new beginning, or of one that has none yet, are of a given-up try: readers skip them.
    lines = [json.loads(line) for line in found.pop(layout.CHUNKS, b"").splitlines()]
    begins = {line["run"]: number for number, line in enumerate(lines) if line.get("anew")}
    found[layout.CHUNKS] = b"".join(
        layout.json_line({name: line[name] for name in ("id", "run", "size")})
        for number, line in enumerate(lines)
        if number >= begins.get(line["run"], 0) and f"runs/{line['run']}/output.txt" in found
    )
    return found


def test_checkpoints_leave_what_is_written_in_one_go(real: Backend):
    """Messages, items, runs, retries, promotions, strangers' files: byte by byte, after every checkpoint."""
    examples = 25 * (10 if os.environ.get("TEST_EXPLORE") else 1)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @example(steps=[(what, 0) for what in FULL])
    @given(steps=st.lists(STEPS, min_size=30, max_size=70))
    def lives(steps: list[tuple[str, int]]) -> None:
        clock = Clock()
        with real.open(now_ms=clock) as maestro:
            life = Life(maestro, real, clock)
            for what, back in steps:
                life.step(what, back)
            life.checkpoint()
            maestro.sessions.abort(reason="over")
            assert maestro.sessions.status(life.session_id).session.state in FROZEN
            life.compare()

    lives()
    assert DONE.keys() == set(KINDS)  # control: each was possible at least once


def test_most_checkpoints_read_only_what_changed(real: Backend, monkeypatch):
    """Control: the comparison above is one of two ways to read, not of one with itself."""
    whole: list[bool] = []
    original = Live.moment

    def moment(self, before=None):
        found = original(self, before)
        whole.append(found.is_whole)
        return found

    monkeypatch.setattr(Live, "moment", moment)
    with real.open() as maestro:
        maestro.sessions.start("life", tool="echo")
        for number in range(4):
            maestro.messages.add("user", str(number))
            maestro.runs.start("p", dry=True)
            maestro.archive.checkpoint()
        assert whole == [True, False, False, False]
        monkeypatch.setattr(archiving, "CHANGES_MAX", 2)
        for _ in range(3):
            maestro.runs.start("p", dry=True)
        maestro.archive.checkpoint()
        assert whole[-1]


def test_a_server_that_was_restored_is_read_whole(real: Backend):
    """What the archive had of the history that is gone goes with it, as soon as the session goes on."""
    clock = Clock()
    with real.open(now_ms=clock) as maestro:
        life = Life(maestro, real, clock)
        for what in ("text", "run", "claim", "print", "finish", "checkpoint"):
            life.step(what, 0)
        keys = maestro.server.terms.keys.session(life.session_id)
        saved = {key: real.raw.dump(key) for key in keys if real.raw.exists(key)}
        for what in ("run", "claim", "print", "finish", "text", "checkpoint"):
            life.step(what, 0)
        folder = real.project / ".maestro/sessions" / life.session_id
        assert (folder / "runs/0002/output.txt").exists()  # control: it was there
        real.raw.delete(*keys)
        for key, value in saved.items():
            real.raw.restore(key, 10**9, value)
        with pytest.raises(ArchiveFailed, match="goes further"):
            maestro.archive.checkpoint()
        for what in ("text", "text"):
            life.step(what, 0)
        assert maestro.archive.checkpoint().current
        assert not (folder / "runs/0002").exists()
        record = layout.decode_record((folder / layout.RECORD).read_bytes())
        assert [run.id for run in record.runs] == ["0001"]
        assert record.items == Live(maestro.server, life.session_id).items()
        assert maestro.archive.verify(life.session_id).ok
