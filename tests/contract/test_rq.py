"""What is relied on of RQ, so that a newer one that changes it is noticed here and not by a team's workers."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from typing import Any

import pytest
import rq.intermediate_queue
import rq.job
import rq.queue
import rq.registry
import rq.timeouts
import rq.worker
import rq.worker_registration
from maestro_workers import rq_adapter
from maestro_workers.rq_adapter import job, registries, worker

OURS = (worker.RunWorker, registries.OwnRegistries, job.SafeQueue, job.SafeJob, worker._NoPenalty)

#: What is overridden, with the parameters RQ gives it; of what is replaced, also the digest of RQ's own body. When one
#: changes, read what RQ does now, decide whether ours still holds, and bring the page in `rq_adapter` up to date.
OVERRIDDEN: dict[str, str] = {
    "BaseDeathPenalty.cancel_death_penalty": "(self) 204c9df0",
    "BaseDeathPenalty.setup_death_penalty": "(self) 204c9df0",
    "Job.func": "(self) 401eb012",
    "Job.perform": "(self) 3658f573",
    "Job.refresh": "(self) a492fbfd",
    "Queue.lmove": "(cls, connection, queue_key, timeout) fa535c9f",
    "Queue.redis_queues_keys": "'rq:queues'",
    "Worker.__init__": "(...) 31765ede",
    "Worker._install_signal_handlers": "(self) 93a9954a",
    "Worker._set_ip_address": "(self, connection) 23e19196",
    "Worker.check_for_suspension": "(self, burst) 394c3a2a",
    "Worker.clean_registries": "(self) 8f076249",
    "Worker.dequeue_timeout": "(self) 16f6481a",
    "Worker.execute_job": "(self, job, queue) 41fccf64",
    "Worker.get_heartbeat_ttl": "(self, job) 845975d7",
    "Worker.handle_execution_ended": "(self, job, queue, heartbeat_ttl) fa508a14",
    "Worker.heartbeat": "(self, timeout, pipeline) 7e1541e3",
    "Worker.redis_workers_keys": "'rq:workers'",
    "Worker.run_maintenance_tasks": "(self) 2fac30fd",
    "Worker.should_run_maintenance_tasks": "(self) 5bf9cf97",
    "Worker.subscribe": "(self) 9512840d",
    "Worker.teardown": "(self) 40f9d4ce",
    "Worker.unsubscribe": "(self) 1c447fa8",
}

#: Names of RQ's that ours use beside.
USED = {
    rq.job.Job: ("restore", "_execute", "func_name", "args", "key", "fetch"),
    rq.queue.Queue: ("acquire_maintenance_lock", "release_maintenance_lock", "intermediate_queue", "dequeue_any"),
    rq.worker.SimpleWorker: ("work", "maintain_heartbeats", "request_stop"),
    rq.intermediate_queue.IntermediateQueue: ("cleanup", "get_intermediate_queue_key"),
    rq.registry: ("clean_registries",),
    rq.worker_registration: ("WORKERS_BY_QUEUE_KEY", "get_keys"),
}


def _overridden() -> dict[str, Any]:
    """Find what ours override, by its name in RQ."""
    found = {}
    for cls in OURS:
        for name in vars(cls):
            is_own = name.startswith("__") and name != "__init__"
            base = next(
                (one for one in cls.__mro__[1:] if one.__module__.startswith("rq.") and name in vars(one)), None
            )
            if base is not None and not is_own and not name.endswith("_class"):
                kind = "Worker" if issubclass(base, rq.worker.BaseWorker) else base.__name__
                found[f"{kind}.{name}"] = vars(base)[name]
    return found


def _described(value: Any) -> str:
    """Describe what RQ has: its parameters, or its value, and a digest of its body."""
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if not callable(function):
        return repr(value)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    parameters = ", ".join(inspect.signature(function).parameters)
    body = ast.unparse(tree.body[0].body)  # type: ignore[attr-defined]  # without comments
    digest = hashlib.sha256(f"{parameters} {body}".encode()).hexdigest()[:8]
    return f"({parameters}) {digest}" if len(parameters) < 60 else f"(...) {digest}"


def test_rq_is_what_its_overrides_were_measured_against():
    """Every override is known, and RQ's own is the one that was read when it was written."""
    assert {name: _described(value) for name, value in _overridden().items()} == OVERRIDDEN


@pytest.mark.parametrize("name", sorted(OVERRIDDEN))
def test_every_override_is_on_the_page(name: str):
    """The page says what is overridden, and why."""
    owner, _, method = name.partition(".")
    page = rq_adapter.__doc__ or ""
    lines = [line for line in page.splitlines() if line.strip().startswith(f"{owner}.") and method in line]
    assert lines, f"{name} is not on the page"


def test_names_of_rq_that_are_used_are_there():
    """What ours call or read of RQ has not been renamed."""
    missing = [
        f"{owner.__name__}.{name}" for owner, names in USED.items() for name in names if not hasattr(owner, name)
    ]
    assert not missing


def test_a_worker_of_rq_has_the_state_that_is_read():
    """Attributes that only an instance has: who is asked to stop, when upkeep was done, who hears of failures."""
    source = inspect.getsource(rq.worker.BaseWorker)
    assert [
        name for name in ("_stop_requested", "last_cleaned_at", "_exc_handlers") if f"self.{name}" not in source
    ] == []
