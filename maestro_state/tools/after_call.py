"""What two tools say only after a call: codex its model, in a record of its own; llm that and more, in its log."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from glob import escape, iglob
from typing import Any

import msgspec

from maestro_state.fs.opening import open_regular
from maestro_state.models.run import Usage
from maestro_state.models.undecodable import UNDECODABLE
from maestro_state.tools.parsers.lines import decode, words

#: How much of the end of codex's record is looked through, in bytes.
_RECORD_BYTES = 4 * 1024 * 1024

#: Largest log of llm's that is read, in bytes.
LOG_MAX = 64 * 1024 * 1024


def codex_model(environment: Mapping[str, str], thread: str) -> str | None:
    """Return the model of a thread's last turn; None when codex keeps no record, or another kind of it."""
    home = environment.get("CODEX_HOME") or os.path.join(environment.get("HOME", ""), ".codex")
    if not os.path.isabs(home) or not all(char.isalnum() or char == "-" for char in thread):
        return None
    pattern = os.path.join(escape(home), "sessions", "*", "*", "*", f"rollout-*-{thread}.jsonl")
    for path in iglob(pattern):
        return _last_model(path)
    return None


def _last_model(path: str) -> str | None:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _RECORD_BYTES))
            lines = file.read(_RECORD_BYTES).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        if b'"turn_context"' in line and (event := decode(line)) and event.get("type") == "turn_context":
            return words(event, "payload", "model")
    return None


def from_llm_log(printed: bytes, output_digest: str | None) -> Usage | None:
    """Return model and conversation of the answer with this digest among the newest of llm's log.

    Others may have asked meanwhile: only the answer tells which entry is this call's.
    """
    try:
        rows: Any = msgspec.json.decode(printed)
    except UNDECODABLE:
        return None
    for row in rows if isinstance(rows, list) else []:
        answer = words(row, "response")
        # It prints the answer and a line's end.
        if answer and hashlib.sha256(answer.encode("utf-8", "replace") + b"\n").hexdigest() == output_digest:
            return Usage(
                model=words(row, "resolved_model") or words(row, "model"), tool_session=words(row, "conversation_id")
            )
    return None
