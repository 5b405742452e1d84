"""Runs of a process that is no worker: of a conversation that it follows, or of an agent that it records.

Such a run names a variable that no worker has. Its process may be killed between starting and claiming it, and then no
worker must ask the agent again: a run that needs a variable which is not set is ended with that reason, not carried
out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from maestro_state._sync.server import Server
from maestro_state.errors import ContextChanged
from maestro_state.state.calls import runs as ops

#: The variable of runs that follow a tool's own history, and of those that record an agent.
FOLLOWED, RECORDED = "MAESTRO_FOLLOWED", "MAESTRO_RECORDED"


def start_own_run(
    server: Server, session_id: str, request: ops.RunRequest, prompt: bytes, idempotency_key: str
) -> tuple[str, Any]:
    """Record a run that is sent no context; return its number, and the summary to note once it is claimed."""
    terms, stamp = server.terms, server.stamp(idempotency_key)
    while True:
        revision = server.fetch(ops.revision(terms, session_id))
        with suppress(ContextChanged):  # somebody added an item since it was counted
            run, summary = server.run(ops.start_run(terms, stamp, session_id, request, prompt, (revision, [])))
            return str(run.id), summary
