"""Listing 10 000 sessions, and the newest 50 of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import msgspec

from benchmarks.append import PLAIN
from benchmarks.peers import LISTS, opened
from benchmarks.rig import Rig, Row, loop, race, rig, row
from maestro_state import AsyncMaestro
from maestro_state.state.calls import index, sessions
from maestro_state.state.scripts import load

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
        entries = _fill(bench)
        server, listed, maestro = bench.maestro.server, bench.maestro.sessions.list, AsyncMaestro(bench.folder)

        async def awaited() -> object:
            return await maestro.sessions.list()

        recent = "bench:recent"  # the reference is an index in one piece
        bench.tcp.zadd(recent, {entry.id: entry.last_activity_ms for entry in entries})
        sha = bench.tcp.script_load(SCRIPT)
        figures = race(
            {
                "one script over an index": lambda: bench.tcp.evalsha(sha, 1, recent, "maestro:"),
                "plain": listed,
                "awaited": awaited,
                "the index alone": lambda: index.all_sessions(server.fetch_all(index.all_rows(server.terms))),
                "and every field looked at": lambda: [one.document() for one in listed()],
                **peers.contenders("all"),
            },
            calls=3,
            timeout_s=0.8,
        )
        loop().run_until_complete(maestro.close())
        yield row("list 10 000 sessions", figures, "plain", "one script over an index", limit=1.2, aim=0.3)
        yield from peers.rows(
            "list 10 000 sessions", figures, {"": "awaited", **dict.fromkeys(PLAIN, "plain")}, {"": 10.0}
        )
        for name in WITHOUT_LIST:
            took = sorted(figures["awaited"])[len(figures["awaited"]) // 2]
            yield Row("list 10 000 sessions", name, took, None, "µs", peer=True, note="it cannot list its sessions")
        yield row("list 10 000 sessions", figures, "plain", "the index alone")
        yield row(
            "list 10 000, every field looked at", figures, "and every field looked at", "one script over an index"
        )
        on_disk = (msgspec.structs.replace(entry, archived_id=entry.last_id) for entry in entries)
        bench.send(index.index_session(server.terms, entry) for entry in on_disk)
        alone = lambda: index.all_sessions(server.fetch_all(index.all_rows(server.terms)))  # noqa: E731
        figures = race({"on disk too": listed, "the index": alone}, calls=3)
        yield row("list 10 000 that are on disk too", figures, "on disk too", "the index")
        yield _newest(bench)
        figures = race({"a page of 50": lambda: bench.maestro.sessions.page(50), "all": listed}, calls=3)
        yield row("a page of 50 of 10 000", figures, "a page of 50", "all")


def _fill(bench: Rig) -> list[index.IndexEntry]:
    """Start the sessions; return them as the index has them."""
    server = bench.maestro.server
    ids = [f"list--{number:06d}" for number in range(SESSIONS)]
    bench.send(sessions.start_session(server.terms, server.stamp(), one, server.terms.ttl_ms, {}) for one in ids)
    queries = [index.read_summary(server.terms, one) for one in ids]
    found = server.connection.calls([query.command for query in queries])
    entries = [index.entry_of(one, query.read(said)) for one, query, said in zip(ids, queries, found, strict=True)]
    bench.send(index.index_session(server.terms, entry) for entry in entries)
    assert len(bench.maestro.sessions.list()) == SESSIONS + 1  # and the one that warms up
    return entries


def _newest(bench: Rig) -> Row:
    script, shards = load("newest_sessions"), bench.maestro.server.terms.keys.shards
    bench.maestro.sessions.newest(50)  # the server knows the script from now on

    def scripts() -> object:
        pipe = bench.tcp.pipeline(transaction=False)
        for keys in shards:
            pipe.evalsha(script.sha, len(keys), *keys, 50)
        return pipe.execute()

    figures = race(
        {"redis-py, the same scripts": scripts, "newest 50": lambda: bench.maestro.sessions.newest(50)}, calls=300
    )
    # Ours is that one round trip, and rows of it: a second one would show.
    return row("the newest 50", figures, "newest 50", "redis-py, the same scripts")
