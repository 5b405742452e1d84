"""Archives as another program writes them: the storage layout alone, no index, no manifest, optional fields missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support.stored import digest_of

#: Sessions of another program: their states, and how many runs and items each has.
SESSIONS = {
    "revisao-do-parser--k3m9xa": ("com_saida", 4, 3),
    "limpeza-antiga--p0q1r2": ("finalizada", 3, 1),
    "desistencia--z9y8x7": ("abortada", 2, 2),
    "so-contexto--c4d5e6": ("com_contexto", 0, 4),
}
OLD = "2020-03-04T05:06:07.123456+00:00"


def write_foreign(sessions: Path) -> list[str]:
    """Write them all, years old, into a folder of sessions; return their ids."""
    for session_id, (state, runs, items) in SESSIONS.items():
        _write(sessions / session_id, session_id, state, runs, items)
    return sorted(SESSIONS)


def _write(folder: Path, session_id: str, state: str, runs: int, items: int) -> None:
    ended = {"finalizada": {"finalized_at": OLD}, "abortada": {"aborted_at": OLD, "abort_reason": "x"}}.get(state, {})
    record = {"id": session_id, "slug": session_id.split("--")[0], "state": state, "tool_active": "modelo -m 'grande'",
              "created_at": OLD, "updated_at": OLD, "counters": {"run_seq": runs, "ctx_seq": items},
              "stats": {"runs_total": runs, "runs_success": runs, "runs_error": 0}, "campo": {"a": [1]}}  # fmt: skip
    files: dict[str, Any] = {"session.json": record | ended}
    names = [f"ctx-{number:04}" for number in range(1, items + 1)]
    files["context/active.json"] = {"items": names[:-1]}
    for number, name in enumerate(names, start=1):
        content = f"conteúdo {number}\n".encode()
        snapshot = {"blob": f"../blobs/{name}.txt", "digest": digest_of(content)}
        removed = {"state": "removed", "removed_at": OLD} if name == names[-1] else {"state": "active"}
        files[f"context/items/{name}.json"] = {"id": name, "kind": "text", "source": {}, "snapshot": snapshot} | removed
        files[f"context/blobs/{name}.txt"] = content
    for number in range(1, runs + 1):
        output, run = f"resposta {number}\n".encode(), f"{number:04}"
        ref = {"path": "output.txt", "size": len(output), "digest": digest_of(output)}
        files[f"runs/{run}/meta.json"] = {"id": run, "tool": "modelo", "status": "success", "created_at": OLD,
                                          "flags": {"dry_run": False}, "output_ref": ref}  # fmt: skip
        files[f"runs/{run}/prompt.txt"] = b"explique"
        files[f"runs/{run}/sent_context.json"] = []
        files[f"runs/{run}/output.txt"] = output
    if runs:
        last = f"{runs:04}"
        files["outputs/last_output.json"] = {"run_id": last, "path": f"../runs/{last}/output.txt", "timestamp": OLD}
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value, indent=2).encode())
        os.utime(path, (1_583_298_367.5, 1_583_298_367.5))


def seen(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return everything below a folder, itself too: content or names, when it was changed, and which file it is."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = "folder" if path.is_dir() else digest_of(path.read_bytes())
        found[str(path.relative_to(folder))] = (content, status.st_mtime_ns, status.st_ino)
    return found
