"""What a machine of a team is there for, and whether it does that: the health check of its container.

Stricter than the other checks: a worker that nobody hears of is a warning to a terminal, and a failure to itself.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable

from maestro_state._sync.queue import Queue
from maestro_state.errors import MaestroError
from maestro_state.state.calls.health import Check

#: Seconds that it may take to answer.
_ANSWER_S = 5.0


def check_worker(queue: Queue) -> Check:
    """Tell whether a worker of this machine listens."""
    host = socket.gethostname()
    try:
        count = queue.workers(host)
    except MaestroError as error:
        return Check("duty", "fail", str(error), error.hint)
    if not count:
        return Check("duty", "fail", f"no worker of {host} listens", "maestro worker, and look at what it logs")
    return Check("duty", "ok", f"{count} worker{'s' if count > 1 else ''} of {host} listening")


def check_scheduler(found: list[Check]) -> Check:
    """Tell whether somebody sweeps in time: this machine, or whoever is active in its place."""
    said = next((check for check in found if check.name == "sweeper"), None)
    if said is None:
        return Check("duty", "fail", "the server cannot be asked when it was swept last", "maestro doctor says why")
    return Check("duty", "ok" if said.status == "ok" else "fail", said.detail, said.fix)


def check_serve(port: int) -> Check:
    """Tell whether this machine serves, over TLS or without, and its server answers."""
    for ask in (_ask_tls, _ask):
        try:
            status = ask(port)
        except (OSError, http.client.HTTPException):
            continue
        fix = None if status == 200 else "look at what maestro serve logs"
        return Check("duty", "fail" if fix else "ok", f"serving on port {port}, health {status}", fix)
    return Check("duty", "fail", f"nothing serves on port {port}", f"maestro serve --port {port}")


def _ask_tls(port: int) -> int:
    # This machine asks itself: there is nobody in between, and no name in the certificate for it.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001
    return _status(http.client.HTTPSConnection("127.0.0.1", port, timeout=_ANSWER_S, context=context))


def _ask(port: int) -> int:
    return _status(http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S))


def _status(line: http.client.HTTPConnection) -> int:
    try:
        line.request("GET", "/v1/health")
        return line.getresponse().status
    finally:
        line.close()


#: Each duty, and what is asked of the queue, of the other checks or of a port.
DUTIES: dict[str, Callable[[Queue, list[Check], int], Check]] = {
    "worker": lambda queue, *_: check_worker(queue),
    "scheduler": lambda _, found, __: check_scheduler(found),
    "serve": lambda _, __, port: check_serve(port),
}
