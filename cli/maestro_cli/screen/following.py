"""Following one run in the terminal that asked for it: output as it comes, a quiet line of status, Ctrl-C."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from maestro_cli import output
from maestro_cli.screen.interrupts import Interrupts
from maestro_cli.screen.unclaimed import Unclaimed, warn_if_alone

if TYPE_CHECKING:
    from maestro_cli.app import App
    from maestro_state.models.message import Event
    from maestro_state.models.run import Run


def follow(app: App, run: Run, *, quiet: bool) -> Run | None:
    """Show a run until it ends and return it; None when it was detached from. `quiet` prints no output."""
    cursor: str | None = None
    screen = _Screen(app, run, told_alone=warn_if_alone(app))
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

    def __init__(self, app: App, run: Run, *, told_alone: bool = False) -> None:
        self._app = app
        self._run = run
        self._since = time.monotonic()
        self._claimed = False
        self._at_line_start = True
        self._drawn = False
        self._doing = ""
        self._told_retry = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._has_line = sys.stderr.isatty()
        self._unclaimed = Unclaimed(app, run.id, told_alone=told_alone)

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
            state = "running" if self._claimed else self._unclaimed.state()
            if not self._claimed:
                self._say_what_keeps_it(waited_s, state)
            if self._has_line:
                tokens = self._tokens()
                with self._lock:
                    self._draw(int(waited_s), state, tokens)

    def _say_what_keeps_it(self, waited_s: float, state: str) -> None:
        for told in self._unclaimed.news(waited_s, state, has_line=self._has_line):
            with self._lock:
                self._erase()
                output.warning(told)

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
