"""`maestro watch`: a session as it happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, pass_app
from maestro_cli.screen.conversation import Conversation
from maestro_state.errors import MaestroError, ServerUnavailable

if TYPE_CHECKING:
    from maestro_state import Event
    from maestro_state.models.run import Run

#: Longest time to wait for an event, in seconds: a year.
_LONGEST_S = 366 * 24 * 3600
#: How often it is polled whether the checkout is still on the session, in seconds.
_POLL_S = 1.0


@click.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option("--from", "cursor", metavar="ID", help="start, or the event to continue after (default: from now on).")
@click.option("--until-idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Exit after so long without one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document for each event, on a line of its own.")
@pass_app
def watch(app: App, ref: str | None, cursor: str | None, until_idle: float | None, as_json: bool) -> int:
    """Follow a session live.

    It reads like a conversation: who asked what, what the tool does meanwhile, its answer, how it ended. Lines of a run
    begin with its number, so that several at once can be told apart. Every event is shown once, in the same order in
    every terminal. Of runs that are open already it is said who asked what, and shown what they do from now on. Ctrl-C
    exits; the session goes on.

    \b
    Example:
      maestro watch --from start
    """
    if until_idle is not None and not until_idle <= _LONGEST_S:  # "nan" is a float too, and below nothing
        raise click.UsageError(f"--until-idle takes at most {_LONGEST_S} seconds, not {until_idle}")
    session = app.maestro.sessions.read(ref)
    session_id = session.id
    output.note(f"watching {session_id} (Ctrl-C exits)")
    until_idle_ms = None if until_idle is None else max(1, int(until_idle * 1000))
    last = cursor or app.maestro.follow.newest(session_id)
    is_pinned = bool(ref or app.session_ref or app.maestro.settings.session)
    runs = _Runs(app, session_id)
    shown = Conversation(runs, session.user_id)
    is_own = app.maestro.settings.redis_url is None
    app.only_watch()
    if cursor is None and not as_json:
        for line in (line for run in runs.open() for line in shown.join(run)):
            output.line(line)
    try:
        with _told_of_another(app, session_id, wanted=not (is_pinned or as_json)):
            for event in _events(app, session_id, last, until_idle_ms, is_own=is_own):
                last = event.id
                if as_json:
                    output.json_line(event.document())
                    continue
                for line in shown.take(event):
                    output.line(line)
    except KeyboardInterrupt:
        if not as_json:
            output.note(f"\nleft; go on with: maestro watch {session_id} --from {last}")
        return 130
    for line in [] if as_json else shown.rest():
        output.line(line)
    return 0


def _events(
    app: App, session_id: str, cursor: str | None, until_idle_ms: int | None, *, is_own: bool
) -> Iterator[Event]:
    """Yield the events of a session; while the embedded stack is stopped, wait until somebody starts it again."""
    while True:
        try:
            for event in app.maestro.follow.events(
                session_id, cursor=cursor, until_idle_ms=until_idle_ms, terminal=app.terminal()
            ):
                cursor = event.id
                yield event
        except ServerUnavailable:
            if not is_own:
                raise
            if not _await_stack(app, until_idle_ms):
                return
        else:
            return


def _await_stack(app: App, until_idle_ms: int | None) -> bool:
    """Wait until the stack runs again, without starting it; False when that takes longer than there is to wait."""

    from maestro_state.local.embedded import is_running

    output.warning("the stack was stopped; watching goes on when a command starts it again (Ctrl-C exits)")
    until_s = None if until_idle_ms is None else time.monotonic() + until_idle_ms / 1000
    while not is_running(app.maestro.project.root):
        if until_s is not None and time.monotonic() >= until_s:
            return False
        time.sleep(_POLL_S / 2)
    output.warning("the stack is back")
    return True


@contextmanager
def _told_of_another(app: App, session_id: str, *, wanted: bool) -> Iterator[None]:
    """Say when this checkout is put on another session: who named none expects to watch the active one."""
    if not wanted:
        yield
        return
    over = threading.Event()
    polling = threading.Thread(target=_poll, args=(app, session_id, over), daemon=True)
    polling.start()
    try:
        yield
    finally:
        over.set()
        polling.join()


def _poll(app: App, session_id: str, over: threading.Event) -> None:
    said = session_id
    while not over.wait(_POLL_S):
        try:
            active = app.maestro.project.active()
        except (MaestroError, OSError):
            continue  # being written, or damaged: commands that need it say so
        if active == said:
            continue
        said = active or ""
        if active == session_id:
            output.warning(f"{session_id}, which you watch, is this checkout's active session again")
        elif active:
            output.warning(f"the active session is now {active}; you still watch {session_id} → maestro watch")


class _Runs:
    """The runs of the watched session, each asked for as rarely as it can be."""

    def __init__(self, app: App, session_id: str) -> None:
        self._app = app
        self._session_id = session_id
        self._known: dict[str, Run] | None = None

    def open(self) -> list[Run]:
        """Return the runs that are not over, oldest first."""
        from maestro_state.models.run import OPEN

        self.read("")
        return [run for run in (self._known or {}).values() if run.status in OPEN]

    def read(self, run_id: str) -> Run | None:
        """Return a run as it stands; None when there is none any more."""
        from maestro_state.models.run import OPEN

        try:
            if self._known is None:  # one call for all that were there before
                self._known = {run.id: run for run in self._app.maestro.runs.list(self._session_id)}
            elif run_id not in self._known or self._known[run_id].status in OPEN:
                self._known[run_id] = self._app.maestro.runs.read(run_id, self._session_id)
        except MaestroError:
            return None  # gone, or out of reach: whoever follows will say it
        return self._known.get(run_id)

    def prompt(self, run: Run) -> bytes:
        """Return what was asked; its beginning where that is all there is."""
        try:
            return self._app.maestro.runs.prompt(run, self._session_id)
        except MaestroError:
            return (run.prompt_preview or "").encode()
