"""Changes that must not come undone, one of each kind: how to make it, and whether a server has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maestro_state import Maestro
from maestro_state.state.calls.claims import Ended
from tests.support.servers import Server, raw_call


@dataclass(frozen=True)
class Change:
    """One change that is ready to be made."""

    name: str
    make: Callable[[Maestro], object]
    key: str  #: the hash that tells whether it was made
    field: str
    before: bytes | None  #: what the field says until then

    def is_made(self, server: Server) -> bool:
        """Ask one server, past Maestro."""
        return raw_call(server, "HGET", self.key, self.field) != self.before


def prepare(maestro: Maestro, server: Server, number: int) -> list[Change]:
    """Return one change of each kind."""
    keys = maestro.server.terms.keys

    def change(name: str, make: Callable[[Maestro], object], key: str, field: str) -> Change:
        before = raw_call(server, "HGET", key, field)
        assert before is None or isinstance(before, bytes)
        return Change(name, make, key, field, before)

    def running(name: str) -> tuple[str, str]:
        session = maestro.sessions.start(f"{name} {number}", tool="echo")
        return session.id, maestro.runs.start("prompt", session.id).id

    ended = maestro.sessions.start(f"ended {number}").id
    aborted = maestro.sessions.start(f"aborted {number}").id
    written = maestro.sessions.start(f"written {number}").id
    finished, run = running("finished")
    claim = maestro.claims.claim(finished, run, f"owner {number}")
    canceled, waiting = running("canceled")
    work = maestro.work.start("planning").session_id
    discussion = maestro.discussions.start().session_id
    final = {"patch_operations": []}
    return [
        change("finalize", lambda m: m.sessions.end(ended), keys.of_session(ended, "session"), "state"),
        change("abort", lambda m: m.sessions.abort(aborted, reason="r"), keys.of_session(aborted, "session"), "state"),
        change("archive", lambda m: m.archive.checkpoint(written), keys.of_session(written, "session"), "archived_id"),
        change("finish run", lambda m: m.claims.finish(claim, Ended(status="success")),
               keys.of_session(finished, "runs"), f"{run}:status"),
        change("cancel run", lambda m: m.runs.cancel(waiting, canceled), keys.of_session(canceled, "runs"),
               f"{waiting}:status"),
        change("end work", lambda m: m.work.end(work), keys.of_work(work, "session"), "state"),
        change("discussion", lambda m: m.discussions.done(final, discussion), keys.discussion(discussion)[0], "state"),
    ]  # fmt: skip
