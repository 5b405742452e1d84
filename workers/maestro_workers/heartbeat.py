"""Heartbeats, from a thread of their own: whatever they wait for, the work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from redis.exceptions import RedisError

from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger

#: Seconds between two heartbeats of a worker with a run.
BEAT_S = 2.0
#: Seconds a heartbeat that is under way when the work ends is waited for.
END_S = 5.0

_log = get_logger("maestro.worker")


class Heartbeat:
    """Beats now and then until it is ended."""

    def __init__(self, beat: Callable[[], None], every_s: float | None = None, end_s: float | None = None) -> None:
        """Start; what `beat` cannot do because a server is away is said once, and tried again."""
        self._beat = beat
        self._every_s, self._end_s = every_s or BEAT_S, end_s or END_S
        self._done = threading.Event()
        # A daemon: a beat that hangs must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Beat no more. A beat that hangs is left behind, and is the last."""
        self._done.set()
        self._thread.join(self._end_s)

    def _run(self) -> None:
        is_said = False
        while not self._done.wait(self._every_s):
            try:
                self._beat()
            except (MaestroError, RedisError) as error:
                if not is_said:
                    _log.warning("not_tended", reason=str(error))
                is_said = True
            else:
                is_said = False
