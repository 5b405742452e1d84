"""What tests of context need: runs as they are stored, written past Maestro."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import redis

from maestro_state import Session
from maestro_state.clock import from_iso, iso
from maestro_state.state.keys import Keyspace


def store_run(
    raw: redis.Redis, keys: Keyspace, session: Session, run_id: str, chunks: Sequence[bytes], *, status: str = "success"
) -> None:
    """Write a run and its output in the form `calls/contents.py` documents; other runs' chunks lie between its own."""
    runs, outputs = keys.of_session(session.id, "runs"), keys.of_session(session.id, "outputs")
    created, whole = from_iso(session.created_at), b"".join(chunks)
    started: dict[str, Any] = {
        "id": run_id, "tool": "echo", "prompt_source": "cli", "flags": {"dry_run": False, "confirm": False},
        "created_at": iso(created), "context_refs": [], "context_version": [],
    }  # fmt: skip
    ended = {"finished_at": iso(created), "exit_code": 0}
    if whole:
        digest = hashlib.sha256(whole).hexdigest()
        ended["output_ref"] = {"path": "output.txt", "size": len(whole), "digest": digest}
    raw.hset(runs, mapping={
        run_id: msgspec.json.encode(started), f"{run_id}:sent": b"[]", f"{run_id}:status": status,
        f"{run_id}:started_at": created,
    })  # fmt: skip
    if status not in ("pending", "running"):
        raw.hset(runs, f"{run_id}:end", msgspec.json.encode(ended))
    for chunk in chunks:
        place = raw.xadd(outputs, {"run": run_id, "data": chunk})
        raw.hsetnx(runs, f"{run_id}:first", place)
        raw.hset(runs, f"{run_id}:last", place)
        raw.xadd(outputs, {"run": "9999", "data": b"another run\n"})
    for key in (runs, outputs):
        if raw.exists(key):
            raw.pexpire(key, 1_000_000)
