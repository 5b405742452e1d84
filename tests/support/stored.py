"""Sessions with contents for tests: items, blobs, runs and outputs written in the form calls/contents.py describes.

Past the scripts, and so for tests only; the record's last id moves with every entry, as the scripts would do it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec
import redis

from maestro_state.clock import iso
from maestro_state.state.keys import Keyspace


def digest_of(content: bytes) -> str:
    """Return a digest as sessions keep it."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class Filler:
    """Fills one session."""

    raw: redis.Redis
    keys: Keyspace
    session_id: str

    @property
    def now_ms(self) -> int:
        """The time of the session's last event."""
        return int(self.raw.hget(self._key("session"), "last_id").split(b"-")[0])

    def _key(self, name: str) -> str:
        return self.keys.of_session(self.session_id, name)

    def _next_id(self) -> str:
        last = self.raw.hget(self._key("session"), "last_id").decode()
        ms, seq = last.split("-")
        return f"{ms}-{int(seq) + 1}"

    def _emit(self, stream: str, fields: dict[str, Any]) -> str:
        entry_id = self._next_id()
        pipe = self.raw.pipeline(transaction=False)
        pipe.xadd(self._key(stream), fields, id=entry_id)
        pipe.hset(self._key("session"), "last_id", entry_id)
        pipe.pttl(self._key("session"))
        life = max(pipe.execute()[-1], 1000)
        for key in self.keys.session(self.session_id):
            pipe.pexpire(key, life)
        pipe.execute()
        return entry_id

    def item(self, content: bytes = b"text", *, kind: str = "text", path_rel: str | None = None) -> str:
        """Add a context item."""
        number = self.raw.hincrby(self._key("session"), "ctx_seq", 1)
        item_id, digest = f"ctx-{number:04}", digest_of(content)
        source: dict[str, Any] = {"added_at": iso(self.now_ms)}
        if path_rel:
            source |= {"path_rel": path_rel, "digest": digest, "size": len(content)}
        document = {
            "id": item_id,
            "kind": kind,
            "source": source,
            "snapshot": {"blob": f"../blobs/{item_id}.txt", "digest": digest},
            "state": "active",
        }
        self.raw.hset(self._key("blobs"), digest, content)
        self.raw.hset(self._key("items"), item_id, msgspec.json.encode(document))
        self.raw.hset(self._key("session"), "state", "com_contexto")
        self._emit("events", {"type": "context.added", "item": item_id})
        return item_id

    def remove(self, item_id: str) -> None:
        """Take an item out."""
        self.raw.hset(self._key("items"), f"{item_id}:removed_at", self.now_ms)
        self._emit("events", {"type": "context.removed", "item": item_id})

    def run(
        self,
        output: bytes | None = b"done\n",
        *,
        prompt: bytes = b"do it",
        status: str = "success",
        tool: str = "echo",
        chunks: int = 2,
        sent: list[dict[str, Any]] | None = None,
    ) -> str:
        """Add a run that has ended, or stands as `status` says."""
        number = self.raw.hincrby(self._key("session"), "run_seq", 1)
        run_id, at = f"{number:04}", iso(self.now_ms)
        digest = digest_of(prompt)
        document = {
            "id": run_id,
            "tool": tool,
            "prompt_source": "cli",
            "flags": {"dry_run": status == "dry", "confirm": False},
            "status": "pending",
            "created_at": at,
            "context_refs": [],
            "context_version": [],
            "prompt_digest": digest,
        }
        self.raw.hset(self._key("blobs"), digest, prompt)
        fields: dict[str, Any] = {
            run_id: msgspec.json.encode(document),
            f"{run_id}:status": status,
            f"{run_id}:sent": msgspec.json.encode(sent or []),
        }
        self.raw.hset(self._key("runs"), mapping=fields)
        self._emit("events", {"type": "run.started", "run": run_id})
        if output is not None:
            self.print(run_id, output, chunks=chunks)
        if status not in ("pending", "running"):
            self.finish(run_id, output, status)
        return run_id

    def print(self, run_id: str, output: bytes, *, chunks: int = 1) -> None:
        """Let a run print something."""
        size = max(1, -(-len(output) // chunks))
        for start in range(0, len(output), size):
            entry_id = self._emit("outputs", {"run": run_id, "data": output[start : start + size]})
            self.raw.hsetnx(self._key("runs"), f"{run_id}:first", entry_id)
            self.raw.hset(self._key("runs"), f"{run_id}:last", entry_id)
        if output:
            self.raw.hincrby(self._key("runs"), f"{run_id}:size", len(output))

    def finish(self, run_id: str, output: bytes | None, status: str = "success") -> None:
        """End a run."""
        end: dict[str, Any] = {"finished_at": iso(self.now_ms + int(run_id)), "exit_code": 0}
        if output is not None:
            end["output_ref"] = {"path": "output.txt", "size": len(output), "digest": digest_of(output)}
        fields = {f"{run_id}:end": msgspec.json.encode(end), f"{run_id}:status": status}
        self.raw.hset(self._key("runs"), mapping=fields)
        if status in ("success", "error"):
            self.raw.hincrby(self._key("session"), f"runs_{status}", 1)
        self.raw.hset(self._key("session"), "state", "com_saida")
        self._emit("events", {"type": "run.finished", "run": run_id, "status": status})

    def promote(self, run_id: str, note: str = "good") -> None:
        """Mark an output as relevant."""
        row = {"run_id": run_id, "added_at": iso(self.now_ms), "note": note}
        self.raw.hset(self._key("runs"), f"{run_id}:relevant", msgspec.json.encode(row))
        self._emit("events", {"type": "output.promoted", "run": run_id})


def filler(backend: Any, session_id: str, namespace: str = "maestro") -> Filler:
    """Fill a session on a test's server."""
    return Filler(backend.raw, Keyspace(namespace), session_id)
