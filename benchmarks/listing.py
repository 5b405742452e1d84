"""Listing 10 000 sessions, and the newest 50 of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from benchmarks.peers import LISTS, opened
from benchmarks.rig import Row, race, rig, row
from maestro_state.ops import index, sessions
from maestro_state.scripts import load

SESSIONS = 10_000
#: The usual way: an index by activity, and a script that collects what each session's hash says.
SCRIPT = """
local rows = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  rows[#rows + 1] = redis.call('HMGET', ARGV[1] .. '{' .. id .. '}', 'state', 'created_at', 'last_activity', 'user_id')
end
return rows
"""
#: Peers that cannot list the conversations they keep.
WITHOUT_LIST = ("openai-agents RedisSession", "openai-agents SQLiteSession", "LangChain Redis history")


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench, closing(opened(LISTS, bench, SESSIONS)) as peers:
        peers.expect("all", SESSIONS)
        server = bench.maestro.server
        for number in range(SESSIONS):
            session_id = f"list--{number:06d}"
            call = sessions.start_session(server.terms, server.stamp(), session_id, server.terms.ttl_ms, {})
            server.change(session_id, call)
        recent = server.terms.keys.of_index("recent")
        sha = bench.tcp.script_load(SCRIPT)
        figures = race(
            {
                "one script over an index": lambda: bench.tcp.evalsha(sha, 1, recent, "maestro:"),
                "list 10 000": lambda: server.fetch(index.all_sessions(server.terms)),
                "with rows for people": lambda: bench.maestro.sessions.list(),
                **peers.contenders("all"),
            },
            calls=3,
            rounds=5,
        )
        yield row("list 10 000 sessions", figures, "list 10 000", "one script over an index", limit=1.2, aim=0.3)
        yield row("… as rows for people", figures, "with rows for people", "one script over an index", limit=1.2)
        yield from peers.rows("list 10 000 sessions", figures, {"": "list 10 000"}, {"": 10.0})
        yield from peers.rows("… as rows for people", figures, {"": "with rows for people"}, {})
        for name in WITHOUT_LIST:
            took = sorted(figures["list 10 000"])[3]
            yield Row("list 10 000 sessions", name, took, None, "µs", peer=True, note="it cannot list its sessions")
        script, keys = load("newest_sessions"), server.terms.keys.index
        bench.maestro.sessions.newest(50)  # the server knows the script from now on
        figures = race(
            {
                "redis-py, the same script": lambda: bench.tcp.evalsha(script.sha, len(keys), *keys, 50),
                "newest 50": lambda: bench.maestro.sessions.newest(50),
            },
            calls=300,
        )
        # Ours is that one round trip, and rows of it: a second one would show.
        yield row("the newest 50", figures, "newest 50", "redis-py, the same script")
