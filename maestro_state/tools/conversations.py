"""Whether a run can go on with the conversation of another. Pure."""

from __future__ import annotations

from maestro_state.errors import InvalidValue, NoConversation, ToolNotFound
from maestro_state.models.run import OPEN, Run
from maestro_state.tools.tool import Tool, resolve


def check_continues(session_id: str, tool: Tool, before: Run | None) -> None:
    """Refuse what cannot be gone on with: no run, one that still goes, another tool's, or one without conversation."""
    if not tool.resume:
        raise InvalidValue(f"{tool.name[:80]} keeps no conversations", hint="leave --continue out")
    if before is None:
        raise NoConversation(
            f"session {session_id} has no run of {tool.name[:80]} to go on from",
            hint="run it once without --continue, or maestro runs",
        )
    if _entry(before.tool) != tool.entry:
        raise InvalidValue(
            f"run {before.id} is a conversation with {before.tool[:80]}, not with {tool.name[:80]}",
            hint=f"maestro run --continue-from {before.id} without --tool",
        )
    if before.status in OPEN:
        raise NoConversation(
            f"run {before.id} is {before.status}: its conversation goes on", hint=f"maestro wait {before.id}"
        )
    if not (before.usage and before.usage.tool_session):
        raise NoConversation(
            f"run {before.id} ({before.status}) left no conversation to go on with", hint="run without --continue"
        )


def _entry(tool: str) -> str:
    """Return which tool of the catalogue a run used; where its program is gone, its name still tells."""
    try:
        return resolve(tool).entry
    except ToolNotFound:
        return tool.rsplit("/", 1)[-1]
