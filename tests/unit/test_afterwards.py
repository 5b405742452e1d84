"""What codex and llm tell only after a call."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from maestro_state.models.run import Usage
from maestro_state.tools.after_call import codex_model, from_llm_log


def test_codex_has_the_model_of_each_turn_in_its_record(tmp_path: Path):
    """The newest turn's model counts; without a record, or with another kind of it, there is none."""
    folder = tmp_path / "sessions/2026/11/17"
    folder.mkdir(parents=True)
    rows = [{"type": "turn_context", "payload": {"model": name}} for name in ("old", "new")]
    rows.insert(1, {"type": "event_msg", "payload": {"model": "no"}})
    text = "\n".join([*map(json.dumps, rows), "torn {", '"turn_context" in words'])
    (folder / "rollout-2026-01a1-b2.jsonl").write_text(text)
    environment = {"CODEX_HOME": str(tmp_path)}
    assert codex_model(environment, "01a1-b2") == "new"
    assert codex_model(environment, "other") is None
    assert codex_model(environment, "../../x") is None
    assert codex_model({"HOME": str(tmp_path)}, "01a1-b2") is None
    assert codex_model({}, "01a1-b2") is None
    os.mkfifo(folder / "rollout-2026-01a1-b3.jsonl")
    assert codex_model(environment, "01a1-b3") is None  # a pipe is not waited for


def test_llms_log_is_asked_for_this_answer():
    """Somebody else's newer call is not taken for it; what cannot be read tells nothing."""
    rows = [
        {"response": "theirs", "model": "m1", "conversation_id": "c1"},
        {"response": "mine ✓", "model": "m2", "resolved_model": None, "conversation_id": "c2"},
    ]
    digest = hashlib.sha256("mine ✓\n".encode()).hexdigest()
    printed = json.dumps(rows).encode()
    assert from_llm_log(printed, digest) == Usage(model="m2", tool_session="c2")
    assert from_llm_log(printed, None) is None
    assert from_llm_log(b"no log", digest) is None
    assert from_llm_log(b'{"a": 1}', digest) is None
