"""Every key Maestro writes: its name, type, content, writers and lifetime. No other file spells a key.

All keys of one session carry its id as hash tag, so that one script may touch them all, on one server and on a
cluster alike. Their number is a small constant, whatever the session's length, so renewing their TTL costs the same
for a session of ten messages and of a million. What spans sessions is written after the session itself, can be rebuilt
from the sessions and is never trusted as truth; the index of sessions is in shards, `{index-00}` … `{index-15}`, by the
session's id, the rest carries the tag `{index}`.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the keyspace table."""

    name: str  #: how scripts and code speak of it
    suffix: str  #: what follows the hash tag
    type: str  #: the server's data type
    holds: str
    writers: str  #: the scripts that write it


#: Keys of one session; they live and expire together: ttl_seconds after the last activity once the archive on disk is
#: up to date, and a long grace more until it is.
SESSION_KEYS = (
    Key("session", "", "hash", "the record, and the last call of each client", "every session script"),
    Key("events", ":events", "stream", "what happened, one entry each", "every script that changes a state or a list"),
    Key("messages", ":messages", "stream", "messages, one entry each", "add_message, fill_session"),
    Key("items", ":items", "hash", "context items and when they were removed", "add_context, fill_session, remove_…"),
    Key("blobs", ":blobs", "hash", "snapshots and prompts by SHA-256, each once", "put_blobs, start_run, fill_…"),
    Key("runs", ":runs", "hash", "what was sent, who owns it, how it ended", "start_run … finish_run, add_context"),
    Key("outputs", ":outputs", "stream", "what runs printed, chunk by chunk", "add_output, recover_run"),
    Key(
        "attached",
        ":attached",
        "zset",
        "terminals by when they count as gone",
        "attach_terminal, keep_terminal, detach_…",
    ),
    Key("kept", ":kept", "hash", "what a framework keeps of its own, by name", "add_entries, fill_session"),
    Key("retracted", ":retracted", "hash", "messages taken back, or `..id` for all up to one → when", "retract_…"),
)

#: Which session the key of a framework is bound to. The tag is the digest of that key: whoever comes with it does not
#: know the session yet. Renewed with the session, and there longer than it: then it says which archive to go on from.
BINDING_KEYS = (Key("binding", ":binding", "string", "the id of the session that a key is bound to", "bind_session"),)

#: Keys that span sessions; renewed by every write to the index, to the longest life of any session in it.
INDEX_KEYS = (
    Key("summaries", ":summaries", "hash", "session id → summary for listing", "index_session, forget_session"),
    Key("recent", ":recent", "zset", "session ids by last activity", "index_session, forget_session"),
    Key("deadlines", ":deadlines", "zset", "session ids by logical expiry", "index_session, forget_session"),
    Key("dirty", ":dirty", "zset", "session ids with changes not yet on disk", "index_session, forget_session"),
    Key("running", ":running", "zset", "session ids with open runs", "index_session, forget_session"),
    Key("states", ":states", "hash", "state → how many sessions are in it", "index_session, forget_session"),
    Key(
        "moves",
        ":moves",
        "stream",
        "where in `recent` a session was before it moved; the last ones",
        "index_…, forget_…",
    ),
)

#: Shards of the index of sessions. As many sweepers may work at once. Another number would be another index: what is in
#: this one would have to be taken over, as what is in the one without shards is.
SHARDS = 16

#: What is damaged on the server, so that it is named once and not only in a log. Each row says when it was last seen.
QUARANTINE_KEYS = (
    Key(
        "quarantine",
        ":quarantine",
        "hash",
        "damaged session, or `index` → what is wrong",
        "quarantine_session, release_…",
    ),
)

#: Written behind a change that replicas must have: those that have it have everything before it.
BARRIER_KEYS = (Key("barrier", ":barrier", "string", "nothing; gone after a minute", "confirmed changes"),)

#: What keeps two of a team from doing the same work at once; the tag is what there is to do: `schedule`, `sweep`, or
#: `sweep-07` for a shard.
LEASE_KEYS = (
    Key("lease", ":lease", "hash", "who does it, until when, under which number; notes", "take_lease … note_upkeep"),
)

#: Keys of RQ's that a run's job is put into; their names and lifetimes are RQ's, and they are on the queue's server.
QUEUE_KEYS = (
    Key("job", "rq:job:<id>", "hash", "a job: what is to be done, and names, nothing else", "enqueue_job"),
    Key("queue", "rq:queue:<namespace>", "list", "ids of jobs that wait for a worker", "enqueue_job"),
)

#: Where jobs wait for workers that have what they need; one list for all workers that have the same. Not named as RQ's
#: are: an account that was made before there were such lists reaches them.
ROUTED_KEYS = (
    Key("routed", ":<profile>", "list", "ids of jobs that wait for a worker of this profile", "enqueue_job"),
)

#: Which workers there are. A row counts until it was not renewed for ten seconds. Runs go where it says: a terminal's
#: account only reads it, as it does the ledger.
WORKER_KEYS = (Key("present", ":present", "hash", "worker → what it has, and when it said so", "announce_worker"),)

#: Keys of one discussion while it is open, and until its life ends; they live and expire together like a session's.
#: The record is named like a session's: that is how the includes speak of it.
DISCUSSION_KEYS = (
    Key("session", ":discussion", "hash", "the record, and the last call of each client", "every discussion script"),
    Key("transcript", ":transcript", "stream", "the discussion's events", "add_discussion_event, finish_discussion"),
)

#: What spans discussions; may be lost: the disk knows every discussion of a checkout.
DISCUSSION_INDEX_KEYS = (
    Key("open", ":discussions", "zset", "open discussions by last activity", "index_discussion, forget_discussion"),
)

#: Keys of one work session; they live and expire together, like those of a session. `session` is named as there,
#: because the same Lua includes work on it.
WORK_KEYS = (
    Key("session", ":work", "hash", "the record, and how far breadcrumbs were applied", "every work script"),
    Key("breadcrumbs", ":work:breadcrumbs", "stream", "breadcrumbs as accepted, one entry each", "add_breadcrumb"),
    Key("log", ":work:log", "stream", "what was applied and what happened", "every work script but add_breadcrumb"),
    Key("ids", ":work:ids", "hash", "breadcrumb id → its entry, so that each is accepted once", "add_breadcrumb"),
    Key("totals", ":work:totals", "hash", "statistics of what was applied", "apply_breadcrumbs"),
    Key("children", ":work:children", "set", "ids of work sessions started under this one", "add_child"),
)

#: The index of work sessions: the same keys, in the same order, written by the same scripts.
WORK_INDEX_KEYS = tuple(
    Key(key.name, f":work{key.suffix}", key.type, f"of work sessions: {key.holds}", key.writers) for key in INDEX_KEYS
)

#: What is on its way from one machine to another. The tag is the parcel's own: who asks for a session by its slug does
#: not know the id yet, and two who ask for the same one must not get each other's pieces.
PARCEL_KEYS = (
    Key("parcel", ":parcel", "list", "pieces of an archived session, few at a time; gone after a minute", "add_piece"),
    Key("asker", ":asker", "string", "nothing: that somebody waits for the parcel; gone after 5 s", "whoever pulls"),
)

#: Who may ask `maestro serve`, by digest; kept 400 days after one was last made or used.
TOKEN_KEYS = (Key("tokens", ":tokens", "hash", "token id → digest, user, role, times", "add_token, use_…, revoke_…"),)

#: What was answered to a request with an Idempotency-Key; the tag is the digest of that key and of who sent it. Gone
#: after a day.
ANSWER_KEYS = (Key("answer", ":answer", "string", "the first answer, for who asks again", "maestro serve"),)
#: What was consumed, and what may be. On a server with accounts only workers and admins write these: a tag that begins
#: with `@` is beyond a terminal's rights, see `patterns_of_terminals`.
LEDGER_KEYS = (
    Key("counters", ":counters", "hash", "runs, seconds, tokens, cost and errors, counted", "charge_run, count_errors"),
    Key("budgets", ":budgets", "hash", "budget → its limit, who set it and when", "set_budget, remove_budget"),
    Key("open", ":open", "hash", "run that is not counted yet → what it was charged so far", "charge_run"),
    Key("attempts", ":attempts", "hash", "run tried again, or counted → what it was charged", "charge_run"),
    Key("counted", ":counted", "zset", "runs counted in the last days, by when", "charge_run"),
    Key("totals", ":totals", "hash", "what each user, and everybody, consumed in all", "charge_run"),
    Key("day", ":day:<date>", "hash", "what users, sessions and everybody consumed on one day", "charge_run"),
    Key("spent", ":session:<session>", "hash", "what one session consumed in all", "charge_run"),
)

#: The open runs of one user where there is a limit; the tag is a digest of the user's name, which may be any text.
SEAT_KEYS = (Key("seats", ":seats", "zset", "open runs of one user, by when they were asked for", "take_seat, name_…"),)

#: For who follows all sessions: an id says where to go on, and the row is read where it is.
CHANGE_KEYS = (Key("changes", ":changes", "stream", "whose row changed, the last 10 000", "note_change"),)

#: How many messages there were, as far as whoever asks for metrics was told.
TALLY_KEYS = (Key("tally", ":tally", "hash", "messages, and up to when sessions were looked at", "tally_messages"),)

#: Groups of keys that one script may touch together, by the word script headers use.
KEY_GROUPS = {
    "session": SESSION_KEYS,
    "index": INDEX_KEYS,
    "quarantine": QUARANTINE_KEYS,
    "barrier": BARRIER_KEYS,
    "lease": LEASE_KEYS,
    "queue": QUEUE_KEYS,
    "routed": ROUTED_KEYS,
    "worker": WORKER_KEYS,
    "discussion": DISCUSSION_KEYS,
    "discussion_index": DISCUSSION_INDEX_KEYS,
    "work": WORK_KEYS,
    "work_index": WORK_INDEX_KEYS,
    "parcel": PARCEL_KEYS,
    "binding": BINDING_KEYS,
    "token": TOKEN_KEYS,
    "answer": ANSWER_KEYS,
    "ledger": LEDGER_KEYS,
    "seat": SEAT_KEYS,
    "tally": TALLY_KEYS,
    "change": CHANGE_KEYS,
}

#: Group → names of its keys, in the order every script gets them.
NAMES = {group: tuple(key.name for key in keys) for group, keys in KEY_GROUPS.items()}

#: The streams a follower reads, all in one id space.
FOLLOWED = ("events", "messages", "outputs")


#: Job ids have letters, digits, `_` and `-`; a `_` follows the namespace, so it has none itself.
_IN_JOB_IDS = str.maketrans({"-": "--", "_": "-u", ".": "-d"})


def shard_of(session_id: str | bytes) -> int:
    """Return in which shard of the index a session is."""
    return crc32(session_id.encode() if isinstance(session_id, str) else session_id) % SHARDS


def named(index: tuple[str, ...], name: str) -> str:
    """Return one of the keys of an index by its name in the table."""
    return index[NAMES["index"].index(name)]


class Keyspace:
    """Spell the keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.shards = tuple(self._tagged(f"index-{number:02d}", INDEX_KEYS) for number in range(SHARDS))
        #: The index of earlier versions, which was one: read and kept up to date as long as one of them uses it.
        self.earlier_index = self._tagged("index", INDEX_KEYS)
        self.indexes = (*self.shards, self.earlier_index)
        self.quarantine = self._tagged("index", QUARANTINE_KEYS)
        self.discussion_index = self._tagged("index", DISCUSSION_INDEX_KEYS)
        self.work_index = self._tagged("index", WORK_INDEX_KEYS)
        self.token = self._tagged("serve", TOKEN_KEYS)
        self.tally = self._tagged("index", TALLY_KEYS)
        self.change = self._tagged("index", CHANGE_KEYS)
        self._ledger = self._tagged("@ledger", LEDGER_KEYS)
        self.worker = self._tagged("@workers", WORKER_KEYS)
        self.session = lru_cache(maxsize=1024)(self._session)
        self.followed = lru_cache(maxsize=64)(self._followed)
        self.work = lru_cache(maxsize=1024)(self._work)

    def _tagged(self, tag: str, keys: tuple[Key, ...]) -> tuple[str, ...]:
        return tuple(f"{self.namespace}:{{{tag}}}{key.suffix}" for key in keys)

    def patterns(self) -> tuple[str, ...]:
        """Return what matches every key of this namespace and no other's, as a server's access list writes it."""
        return (f"{self.namespace}:*",)

    def patterns_of_terminals(self) -> tuple[str, ...]:
        """Return what matches the keys that a terminal may write: all but those whose tag begins with `@`."""
        return (f"{self.namespace}:{{[^@]*",)

    def ledger_patterns(self) -> tuple[str, ...]:
        """Return what matches the ledger and the list of workers, which a terminal only reads."""
        return (f"{self.namespace}:{{@*",)

    @property
    def job_prefix(self) -> str:
        """Return what ids of this namespace's jobs begin with: in RQ's letters, and with no other namespace's."""
        return self.namespace.translate(_IN_JOB_IDS)

    def queue_patterns(self) -> tuple[str, ...]:
        """Return what matches the keys of RQ's that a run's job is put into."""
        return (f"rq:job:{self.job_prefix}_*", f"rq:queue:{self.namespace}")

    def worker_patterns(self) -> tuple[str, ...]:
        """Return what matches the keys of RQ's that say which workers listen."""
        return (f"rq:workers:{self.namespace}", f"rq:worker:{self.namespace}@*")

    def working_patterns(self) -> tuple[str, ...]:
        """Return what matches the keys of RQ's that a worker of this namespace uses; none is shared with another."""
        jobs = self.job_prefix
        # The second one is where RQ looks for what a job depends on.
        of_jobs = (f"rq:{name}:{jobs}_*" for name in ("job", "job:", "results", "execution", "executions"))
        lists = (
            "queue",
            "queues",
            "workers",
            "wip",
            "finished",
            "failed",
            "deferred",
            "scheduled",
            "canceled",
            "clean_registries",
        )
        own = (f"rq:{name}:{self.namespace}" for name in lists)
        return (*of_jobs, *own, f"rq:queue:{self.namespace}:*", f"rq:worker:{self.namespace}@*")

    def _session(self, session_id: str) -> tuple[str, ...]:
        """Return all keys of a session, in table order."""
        return self._tagged(session_id, SESSION_KEYS)

    def of_session(self, session_id: str, name: str) -> str:
        """Return one key of a session by its name in the table."""
        return str(self.session(session_id)[NAMES["session"].index(name)])

    def of_sessions(self, ids: Iterable[str], name: str) -> list[str]:
        """Return one key of many sessions; a whole set of keys for each would cost eight times as much."""
        prefix, suffix = f"{self.namespace}:{{", "}" + SESSION_KEYS[NAMES["session"].index(name)].suffix
        return [prefix + session_id + suffix for session_id in ids]

    def records(self, ids: Iterable[str]) -> list[str]:
        """Return the keys of many sessions' records."""
        return self.of_sessions(ids, "session")

    def barrier(self, beside: str) -> str:
        """Return the key to write behind a change of `beside`, on the same node."""
        return beside.partition("}")[0] + "}" + BARRIER_KEYS[0].suffix

    def lease(self, task: str) -> tuple[str, ...]:
        """Return the key that says who does something for the team."""
        return self._tagged(task, LEASE_KEYS)

    def ledger(self, day: str = "-", session_id: str = "-") -> tuple[str, ...]:
        """Return the keys of the ledger, with those of a day and of a session."""
        *found, of_day, of_session = self._ledger
        return (*found, of_day.replace("<date>", day), of_session.replace("<session>", session_id))

    def seat(self, user_digest: str) -> tuple[str, ...]:
        """Return the key of a user's open runs."""
        return self._tagged(user_digest, SEAT_KEYS)

    def index(self, session_id: str | bytes) -> tuple[str, ...]:
        """Return the keys of the shard of the index that a session is in."""
        return self.shards[shard_of(session_id)]

    def of_index(self, name: str, session_id: str) -> str:
        """Return one key of a session's shard of the index by its name in the table."""
        return named(self.index(session_id), name)

    def all_of(self, name: str) -> tuple[str, ...]:
        """Return the keys of a name in every shard of the index, and last that of the earlier one."""
        return tuple(named(keys, name) for keys in self.indexes)

    def discussion(self, discussion_id: str) -> tuple[str, ...]:
        """Return all keys of a discussion, in table order."""
        return self._tagged(discussion_id, DISCUSSION_KEYS)

    def _followed(self, session_id: str) -> tuple[str, ...]:
        """Return the streams a follower of this session reads."""
        return tuple(self.of_session(session_id, name) for name in FOLLOWED)

    def queue(self, job_id: str, profile: str = "") -> tuple[str, ...]:
        """Return the keys that a job is put into: RQ's queue of the namespace, or the list of a worker's profile."""
        return (f"rq:job:{job_id}", self.routed(profile) if profile else f"rq:queue:{self.namespace}")

    def routed(self, profile: str) -> str:
        """Return the list that workers of a profile wait on."""
        return f"{self.namespace}:{{queue}}:{profile}"

    @property
    def queue_workers(self) -> str:
        """Return the key of RQ's that names the workers of this namespace."""
        return f"rq:workers:{self.namespace}"

    def parcel(self, token: str) -> tuple[str, ...]:
        """Return the keys of a parcel."""
        return self._tagged(token, PARCEL_KEYS)

    def binding(self, digest: str) -> tuple[str, ...]:
        """Return the key that says what a framework's key is bound to."""
        return tuple(f"{self.namespace}:{{{digest}}}{key.suffix}" for key in BINDING_KEYS)

    def answer(self, digest: str) -> str:
        """Return the key of what was answered to a request."""
        return self._tagged(digest, ANSWER_KEYS)[0]

    def _work(self, work_id: str) -> tuple[str, ...]:
        """Return all keys of a work session, in table order."""
        return self._tagged(work_id, WORK_KEYS)

    def of_work(self, work_id: str, name: str) -> str:
        """Return one key of a work session by its name in the table."""
        return str(self.work(work_id)[NAMES["work"].index(name)])
