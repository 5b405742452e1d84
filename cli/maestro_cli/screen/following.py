"""Following one run in the terminal that asked for it: output as it comes, a quiet line of status, Ctrl-C."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from maestro_cli import output
from maestro_cli.screen.interrupts import Interrupts

if TYPE_CHECKING:
    from maestro_cli.app import App
    from maestro_state.models.message import Event
    from maestro_state.models.run import Run

#: Seconds a run may wait before it is said that there is no worker,
_TIMEOUT_S = 5.0
#: and where the stack brings its own: on a busy machine that one is still starting, and nobody has to do anything.
_OWN_WORKER_S = 60.0
#: What a run waits for that nobody is before.
_SOON = "waiting for a worker"
#: Seconds a run may wait behind others before a program that follows it is told.
_QUEUED_S = 2.0


def follow(app: App, run: Run, *, quiet: bool) -> Run | None:
    """Show a run until it ends and return it; None when it was detached from. `quiet` prints no output."""
    cursor: str | None = None
    screen = _Screen(app, run)
    with Interrupts() as interrupts:
        while True:
            try:
                with screen:
                    for event in app.maestro.runs.follow(run, cursor=cursor):
                        cursor = event.id
                        screen.take(event, quiet=quiet)
                return app.maestro.runs.read(run.id)
            except KeyboardInterrupt:
                if not interrupts.wants_cancel(run.id):
                    output.warning(f"run {run.id} goes on (maestro show {run.id}, maestro cancel {run.id})")
                    return None
                _cancel(app, run)


def _cancel(app: App, run: Run) -> None:
    from maestro_state.errors import RunIsOver

    try:
        app.maestro.runs.cancel(run.id)
    except RunIsOver:
        return  # it was faster


class _Screen:
    """What is on the terminal: output, and below it, while nothing comes, how long it has been going."""

    def __init__(self, app: App, run: Run) -> None:
        self._app = app
        self._run = run
        self._since = time.monotonic()
        self._claimed = False
        self._warned = False
        self._at_line_start = True
        self._drawn = False
        self._doing = ""
        self._told_retry = False
        self._told_state = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._has_line = sys.stderr.isatty()
        self._timeout_s = _OWN_WORKER_S if app.maestro.settings.redis_url is None else _TIMEOUT_S

    def __enter__(self) -> Self:
        self._over.clear()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._ticker.join()
        with self._lock:
            self._erase()
            if kind is None and output.is_terminal() and not self._at_line_start:
                output.line()

    def take(self, event: Event, *, quiet: bool) -> None:
        """Show what an event brings."""
        with self._lock:
            if event.type == "run.claimed":
                self._claimed = True
            elif event.type == "run.requeued" and not quiet:
                self._erase()
                output.warning("its worker was lost; it starts over")
            elif event.type == "run.activity":
                self._on_activity(event.data, quiet=quiet)
            elif event.type == "run.output" and not quiet:
                self._erase()
                data = event.output()
                output.raw(data)
                self._at_line_start = data.endswith(b"\n")

    def _on_activity(self, data: dict[str, Any], *, quiet: bool) -> None:
        """Show what the agent does in the status line; where there is none, only that it has to try again."""
        kind, summary = str(data.get("kind", "")), str(data.get("summary", ""))
        said = f"trying again: {summary}" if kind == "retry" else f"{data.get('name', '')} {summary}"
        self._doing = f" · {output.safe(said).strip()}"
        if self._has_line:
            self._draw(int(time.monotonic() - self._since), "running", "")
        elif kind == "retry" and not quiet and not self._told_retry:
            self._told_retry = True
            output.warning(f"run {self._run.id}: {said}")

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            waited_s = time.monotonic() - self._since
            if self.is_overdue(waited_s):
                self._warn_if_alone()
            state = "running" if self._claimed else self._waits()
            if self._has_line:
                tokens = self._tokens()
                with self._lock:
                    self._draw(int(waited_s), state, tokens)
            elif state != self._told_state and not self._claimed and waited_s >= _QUEUED_S and state != _SOON:
                self._told_state = state
                more = "MAESTRO_WORKERS says how many there are" if "ahead" in state else "maestro workers"
                with self._lock:
                    output.warning(f"run {self._run.id} is {state} ({more})")

    def is_overdue(self, waited_s: float) -> bool:
        """Tell whether it is time to ask if there is a worker at all."""
        return not self._claimed and not self._warned and waited_s >= self._timeout_s

    def _waits(self) -> str:
        """Say what the run waits for, and how many are before it."""
        from maestro_state.errors import MaestroError

        try:
            ahead = self._app.maestro.runs.ahead(self._run.id)
            missing = self._app.maestro.runs.waits_for(self._run.id) if ahead is None else None
        except MaestroError:
            ahead = missing = None  # whoever follows will say it
        if missing is not None:
            return f"waiting for {missing}, and none is there"
        return _SOON if ahead is None else f"waiting for a free worker, {ahead} ahead"

    def _tokens(self) -> str:
        """Say what the tool has consumed so far, if it told."""
        from maestro_state.errors import MaestroError

        try:
            usage = self._app.maestro.runs.read(self._run.id).usage if self._claimed else None
        except MaestroError:
            return ""  # whoever follows will say it
        counts = [] if usage is None else [(usage.tokens_input, "in"), (usage.tokens_output, "out")]
        told = ", ".join(f"{number} {way}" for number, way in counts if number is not None)
        return f" · {told} tokens" if told else ""

    def _warn_if_alone(self) -> None:
        from maestro_state.errors import MaestroError

        self._warned = True
        try:
            if self._app.maestro.runs.workers():
                return
        except MaestroError:
            return  # whoever follows will say it
        # A stack of one's own brings workers: why it has none, doctor says.
        more = "maestro doctor" if self._app.maestro.settings.redis_url is None else "maestro worker"
        with self._lock:
            self._erase()
            output.warning(f"no worker is listening: the run waits until one does ({more})")

    def _draw(self, seconds: int, what: str, tokens: str) -> None:
        if not self._at_line_start or self._over.is_set():
            return
        tool = output.clip(output.safe(self._run.tool), 30)
        text = output.clip(
            f"{self._run.id} {tool} · {what} · {seconds} s{tokens}{self._doing}", output.screen_columns() - 1
        )
        sys.stderr.write(f"\r\x1b[2K{output.dimmed(text)}")
        sys.stderr.flush()
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False
