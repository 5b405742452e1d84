"""Who may do what on a team's server: its access list, written from the roles Maestro has. Pure.

Three roles with the least they need. A terminal and a worker reach the keys of one namespace only, so one namespace per
group of people that must not see each other is the unit of isolation; inside a namespace everybody may see and change
everything, and names (`user_id`) say who did something, not who may. Commands are named one by one: what no script and
no part of RQ uses is not allowed. Key names cannot be listed by terminals: a server does not hold SCAN to the patterns.
Passwords go in as digests only.

What one server cannot keep apart: its memory and its time. Who may write can fill the memory with honest data, and
who may run scripts can run one that never ends (an admin ends it with SCRIPT KILL). Groups that do not trust each other
that far need a server each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.state.keys import Keyspace

#: Digests are fast to try: a password must be too long to guess.
PASSWORD_MIN = 16

#: What scripts and rooms use, by the type of key. A server does not start with a list that names a command it does not
#: have, so none in here is younger than the oldest server there may be (`health.OLDEST`).
DATA = (
    "exists", "dump", "del", "unlink", "expire", "pexpire", "pexpireat", "ttl", "pttl", "type", "get", "set",
    "hget", "hmget", "hgetall", "hvals", "hkeys", "hlen", "hstrlen", "hexists", "hscan", "hset", "hsetnx",
    "hincrby", "hdel",
    "lpos", "llen", "lindex", "linsert", "lrange", "lrem", "lpop", "blpop", "rpush",
    "sadd", "srem", "scard", "sismember", "smembers",
    "xadd", "xdel", "xlen", "xrange", "xrevrange", "xread",
    "zadd", "zrem", "zremrangebyscore", "zcard", "zscore", "zmscore", "zrange", "zrangebyscore", "zrevrange",
)  # fmt: skip
#: What a connection begins with; confirmations by replicas; what doctor reads; the layout of a cluster.
_CONNECTION = (
    "auth", "hello", "ping", "quit", "select", "readonly", "asking", "client|setname", "client|id",
    "wait", "time", "info", "command", "cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info",
    "cluster|myid",
)  # fmt: skip
#: Scripts by body and digest: every change of a state is one.
_SCRIPTS = ("eval", "evalsha")
#: What RQ's workers use beside it; the sweeper looks through the keys for sessions the index has lost.
_WORK = (
    "multi", "exec", "discard", "watch", "unwatch", "lmove", "blmove", "rename", "persist", "hincrbyfloat",
    "zremrangebyrank", "scan", "script|load",
)  # fmt: skip

#: Nobody can be this user: it is off and has no password. It keeps its rights because Redis 7.0 reads its own file back
#: as this user, and without them silently drops what scripts wrote.
_DEFAULT = "user default off resetpass ~* &* +@all"

ROLES = ("terminal", "worker", "admin")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Account(msgspec.Struct, frozen=True):
    """One user of the server."""

    name: str
    role: str  #: one of ROLES
    password: str

    def __repr__(self) -> str:
        """Show everything but the password."""
        return f"Account({self.name!r}, {self.role!r})"


def access_list(namespace: str, accounts: Iterable[Account]) -> str:
    """Return the access list as the server's aclfile has it; without a password nobody gets in."""
    keys = Keyspace(namespace)
    lines = [_DEFAULT]
    lines += [" ".join(("user", account.name, "on", _digest(account), *_rights(keys, account))) for account in accounts]
    return "\n".join(lines) + "\n"


def _rights(keys: Keyspace, account: Account) -> tuple[str, ...]:
    if account.role == "admin":
        return ("~*", "&*", "+@all")
    if account.role == "worker":
        own = [f"~{pattern}" for pattern in keys.patterns()]
        queue = [f"~{pattern}" for pattern in keys.working_patterns()]
        return (*own, *queue, "resetchannels", *_allowed(DATA, _CONNECTION, _SCRIPTS, _WORK))
    # A terminal sees what it has left of a budget; what was consumed is written by who carries runs out.
    own = [f"~{pattern}" for pattern in keys.patterns_of_terminals()]
    own += [f"%R~{pattern}" for pattern in keys.ledger_patterns()]
    queue = [f"~{pattern}" for pattern in keys.queue_patterns()]
    # A terminal puts jobs into the queue and sees which workers live; it cannot pose as one.
    seen = [f"%R~{pattern}" for pattern in keys.worker_patterns()]
    return (*own, *queue, *seen, "resetchannels", *_allowed(DATA, _CONNECTION, _SCRIPTS))


def _allowed(*groups: Iterable[str]) -> tuple[str, ...]:
    return ("-@all", *(f"+{command}" for group in groups for command in group))


def _digest(account: Account) -> str:
    from hashlib import sha256

    if not _NAME.fullmatch(account.name) or account.name == "default":
        raise InvalidValue(f"'{account.name[:64]}' cannot be a user's name", hint="letters, digits, '_', '.' and '-'")
    if len(account.password) < PASSWORD_MIN:
        hint = f"at least {PASSWORD_MIN} characters: openssl rand -hex 24"
        raise InvalidValue(f"the password of {account.name} is too short", hint=hint)
    return f"#{sha256(account.password.encode()).hexdigest()}"
