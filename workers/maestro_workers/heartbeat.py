"""Signs of life during a run, from a thread of their own: whatever they wait for, the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from redis.exceptions import RedisError

from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger

#: Seconds between two signs.
SIGN_S = 2.0
#: Seconds a sign that is under way when the run ends is waited for.
_END_S = 5.0

_log = get_logger("maestro.worker")


class Signs:
    """Gives a sign now and then until it is ended."""

    def __init__(self, give: Callable[[], None]) -> None:
        """Start; what `give` cannot do because a server is away is said once, and tried again."""
        self._give = give
        self._done = threading.Event()
        # A daemon: a sign that hangs must not keep the worker from leaving.
        self._thread = threading.Thread(target=self._run, name="signs", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Give no more signs. One that hangs is left behind, and is the last."""
        self._done.set()
        self._thread.join(_END_S)

    def _run(self) -> None:
        is_said = False
        while not self._done.wait(SIGN_S):
            try:
                self._give()
            except (MaestroError, RedisError) as error:
                if not is_said:
                    _log.warning("not_tended", reason=str(error))
                is_said = True
            else:
                is_said = False
