"""Ways to damage what a server has of one session: any key, any field, the index, the queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import redis

from maestro_state.state.keys import INDEX_KEYS, SESSION_KEYS, Keyspace

#: What a key may be replaced with.
REPLACEMENTS: dict[str, Callable[[redis.Redis, str], Any]] = {
    "text": lambda raw, key: raw.set(key, "x"),
    "bytes": lambda raw, key: raw.set(key, b"\xff\x00\xfe"),
    "list": lambda raw, key: raw.rpush(key, "x"),
    "set": lambda raw, key: raw.sadd(key, b"\xff"),
    "zset": lambda raw, key: raw.zadd(key, {b"\xff": 1}),
    "hash": lambda raw, key: raw.hset(key, b"\xff", b"\xff"),
    "stream": lambda raw, key: raw.xadd(key, {b"\xff": b"\xff"}, id="1-1"),
}
#: Contents of fields that no script would have written.
CONTENTS = {"empty": b"", "word": b"x", "bytes": b"\xff", "json": b"{}", "large": b"9" * 40,
            "deep": b"[" * 5000 + b"]" * 5000}  # fmt: skip
FIELDS = ("state", "last_id", "created_at", "last_activity", "ttl_ms", "touched_at", "archived_id", "open_runs",
          "project", "preferences", "user_id")  # fmt: skip

Damage = Callable[[redis.Redis, Keyspace, str], None]


def _replaced(name: str, how: str) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        key = keys.of_session(session_id, name)
        raw.delete(key)
        REPLACEMENTS[how](raw, key)
        raw.expire(key, 3600)

    return damage


def _field(name: str, content: bytes) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        raw.hset(keys.of_session(session_id, "session"), name, content)

    return damage


def _value(hash_name: str, field: str) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        raw.hset(keys.of_session(session_id, hash_name), field, b"\xff{")

    return damage


def _run_time(name: str) -> Damage:
    """Have a run that is over tell a time that is none."""

    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        key = keys.of_session(session_id, "runs")
        record = {**json.loads(raw.hget(key, "0001") or b"{}"), name: "x"}
        raw.hset(key, mapping={"0001": json.dumps(record), "0001:status": "success"})

    return damage


def _row(content: bytes) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        raw.hset(keys.of_index("summaries", session_id), session_id, content)

    return damage


def _headless(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
    key = keys.of_session(session_id, "session")
    raw.delete(*keys.session(session_id))
    raw.hset(key, "last_id", "1-0")
    raw.expire(key, 3600)
    raw.zadd(keys.of_index("deadlines", session_id), {session_id: 1})


def _junk_members(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
    for name in ("recent", "deadlines", "dirty", "running"):
        raw.zadd(keys.of_index(name, session_id), {b"\xff": 1, "../../etc": 2, session_id: 1})


def _index(name: str, how: str) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        raw.delete(keys.of_index(name, session_id))
        REPLACEMENTS[how](raw, keys.of_index(name, session_id))
        raw.expire(keys.of_index(name, session_id), 3600)

    return damage


def _job(how: str) -> Damage:
    def damage(raw: redis.Redis, keys: Keyspace, session_id: str) -> None:
        for key in raw.scan_iter(f"rq:job:*{session_id}*"):
            raw.delete(key)
            REPLACEMENTS[how](raw, key.decode())

    return damage


#: Every kind of damage to one session's records, by name.
KINDS: dict[str, Damage] = {
    **{
        f"{key.name} is a {how}": _replaced(key.name, how)
        for key in SESSION_KEYS
        for how in REPLACEMENTS
    },
    **{f"{field} is {name}": _field(field, content) for field in FIELDS for name, content in CONTENTS.items()},
    "an item is no JSON": _value("items", "ctx-0001"),
    "a run is no JSON": _value("runs", "0001"),
    "a run's status is bytes": _value("runs", "0001:status"),
    "a lease is no number": _value("runs", "0001:lease"),
    "a run was asked for at no time": _run_time("created_at"),
    "a run ended at no time": _run_time("finished_at"),
    "a headless record with a deadline": _headless,
    "a row of the index is no JSON": _row(b"\xff not JSON"),
    "a row of the index has two lines": _row(b'["1-0"]\n["2-0"]'),
    "a row of the index is of another age": _row(
        b'["9999999999999-0","x--abcdef","iniciada",1e18,1e18,1,"",null,null]'
    ),
    "members of the index are no ids": _junk_members,
    "its job is a text": _job("text"),
    "its job is a list": _job("list"),
}  # fmt: skip

#: Damage to the index as a whole.
INDEX_KINDS: dict[str, Damage] = {
    f"{key.name} is a {how}": _index(key.name, how) for key in INDEX_KEYS for how in ("text", "set", "stream")
}
