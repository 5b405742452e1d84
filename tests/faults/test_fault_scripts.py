"""A server that forgets scripts, restarts, or holds very long sessions: callers notice nothing of it."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager

import pytest

from maestro_state import Maestro, Terminal
from maestro_state.net import ReplyError, connect
from maestro_state.state.scripts import load, names
from tests.support.servers import raw_call, valkey

LONG, SHORT = 100_000, 10
#: How much longer a script may take on the long session; both figures are the server's own, of the same run.
RATIO = 3.0
#: Microseconds of the processor's that no script may take. Not of the clock's: on a busy machine the server waits too.
LONGEST_US = 50_000
ME = Terminal("me", "here", "tty1", "2027-01-01T00:00:00.000+00:00")


@pytest.fixture
def server(tmp_path):
    """Run one server for the test, which notices often that a read has waited long enough."""
    with valkey(tmp_path, args=["--hz", "100"]) as running:
        yield running


def whole_life(maestro, name):
    """Use every script of sessions and messages."""
    session = maestro.sessions.start(name)
    first = maestro.messages.add("user", "hello")
    list(maestro.follow.events(session.id, cursor="start", until_idle_ms=1, terminal=ME))
    maestro.sessions.set("preferences", {"a": 1})
    assert maestro.messages.last(1) == [first]
    assert session.id in {row.id for row in maestro.sessions.newest(5)}
    maestro.sessions.end()
    maestro.sessions.start(name)
    maestro.sessions.abort(reason="enough")
    maestro.sessions.delete(session.id)


def test_forgotten_scripts_are_sent_again(project, server):
    """SCRIPT FLUSH before each call, and a restart, change nothing for the caller."""
    with Maestro(project, redis_url=server.url) as maestro, closing(connect(server.url)) as wire:
        flushed, send = [], maestro.server.connection.script

        def flush_then_send(script, keys, args):
            raw_call(server, "SCRIPT", "FLUSH")
            flushed.append(script.name)
            # Control: at this moment the server really does not know it.
            with pytest.raises(ReplyError, match="NOSCRIPT"):
                wire.call("EVALSHA", script.sha, len(keys), *keys, *args)
            return send(script, keys, args)

        maestro.server.connection.script = flush_then_send
        whole_life(maestro, "flushed")
        maestro.server.connection.script = send
        server.restart()
        whole_life(maestro, "restarted")
    assert set(flushed) >= {
        *("start_session", "add_message", "set_field", "attach_terminal", "detach_terminal"),
        *("finalize_session", "abort_session", "delete_session"),
        *("index_session", "newest_sessions", "forget_session"),
    }


def test_scripts_flushed_while_calls_run(project, server):
    """A thousand messages go through while another client flushes the scripts all the time."""
    done = threading.Event()
    flushes = []

    def flush():
        with closing(connect(server.url)) as wire:
            while not done.is_set():
                wire.call("SCRIPT", "FLUSH")
                flushes.append(1)

    with Maestro(project, redis_url=server.url) as maestro:
        session = maestro.sessions.start("flushed")
        thread = threading.Thread(target=flush)
        thread.start()
        try:
            added = [maestro.messages.add("user", str(number)) for number in range(1000)]
        finally:
            done.set()
            thread.join()
        assert maestro.messages.since(None, session.id) == added
    assert len(flushes) > 10
    # Control: the script had to be sent again, and more than once.
    stats = raw_call(server, "INFO", "commandstats").decode()
    assert int(stats.split("cmdstat_eval:calls=")[1].split(",")[0]) > 1


def lengthen(maestro, server, session_id, count):
    """Give a session so many messages and events, past Maestro, which would take a minute for it."""
    keys, script = (
        maestro.server.terms.keys,
        (
            "local ms = string.match(redis.call('HGET', KEYS[1], 'last_id'), '^%d+')\n"
            "for n = 1, ARGV[1] do\n"
            "  redis.call('XADD', KEYS[2], ms .. '-' .. n, 'user', 'number ' .. n)\n"
            "  redis.call('XADD', KEYS[3], ms .. '-' .. n, 'type', 'session.updated', 'field', 'f')\n"
            "end\n"
            "redis.call('HSET', KEYS[1], 'last_id', ms .. '-' .. ARGV[1])\n"
            "for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 3600000) end"
        ),
    )
    names = ("session", "messages", "events")
    raw_call(server, "EVAL", script, 3, *(keys.of_session(session_id, name) for name in names), count)


def microseconds(server, *calls):
    """Run the calls and return what half of the scripts took at most, by the server's own count."""
    raw_call(server, "CONFIG", "RESETSTAT")
    for call in calls:
        call()
    stats = raw_call(server, "INFO", "latencystats").decode()
    return float(stats.split("latency_percentiles_usec_evalsha:p50=")[1].split(",")[0])


def processor_us(server):
    """Return what the server's processor time has been so far."""
    said = raw_call(server, "INFO", "cpu").decode()
    rows = dict(line.split(":") for line in said.splitlines() if ":" in line)
    return 1e6 * sum(float(rows[f"used_cpu_{part}_main_thread"]) for part in ("user", "sys"))


@contextmanager
def costliest(maestro, server):
    """Give a list that gets what each script, or those sent together, take of the processor, in microseconds."""
    taken, connection = [], maestro.server.connection
    sends = {"script": connection.script, "calls": connection.calls}

    def measuring(send):
        def measured(*args):
            before = processor_us(server)
            try:
                return send(*args)
            finally:
                taken.append(processor_us(server) - before)

        return measured

    for name, send in sends.items():
        setattr(connection, name, measuring(send))
    try:
        yield taken
    finally:
        for name, send in sends.items():
            setattr(connection, name, send)


def test_scripts_take_no_longer_on_a_long_session(project, server):
    """Each script takes about the same on a session of 100 000 entries as on one of 10, and never 50 ms of work."""
    with Maestro(project, redis_url=server.url) as maestro:
        ids = {count: maestro.sessions.start(f"length {count}").id for count in (SHORT, LONG)}
        for count, session_id in ids.items():
            lengthen(maestro, server, session_id, count)

        def work(session_id, turns):
            for turn in range(turns):
                maestro.messages.add("user", f"message {turn}", session_id)
                maestro.sessions.set("preferences", {"turn": turn}, session_id)
                list(maestro.follow.events(session_id, until_idle_ms=1, terminal=ME))

        # Warm, then alternate and take the best of each, so that a busy machine slows both alike or neither.
        for session_id in ids.values():
            work(session_id, 1)
        rounds = [
            {count: microseconds(server, lambda s=session_id: work(s, 5)) for count, session_id in ids.items()}
            for _ in range(4)
        ]
        taken = {count: min(one[count] for one in rounds) for count in ids}
        print(f"microseconds a script: {taken}")
        assert taken[LONG] <= RATIO * taken[SHORT] + 20
        with costliest(maestro, server) as each:
            work(ids[LONG], 2)
            maestro.sessions.end(ids[LONG])
            maestro.sessions.delete(ids[LONG])
        assert len(each) >= 8
        assert max(each) < LONGEST_US
        # Control: a script that walks through the session is what both figures would show.
        walked, before = maestro.sessions.start("walked").id, processor_us(server)
        lengthen(maestro, server, walked, LONG)
        assert processor_us(server) - before > LONGEST_US


def test_listing_the_newest_does_not_look_at_the_others(project, server):
    """The newest of 100 000 sessions are found in a small part of the time a walk through all takes."""
    with Maestro(project, redis_url=server.url) as maestro:
        session = maestro.sessions.start("newest")
        keys = [maestro.server.terms.keys.of_index(name, session.id) for name in ("summaries", "recent")]
        raw_call(
            server,
            "EVAL",
            "local row = redis.call('HGET', KEYS[1], ARGV[1])\n"
            "for n = 1, 100000 do\n"
            "  redis.call('HSET', KEYS[1], 'old' .. n, row) redis.call('ZADD', KEYS[2], n, 'old' .. n)\n"
            "end",
            2,
            *keys,
            session.id,
        )
        newest = microseconds(server, *[lambda: maestro.sessions.newest(50)] * 20)
        with costliest(maestro, server) as each:
            assert [row.id for row in maestro.sessions.newest(1)] == [session.id]
        assert max(each) < LONGEST_US
        # Control: walking through them all is slow, so the script cannot have done it.
        walk = load("newest_sessions").body.replace("tonumber(count) - 1", "-1")
        sha = raw_call(server, "SCRIPT", "LOAD", walk).decode()
        walked = microseconds(server, *[lambda: raw_call(server, "EVALSHA", sha, 2, *keys, 1)] * 5)
        print(f"microseconds: {newest} for the newest 50, {walked} for a walk through 100 000")
        assert newest * 10 < walked
        # More than Lua's stack holds.
        assert len(maestro.sessions.newest(20_000)) == 20_000


def test_every_script_is_known_by_its_digest(server):
    """What is sent by digest is what the server computes for the same body."""
    with closing(connect(server.url)) as wire:
        for name in names():
            script = load(name)
            assert wire.call("SCRIPT", "LOAD", script.body).decode() == script.sha
