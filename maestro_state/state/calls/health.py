"""Judging a server by what it says of itself: is it safe to keep sessions on? Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maestro_state.models.worker import Worker
from maestro_state.state.calls.leases import AHEAD_MS
from maestro_state.state.calls.quarantine import Quarantined
from maestro_state.state.scripts import Query

#: Oldest server versions Maestro's scripts were run on.
OLDEST = (7, 0)


#: How far the clock of a machine may be from the server's, in milliseconds, before it is worth a word.
SKEW_MS = 10_000
#: Sweeps, each due within the checkpoint time, that may be missed before it is worth a word: cron may be slower.
LATE_SWEEPS = 6


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at."""

    name: str
    status: str  #: ok, warn or fail
    detail: str
    fix: str | None = None


def read_info() -> Query:
    """Ask a server about itself."""
    return Query(("INFO",), lambda reply: parse_info(reply.decode()))


def parse_info(text: str) -> dict[str, str]:
    """Read `name:value` lines."""
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def read_sync() -> Query:
    """Ask when the append-only file is synced: always, everysec or no. Only an admin may ask."""
    return Query(("CONFIG", "GET", "appendfsync"), lambda reply: reply[1].decode() if reply else None)


def judge(
    info: dict[str, str], wait_replicas: int = 0, synced: str | None = None, *, is_embedded: bool = False
) -> list[Check]:
    """Return what a careful person would say about this server; `synced` is when its file is synced, if known."""
    kept = _embedded_log(info, synced) if is_embedded else None
    kept = kept or _persistence(info, wait_replicas, None if is_embedded else synced)
    found = [_version(info), kept, _eviction(info), _memory(info)]
    return [*found, _replicas(info, wait_replicas)] if wait_replicas else found


def silent() -> Check:
    """Return what to say of a server that may not be asked about itself."""
    detail = "this user may not ask the server about itself: persistence, eviction, version and memory are not known"
    return Check("server info", "warn", detail, "let it use INFO, as maestro acl does")


def judge_access(*, is_open: bool | None, is_local: bool, is_encrypted: bool) -> list[Check]:
    """Say who else can reach a server over the network; `is_open` says whether it lets anybody in, if known."""
    if is_open:
        detail = "the server asks for no password: whoever reaches it can read and change everything"
        return [Check("access", "warn" if is_local else "fail", detail, "maestro acl writes an access list")]
    if is_encrypted or is_local:
        return [Check("access", "ok", "a password is needed")] if is_open is not None else []
    detail = "passwords and contents travel unencrypted"
    return [Check("access", "warn", detail, "rediss:// with the server's certificate, or a private network")]


def judge_queue(state_url: str | None, queue_url: str | None) -> list[Check]:
    """Say whether there is a place for the queue, which cannot be on a cluster."""
    if not (state_url or "").startswith("redis+cluster://") or queue_url:
        return []
    detail = "the state server is a cluster, and RQ does not run on one"
    return [Check("queue", "fail", detail, "MAESTRO_QUEUE_URL=redis://… names a plain or Sentinel server for it")]


def judge_workers(count: int, present: Sequence[Worker] = ()) -> Check:
    """Say whether anybody carries out runs, and where."""
    if not count:
        return Check("workers", "warn", "no worker listens: runs wait until one does", "maestro worker")
    hosts = sorted({worker.host for worker in present})
    return Check("workers", "ok", f"{count} listening{f' on {_some(hosts)}' if hosts else ''}")


def judge_worker_tools(present: Sequence[Worker]) -> list[Check]:
    """Say which AI tools the workers have; nothing where none has said anything."""
    if not present:
        return []
    found = sorted({tool.name for worker in present for tool in worker.tools} - {"echo"})
    if found:
        return [Check("worker tools", "ok", f"{', '.join(found)} found on the workers")]
    fix = "install one where they run (maestro workers)"
    return [Check("worker tools", "warn", "no worker has an AI tool; only the built-in echo can be used", fix)]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def judge_sweeper(swept_at: int, now_ms: int, checkpoint_ms: int) -> Check:
    """Say whether changes get to disk and sessions are finished in time."""
    fix = "maestro scheduler, or maestro sweep by cron"
    if not swept_at:
        return Check("sweeper", "warn", "nobody has swept yet: nothing is written to disk before a session ends", fix)
    late_ms = now_ms - swept_at
    if late_ms < -AHEAD_MS:
        return Check("sweeper", "warn", "the last sweep was in a time to come: the server's clock went back", fix)
    if late_ms > LATE_SWEEPS * checkpoint_ms:
        return Check("sweeper", "warn", f"the last sweep was {late_ms // 60_000} min ago", fix)
    return Check("sweeper", "ok", f"the last sweep was {max(0, late_ms) // 1000} s ago")


def judge_clock(here_ms: int, server_ms: int) -> Check:
    """Say whether this machine's clock is the server's: times, turns of runs and the day of budgets are told by it."""
    off_ms = here_ms - server_ms
    if abs(off_ms) <= SKEW_MS:
        return Check("clock", "ok", "as the server's")
    away, side = abs(off_ms) // 1000, "ahead of" if off_ms > 0 else "behind"
    shown = next(
        f"{away // size} {unit}" for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")) if away >= size
    )
    detail = f"this machine is {shown} {side} the server: its times, turns of runs and days of budgets are wrong"
    return Check("clock", "warn", detail, "set it by the network: timedatectl set-ntp true")


def _version(info: dict[str, str]) -> Check:
    kind = "valkey" if "valkey_version" in info else "redis"
    shown = info.get("valkey_version") or info.get("redis_version", "?")
    # Valkey reports the Redis version it is compatible with, too; that is what counts for scripts.
    numbers = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Check("version", "fail", f"{kind} {shown} is too old", f"use {oldest} or newer")
    return Check("version", "ok", f"{kind} {shown}")


def _embedded_log(info: dict[str, str], synced: str | None) -> Check | None:
    """Say what is wrong with the log of the project's own server, which its supervisor syncs."""
    if "min_slaves_good_slaves" in info:  # told to wait for a replica: how it is made to refuse writes
        return Check("persistence", "fail", "the disk is full: writes are refused, reads answered", "free disk space")
    if synced == "no":
        detail = "the kernel has no filters: a disk that runs full can cost what was acknowledged in that moment"
        return Check("persistence", "warn", detail, "keep some room on the disk")
    return None


def _persistence(info: dict[str, str], wait_replicas: int, synced: str | None) -> Check:
    if info.get("aof_enabled") != "1":
        return Check(
            "persistence",
            "warn",
            "the server keeps no append-only file: what is not on disk yet is lost when it stops",
            "CONFIG SET appendonly yes",
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        return Check("persistence", "fail", "the append-only file could not be written", "free the server's disk")
    if synced == "everysec":
        # While a sync is under way the server answers first and writes later.
        detail = (
            "append-only file with appendfsync everysec: when the server is killed, writes it acknowledged are lost"
        )
        fix = "CONFIG SET appendfsync always; or no, with replicas and MAESTRO_WAIT_REPLICAS"
        return Check("persistence", "warn", detail, fix)
    if synced == "no" and not wait_replicas:
        detail = "append-only file with appendfsync no: a power cut costs what the system has not written yet"
        return Check("persistence", "warn", detail, "CONFIG SET appendfsync always; or replicas, MAESTRO_WAIT_REPLICAS")
    return Check("persistence", "ok", f"append-only file, appendfsync {synced}" if synced else "append-only file")


def _eviction(info: dict[str, str]) -> Check:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        detail = f"maxmemory-policy is {policy}: when memory is short the server deletes sessions"
        return Check("eviction", "fail" if info.get("maxmemory", "0") != "0" else "warn", detail,
                     "CONFIG SET maxmemory-policy noeviction")  # fmt: skip
    return Check("eviction", "ok", "noeviction")


def _memory(info: dict[str, str]) -> Check:
    used, limit = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    machine = int(info.get("total_system_memory", "0"))
    shown = f"{used / 2**20:.1f} MiB used"
    if limit and used > 0.9 * limit:
        detail = f"{shown} of {limit / 2**20:.0f}: when it is full, writes are refused"
        return Check("memory", "warn", detail, "raise maxmemory, or end old sessions")
    if machine and used > 0.8 * machine:
        detail = f"{shown} of the machine's {machine / 2**20:.0f}"
        return Check("memory", "warn", detail, "end old sessions, or use a larger machine")
    return Check("memory", "ok", shown)


def _replicas(info: dict[str, str], wanted: int) -> Check:
    found = int(info.get("connected_slaves", "0"))
    if found < wanted:
        detail = f"{found} of the {wanted} replicas that MAESTRO_WAIT_REPLICAS asks for are connected"
        return Check("replicas", "fail", detail, "start them, or lower MAESTRO_WAIT_REPLICAS")
    return Check("replicas", "ok", f"{found} connected")


def judge_archives(waiting: int, reason: str | None) -> list[Check]:
    """Say whether changes have been waiting for a disk for too long, and why."""
    if not waiting:
        return []
    detail = f"{waiting} session{'s wait' if waiting > 1 else ' waits'} to be written to disk"
    fix = "maestro sweep, or maestro worker, where their project is"
    return [Check("archive", "warn", f"{detail}: {reason}" if reason else detail, fix)]


def judge_records(damaged: list[Quarantined]) -> list[Check]:
    """Name what is damaged on the server, and what is too new for this program."""
    newer = [row for row in damaged if row.code == "newer_format"]
    others = [row for row in damaged if row.code != "newer_format"]
    checks = []
    if others:
        checks.append(Check("records", "warn", f"damaged on the server: {_named(others)}", "maestro doctor --repair"))
    if newer:
        fix = "update Maestro here; nothing else is affected"
        checks.append(Check("format", "warn", f"written by a newer Maestro: {_named(newer)}", fix))
    return checks


def _named(rows: list[Quarantined]) -> str:
    shown = "; ".join(f"{row.id} ({row.reason})" for row in rows[:3])
    return f"{shown} and {len(rows) - 3} more" if len(rows) > 3 else shown
