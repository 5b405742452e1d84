"""What ends a run, and what follows that: its breadcrumb in the work session it belongs to, and its session on disk.

Nothing that follows may undo the run. What fails here is said in the log; the sweeper writes to disk what was not
written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.errors import MaestroError
from maestro_state.histories.readers import TOOLS
from maestro_state.histories.run_conversations import RunConversations
from maestro_state.local.logs import get_logger
from maestro_state.tools import resolve

if TYPE_CHECKING:
    from maestro_state import Maestro
    from maestro_state.models.claim import Claim, Ended

#: How much of an answer its breadcrumb repeats; all of it is in the run's output.
_RESPONSE_BYTES = 64 * 1024

_log = get_logger("maestro.worker")


def finish(maestro: Maestro, claim: Claim, ended: Ended) -> None:
    """End a run. Before anybody hears of it, note the conversation of its tool's that it held: an import of the tool's
    history leaves that in this session.
    """
    conversation = ended.usage.tool_session if ended.usage else None
    if conversation and (tool := resolve(claim.run.tool).entry) in TOOLS:
        RunConversations(maestro.project).add(tool, conversation, claim.session_id)
    maestro.claims.finish(claim, ended)


def follow_up(maestro: Maestro, session_id: str, run_id: str) -> None:
    """Add the breadcrumb and write a checkpoint. Repeatable."""
    try:
        _add_breadcrumb(maestro, session_id, run_id)
    except MaestroError as error:
        _log.warning("no_breadcrumb", reason=str(error))
    try:
        maestro.archive.checkpoint(session_id)
    except (MaestroError, OSError) as error:
        _log.info("not_on_disk_yet", reason=str(error))


def _add_breadcrumb(maestro: Maestro, session_id: str, run_id: str) -> None:
    run = maestro.runs.read(run_id, session_id)
    if not run.cookie:
        return
    response = b""
    for chunk in maestro.runs.chunks(run_id, session_id):
        response += chunk
        if len(response) >= _RESPONSE_BYTES:
            break
    said = response[:_RESPONSE_BYTES].decode(errors="replace")
    prompt = maestro.runs.prompt(run, session_id).decode(errors="replace")
    done = maestro.runs.activity(run_id, session_id)
    maestro.work.add_run_breadcrumb(run.cookie, run, prompt, said, session_id=session_id, activity=done)
