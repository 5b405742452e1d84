"""Transcripts of the Claude Agent SDK, kept in Maestro.

    store = MaestroSessionStore()
    options = ClaudeAgentOptions(session_store=store, resume=session_id)

A transcript is one session. What was said is a message with its entry whole; other entries, and those of sub-agents,
are kept beside, each with its place. The summary that lists are made of is folded and written in the step that appends.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from maestro_state.adapters.binding import Adapter, Binding, Entries
from maestro_state.adapters.items import item_in, named, packed, read, shown, text_of, written
from maestro_state.adapters.lru_cache import LRUCache
from maestro_state.clock import from_iso, new_suffix
from maestro_state.errors import Conflict, SessionNotFound
from maestro_state.models.binding import joined, parts_of
from maestro_state.models.message import Message, id_order
from maestro_state.state.calls.messages import message_of

try:
    from claude_agent_sdk import fold_session_summary
except ImportError as error:
    raise ImportError("this needs the Claude Agent SDK: pip install 'maestro-state[claude]'") from error

KIND = "claude"
#: Where in a batch an entry stands: `token/number`, in the metadata of messages whose batch has other entries too.
PART = "claude_part"
_SUMMARY = "summary"
#: What is kept at a place: `at ID BATCH/NUMBER SUBPATH`, and `at ID - SUBPATH` where all before was taken back.
_AT, _TAKEN_BACK = "at ", "-"
_UUID = "uuid "
#: Keys whose sessions and summaries are remembered.
_REMEMBERED = 1024

Entry = dict[str, Any]
Key = dict[str, str]
#: The id of a message, and its metadata.
_Noted = tuple[str, dict[str, Any]]


class _Known:
    """What this store knows of a transcript; whether that still holds is found out by the step that writes."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.summary: bytes | None = None
        self.is_read = False
        self.uuids: set[str] = set()


class _Row(NamedTuple):
    """A transcript in a list."""

    session_id: str
    mtime: int
    id: str


class _Placed(NamedTuple):
    """An entry, and where it stands: behind which id, in which batch, at which place there."""

    after: tuple[int, int, int]
    batch: str
    number: int
    entry: Entry


class MaestroSessionStore(Adapter):
    """A `SessionStore` of the Claude Agent SDK: all of its methods, on Maestro's server and archive."""

    def __init__(self, **options: Any) -> None:
        """Take `project`, `maestro`, `ttl_seconds` and settings; nothing is opened yet."""
        super().__init__(**options)
        self._known = LRUCache(lambda key: _Known(self.binding(KIND, key)), _REMEMBERED)

    def _of(self, key: Key) -> _Known:
        return self._known.of(joined(key["project_key"], key["session_id"]))

    async def append(self, key: Key, entries: list[Entry]) -> None:
        """Add entries in one step, each `uuid` once; the summary of a transcript is folded in the same step."""
        if not entries:
            return
        known, subpath = self._of(key), key.get("subpath") or ""
        if subpath:
            await known.binding.write(_entries(entries, subpath))
            return
        while True:
            if not known.is_read:
                await self._read_summary(known, entries)
            before = known.summary
            after = _folded(before, key, [one for one in entries if _uuid(one) not in known.uuids])
            step = _entries(entries, "").expect(_SUMMARY, before)
            try:
                await known.binding.write(step if after == before else step.set(_SUMMARY, after))
            except Conflict:  # somebody else appended: their summary is folded into
                known.is_read = False
                continue
            known.summary = after
            known.uuids.update(filter(None, map(_uuid, entries)))
            return

    async def _read_summary(self, known: _Known, entries: list[Entry]) -> None:
        """Read the summary, and which of some entries are there already: they were folded when they came."""
        uuids = {_uuid_name(uuid, ""): uuid for uuid in filter(None, map(_uuid, entries))}
        found = await known.binding.kept([_SUMMARY, *uuids])
        known.summary = found.get(_SUMMARY)
        known.uuids = {uuid for name, uuid in uuids.items() if name in found}
        known.is_read = True

    async def load(self, key: Key) -> list[Entry] | None:
        """Return every entry in the order it was appended; None when there is none."""
        known, subpath = self._of(key), key.get("subpath") or ""
        noted, kept = await known.binding.record(_AT, _noted_in, _noted)
        beside = _kept_at(kept, subpath)
        if not subpath and not beside:
            return _said_in(noted) or None
        said = [] if subpath else [row for row in map(_said_at, noted) if row]
        return _in_order(said + beside) or None

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """List the transcripts of a project, live and archived, with when each was last written to."""
        return [{"session_id": row.session_id, "mtime": row.mtime} for row, _ in await self._summaries(project_key)]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return the summaries of all transcripts of a project."""
        return [
            {"session_id": row.session_id, "mtime": row.mtime, "data": read(summary)}
            for row, summary in await self._summaries(project_key)
        ]

    async def _summaries(self, project_key: str) -> list[tuple[_Row, bytes]]:
        """Return the transcripts that have a summary: others are of sub-agents alone."""
        rows: dict[str, _Row] = {}
        for row in await self.maestro.sessions.list(everything=True):
            if row.bound_to is None or row.bound_to.kind != KIND or row.orphan:
                continue
            project, session_id = parts_of(row.bound_to.key)
            mtime = from_iso(row.updated_at)
            # Of a transcript that was gone on with in a fork, the fork is the one that counts.
            if project == project_key and (session_id not in rows or rows[session_id].mtime < mtime):
                rows[session_id] = _Row(session_id, mtime, row.id)
        kept = await self.kept_in([one.id for one in rows.values()], [_SUMMARY])
        pairs = zip(rows.values(), kept, strict=True)
        return [(one, values[_SUMMARY]) for one, values in pairs if _SUMMARY in values]

    async def delete(self, key: Key) -> None:
        """Remove a transcript with its sub-agents and its archive; of a sub-agent alone, take its entries back."""
        known, subpath = self._of(key), key.get("subpath") or ""
        if not subpath:
            self._known.forget(joined(key["project_key"], key["session_id"]))
            await known.binding.delete()
            return
        kept = await known.binding.kept()
        if not _kept_at(kept, subpath):
            return
        step = Entries().here(_AT, f" {_TAKEN_BACK} {subpath}", b"1")
        for name in kept:
            if name.startswith(_UUID) and _uuid_subpath(name) == subpath:
                step.drop(name)
        with suppress(SessionNotFound):
            await known.binding.write(step, begins=False)

    async def list_subkeys(self, key: Key) -> list[str]:
        """Return the sub-agents of a transcript."""
        kept = await self._of(key).binding.kept(prefix=_AT)
        found = dict.fromkeys(name.split(" ", 3)[3] for name in kept)
        return [subpath for subpath in found if subpath and _kept_at(kept, subpath)]

    async def maestro_id(self, key: Key) -> str | None:
        """Return the id of the session that a transcript is in; None when there is none."""
        return await self._of(key).binding.find()


def _folded(before: bytes | None, key: Key, entries: list[Entry]) -> bytes:
    """Fold entries into a summary as the SDK does it; when it was written is known from the session."""
    previous = before and {"session_id": key["session_id"], "mtime": 0, "data": read(before)}
    return written(fold_session_summary(previous or None, key, entries)["data"])


def _uuid(entry: Entry) -> str | None:
    found = entry.get("uuid")
    return found if isinstance(found, str) and found else None


def _uuid_name(uuid: str, subpath: str) -> str:
    uuid = named(uuid)
    return f"{_UUID}{len(uuid)} {uuid} {subpath}"


def _uuid_subpath(name: str) -> str:
    size, _, rest = name.removeprefix(_UUID).partition(" ")
    return rest[int(size) + 1 :]


def _entries(entries: list[Entry], subpath: str) -> Entries:
    """Make one step of a batch."""
    step = Entries()
    said = [None if subpath else _said(entry) for entry in entries]
    is_mixed = None in said
    token = new_suffix() if is_mixed else ""
    for number, (entry, spoken) in enumerate(zip(entries, said, strict=True)):
        if uuid := _uuid(entry):
            step.once(_uuid_name(uuid, subpath))
        if spoken is None:
            step.here(_AT, f" {token}/{number} {subpath}", msgspec.json.encode(packed(KIND, entry)))
        else:
            role, content, parts = spoken
            place = {PART: f"{token}/{number}"} if is_mixed else {}
            step.message(role, content, metadata=packed(KIND, entry) | place, **parts)
    return step


def _said(entry: Entry) -> tuple[str, str, dict[str, Any]] | None:
    """Return role, text and tool calls of an entry that says something; None for one that only notes something."""
    message = entry.get("message")
    role = entry.get("type")
    if role not in ("user", "assistant") or not isinstance(message, dict) or entry.get("isMeta"):
        return None
    content = message.get("content")
    text = text_of(content)
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = [
        {
            "id": shown(block["id"]),
            "name": shown(str(block.get("name", ""))),
            "arguments": packed("", block.get("input")).get(""),
        }
        for block in blocks
        if block.get("type") == "tool_use" and isinstance(block.get("id"), str) and block["id"]
    ]
    results = [
        {"call_id": shown(block["tool_use_id"]), "content": text_of(block.get("content"))}
        for block in blocks
        if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str) and block["tool_use_id"]
    ]
    if not (text or calls or results):
        return None
    if results:
        role = "tool"
        text = text or shown("\n".join(str(one["content"]) for one in results))
    return role, text, {"tool_calls": calls or None, "tool_results": results or None}


def _noted(message: Message) -> _Noted:
    return message.id, message.metadata or {}


def _noted_in(stored: list[Any]) -> _Noted:
    """Read what is noted with a message from what is stored: straight where it is all that is beside the text."""
    fields = stored[1]
    if len(fields) == 4 and fields[2] == b"metadata":
        return stored[0].decode(), msgspec.json.decode(fields[3])
    return _noted(message_of(stored))


def _said_at(noted: _Noted) -> _Placed | None:
    message_id, metadata = noted
    entry = item_in(KIND, metadata)
    if entry is None:
        return None  # said by somebody else: a transcript is a chain that only its tool can extend
    batch, _, number = str(metadata.get(PART, f"{message_id}/0")).partition("/")
    return _Placed((*id_order(message_id), 0), batch, int(number), entry)


def _said_in(rows: list[_Noted]) -> list[Entry]:
    """Return the entries of a transcript that has no others: as they were written."""
    found = (item_in(KIND, metadata) for _, metadata in rows)
    return [entry for entry in found if entry is not None]


def _kept_at(kept: dict[str, bytes], subpath: str) -> list[_Placed]:
    """Return the entries of a transcript or a sub-agent that are kept beside the messages."""
    rows = [(name.split(" ", 3), value) for name, value in kept.items() if name.startswith(_AT)]
    mine = [(before, part, value) for (_, before, part, owner), value in rows if owner == subpath]
    gone = max((id_order(before) for before, part, _ in mine if part == _TAKEN_BACK), default=(-1, -1))
    found = []
    for before, part, value in mine:
        if part != _TAKEN_BACK and id_order(before) > gone:
            batch, _, number = part.partition("/")
            entry = item_in(KIND, msgspec.json.decode(value))
            found.append(_Placed((*id_order(before), 1), batch, int(number), entry))
    return found


def _in_order(rows: list[_Placed]) -> list[Entry]:
    """Put entries in order: batches as they were written, in each batch as it was given."""
    begins: dict[str, tuple[int, int, int]] = {}
    for row in rows:
        begins[row.batch] = min(row.after, begins.get(row.batch, row.after))
    rows.sort(key=lambda row: (begins[row.batch], row.batch, row.number))
    return [row.entry for row in rows]
