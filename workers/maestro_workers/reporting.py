"""What a run reports of its tool's call: text in whole characters, error text, and what is known only afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from maestro_state.errors import ServerUnavailable
from maestro_state.local.logs import get_logger
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import Run, Usage
from maestro_state.tools import Outcome, Tool
from maestro_state.tools.afterwards import codex_model, from_llm_log

_log = get_logger("maestro.worker")


def completed(ended: Ended, tool: Tool, run: Run, environment: Mapping[str, str], log: Callable[[], bytes]) -> Ended:
    """Add what a tool tells only afterwards: its model, and the conversation to go on with; `log` asks for its own."""
    before = usage = ended.usage or Usage()
    if tool.entry == "codex" and usage.tool_session and usage.model is None:
        usage = msgspec.structs.replace(usage, model=codex_model(environment, usage.tool_session))
    if tool.log and ended.status == "success":
        told = from_llm_log(log(), ended.digest) or Usage()
        usage = msgspec.structs.replace(usage, model=told.model, tool_session=told.tool_session)
    if usage.model is None and run.model is not None and tool.model_flag:
        usage = msgspec.structs.replace(usage, model=run.model)
    return ended if usage == before else msgspec.structs.replace(ended, usage=usage)


def refusals(outcome: Outcome) -> str:
    """Say what a tool was refused permission for."""
    first, *more = outcome.denied
    rest = f" and {len(more)} more" if more else ""
    return f"it was refused permission for {first}{rest} (--mode says what it may do)"


def encoded(text: str) -> bytes:
    """Encode text for people; half a surrogate pair, which JSON can carry, is no character."""
    return text.encode(errors="replace")


def split_at_character(data: bytes) -> tuple[bytes, bytes]:
    """Split off the beginning of a UTF-8 character whose rest has not come yet: followers see whole characters."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return (data[:-back], data[-back:]) if length > back else (data, b"")
    return data, b""


def open_stderr_log(root: Path, claim: Claim) -> int | None:
    """Open the file that keeps all of a tool's stderr beside the session, for those who search for a fault."""
    from maestro_state.local.log_files import open_log_file

    try:
        return open_log_file(root, f"run-{claim.session_id}-{claim.run.id}.stderr.log")
    except (OSError, ServerUnavailable) as error:
        _log.warning("stderr_not_kept", reason=str(error))  # something else has its place: the run goes on
        return None
