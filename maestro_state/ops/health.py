"""Judging a server by what it says of itself: is it safe to keep sessions on? Pure."""

from __future__ import annotations

import msgspec

from maestro_state.scripts import Query

#: Oldest server versions Maestro's scripts were run on.
OLDEST = (7, 0)


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


def judge(info: dict[str, str]) -> list[Check]:
    """Return what a careful person would say about this server."""
    return [_version(info), _persistence(info), _eviction(info), _memory(info)]


def _version(info: dict[str, str]) -> Check:
    kind = "valkey" if "valkey_version" in info else "redis"
    shown = info.get("valkey_version") or info.get("redis_version", "?")
    # Valkey reports the Redis version it is compatible with, too; that is what counts for scripts.
    numbers = tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Check("version", "fail", f"{kind} {shown} is too old", f"use {oldest} or newer")
    return Check("version", "ok", f"{kind} {shown}")


def _persistence(info: dict[str, str]) -> Check:
    if info.get("aof_enabled") != "1":
        return Check(
            "persistence",
            "warn",
            "the server keeps no append-only file: what is not on disk yet is lost when it stops",
            "CONFIG SET appendonly yes",
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        return Check("persistence", "fail", "the append-only file could not be written", "free the server's disk")
    return Check("persistence", "ok", "append-only file")


def _eviction(info: dict[str, str]) -> Check:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        detail = f"maxmemory-policy is {policy}: when memory is short the server deletes sessions"
        return Check("eviction", "fail" if info.get("maxmemory", "0") != "0" else "warn", detail,
                     "CONFIG SET maxmemory-policy noeviction")  # fmt: skip
    return Check("eviction", "ok", "noeviction")


def _memory(info: dict[str, str]) -> Check:
    used, limit = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    shown = f"{used / 2**20:.1f} MiB used"
    if limit and used > 0.9 * limit:
        return Check("memory", "warn", f"{shown} of {limit / 2**20:.0f}", "raise maxmemory, or end old sessions")
    return Check("memory", "ok", shown)
