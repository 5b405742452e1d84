"""What a run reports of its tool's call: text in whole characters, error text, and what is known only afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from maestro_state.errors import ServerUnavailable
from maestro_state.local.logs import get_logger
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import Run, Usage
from maestro_state.tools import Outcome, Tool
from maestro_state.tools.after_call import LOG_MAX, codex_model, from_llm_log
from maestro_workers.invoke import Invocation, invoke

#: How long a tool may take to print its own log, in seconds.
_LOG_S = 15.0

#: Why a run ended whose worker was told to stop and could not wait for it any longer.
STOPPED = "its worker was stopped while it ran"

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


def own_log(call: Invocation) -> bytes:
    """Ask a tool for its own log; nothing when it does not answer in time. The claim is kept meanwhile."""
    printed: list[bytes] = []

    def on_output(data: bytes) -> str | None:
        printed.append(data)
        return "limit" if sum(map(len, printed)) > LOG_MAX else None

    try:
        finished = invoke(replace(call, timeout_s=_LOG_S, on_output=on_output, on_stderr=lambda _: None))
    except OSError:
        return b""
    return b"".join(printed) if finished.stopped is None and finished.exit_code == 0 else b""


def judged(outcome: Outcome, stopped: str | None, run: Run, limit: int, refusal: str) -> tuple[str, str | None]:
    """Return how a call ended and why: by itself, or for the reason it was stopped for."""
    tail = f": {outcome.last_words}" if outcome.last_words else ""
    match stopped:
        case "canceled":
            return "canceled", f"canceled while it ran{f': {outcome.trouble}' if outcome.trouble else ''}"
        case "timeout" if outcome.trouble:
            return "error", f"{outcome.trouble}; it was ended after {run.timeout_s} s"
        case "timeout":
            return "error", f"it took longer than {run.timeout_s} s and was ended{tail}"
        case "limit":
            kept = f"its output reached the limit of {limit} bytes and it was ended"
            return "error", f"{kept}; what was captured is kept"
        case "cut":  # it had ended by itself, and said the most at the very end
            return "error", f"its output is above the limit of {limit} bytes; what was captured is kept"
        case "budget":
            return "error", f"{refusal}; it was ended"
        case "unguarded":
            return "error", "the process that guards it was killed, and it was ended"
        case "stopped":
            return "error", STOPPED
    return outcome.status, outcome.error


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
