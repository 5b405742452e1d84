"""Waiting for runs that somebody asked for elsewhere: what is going on meanwhile, and what keeps them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from maestro_cli import output
from maestro_cli.screen.unclaimed import Unclaimed, warn_if_alone

if TYPE_CHECKING:
    from maestro_cli.app import App
    from maestro_state.models.run import Run

#: How many runs without a worker are asked of each second: what keeps the first ones keeps the others.
_ASKED_OF = 4


class Awaiting:
    """A quiet line of status while runs are waited for; in a pipe only what keeps those that nobody has taken."""

    def __init__(self, app: App, runs: Sequence[Run]) -> None:
        self._app = app
        self._open = [run.id for run in runs]
        waiting = [run.id for run in runs if run.status == "pending"]
        # That there is no worker at all is asked and said for the first of them.
        told = {run_id: run_id != waiting[0] for run_id in waiting}
        if waiting and warn_if_alone(app):
            told[waiting[0]] = True
        self._unclaimed = {run_id: Unclaimed(app, run_id, told_alone=said) for run_id, said in told.items()}
        self._has_line = sys.stderr.isatty()
        self._since = time.monotonic()
        self._drawn = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._ticker.join()
        self._erase()

    def ended(self, run_id: str) -> None:
        """Wait no more for a run, of which something is printed now."""
        with self._lock:
            self._erase()
            self._open = [other for other in self._open if other != run_id]
            self._unclaimed.pop(run_id, None)

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self.update(time.monotonic() - self._since)

    def update(self, waited_s: float) -> None:
        """Say what has changed for those that wait for a worker, and draw the line anew."""
        keeping = ""
        for run_id, run in list(self._unclaimed.items())[:_ASKED_OF]:
            if self._is_taken(run_id):
                continue
            state = run.state()
            keeping = keeping or f" · {run_id} is {state}"
            for told in run.news(waited_s, state, has_line=self._has_line):
                with self._lock:
                    self._erase()
                    output.warning(told)
        with self._lock:
            if self._has_line and self._open and not self._over.is_set():
                self._draw(f"waiting for {', '.join(self._open)} · {int(waited_s)} s{keeping}")

    def _is_taken(self, run_id: str) -> bool:
        from maestro_state.errors import MaestroError

        try:
            taken = self._app.maestro.runs.read(run_id).status != "pending"
        except MaestroError:
            return True  # gone, or out of reach: whoever waits for its end will say it
        if taken:
            self._unclaimed.pop(run_id, None)
        return taken

    def _draw(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{output.dimmed(output.clip(text, output.screen_columns() - 1))}")
        sys.stderr.flush()
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._drawn = False
