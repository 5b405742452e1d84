"""Calls on the context of a session: add items, take them out, keep their content. Reading is in contents.py."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.errors import ContentTooLarge, InvalidValue, Refused, RunNotFound, WorkFailed
from maestro_state.models.context import ContextItem, Snapshot
from maestro_state.models.run import OPEN, RelevantOutput, Run, ToolOptions, preview
from maestro_state.state.calls.replies import accept
from maestro_state.state.calls.terms import Stamp, Terms
from maestro_state.state.scripts import Call, load
from maestro_state.vocabulary import SessionState

#: A batch is one script call: at most so many items, and no further item once it holds so many bytes. Larger ones are
#: slower, not faster: they no longer fit the caches on their way.
BATCH_ITEMS = 200
BATCH_BYTES = 512 * 1024

#: How many items may be taken out in one call, which is one script: Lua takes no more than a few thousand names.
REMOVE_MAX = 1000

#: From this many items on, the next batch is read while the one before is stored.
AHEAD_ITEMS = 32

#: Longest label, and how many an item may have.
LABEL_MAX, LABELS_MAX = 100, 20

_ITEM_ID = re.compile(r"(?:ctx-)?0*([1-9][0-9]{0,8})", re.ASCII)
_RUN_ID = re.compile(r"0*([1-9][0-9]{0,8})", re.ASCII)
_LINES = re.compile(r"([0-9]{1,9})(-([0-9]{1,9})?)?", re.ASCII)

_encode = msgspec.json.encode

#: The step that the first item is, and back again the removal of the last.
_STEP = (str(SessionState.STARTED), str(SessionState.WITH_CONTEXT))


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item before it has an id."""

    kind: str  #: file, text or output
    source: dict[str, Any]
    content: bytes
    digest: str
    labels: tuple[str, ...] = ()
    notes: str | None = None
    replaces: str = ""  #: the item this one takes the place of

    @property
    def place(self) -> tuple[str, str]:
        """What tells files apart: path and digest; of anything else, the path is empty."""
        return str(self.source.get("path_rel", "")), self.digest

    def as_item(self, number: int) -> ContextItem:
        """Return the item as it is stored under its number."""
        item_id = f"ctx-{number:04d}"
        snapshot = Snapshot(f"../blobs/{item_id}.txt", self.digest)
        return ContextItem(
            id=item_id,
            kind=self.kind,
            source=self.source,
            labels=list(self.labels),
            snapshot=snapshot,
            state="active",
            notes=self.notes,
        )


def digest_of(content: bytes) -> str:
    """Return the digest contents are known by."""
    return hashlib.sha256(content).hexdigest()


def check_size(terms: Terms, name: str, size: int) -> None:
    """Refuse what is larger than one item may be."""
    if size > terms.max_value_bytes:
        raise ContentTooLarge(
            f"{name} is {size} bytes; one item of context holds at most {terms.max_value_bytes}",
            hint="add a part of it, or raise MAESTRO_MAX_BLOB_BYTES",
        )


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels, each once; refuse what is no label."""
    unique = tuple(dict.fromkeys(labels))
    if len(unique) > LABELS_MAX:
        raise InvalidValue(f"an item has at most {LABELS_MAX} labels")
    for label in unique:
        if not label.strip() or len(label) > LABEL_MAX or not label.isprintable():
            raise InvalidValue(f"a label is 1 to {LABEL_MAX} printable characters, not {label!r:.40}")
    return unique


def new_text(terms: Terms, now_ms: int, content: bytes, labels: Iterable[str], notes: str | None) -> NewItem:
    """Make an item of a text."""
    if not content:
        raise InvalidValue("the text is empty")
    check_size(terms, "the text", len(content))
    first = preview(content)
    return NewItem(
        kind="text",
        source={"added_at": iso(now_ms), "size": len(content)} | ({"preview": first} if first else {}),
        content=content,
        digest=digest_of(content),
        labels=check_labels(labels),
        notes=_notes(notes),
    )


def new_file(
    now_ms: int,
    path_rel: str,
    content: bytes,
    mtime_ms: int,
    *,
    labels: tuple[str, ...] = (),
    notes: str | None = None,
    follow: bool = False,
    force: bool = False,
    replaces: str = "",
) -> NewItem:
    """Make an item of a file's content at this moment; `follow` for one that a link out of the project led to.

    `force` for one that is wanted whatever it holds: it stays wanted when it is refreshed.
    """
    digest = digest_of(content)
    source: dict[str, Any] = {
        "path_rel": path_rel,
        "added_at": iso(now_ms),
        "digest": digest,
        "mtime": iso(mtime_ms),
        "size": len(content),
    }
    if follow:
        source["follow"] = True
    if force:
        source["force"] = True
    return NewItem(
        kind="file",
        source=source,
        content=content,
        digest=digest,
        labels=labels,
        notes=_notes(notes),
        replaces=replaces,
    )


def check_refreshable(item: ContextItem) -> None:
    """Refuse an item that has no file to look at again, or is out already."""
    if item.kind != "file":
        raise Refused(f"context item {item.id} is {item.kind}; only files can be refreshed")
    if item.state != "active":
        raise Refused(f"context item {item.id} is removed already", hint="maestro context list")


def new_output(
    terms: Terms,
    now_ms: int,
    run: Run,
    content: bytes,
    lines: str | None,
    *,
    question: bytes,
    is_last: bool,
    notes: str | None,
) -> NewItem:
    """Make an item of a run's output, whole or the lines `A-B` of it, with the question it answers."""
    run_id = run.id
    source: dict[str, Any] = {"run_id": run_id, "added_at": iso(now_ms), "tool": run.tool}
    if question:
        asked = question.decode(errors="replace").strip()
        source["question"] = asked if len(asked) <= _QUESTION_MAX else asked[: _QUESTION_MAX - 1] + "…"
    if lines is not None:
        content = lines_of(content, lines)
        source["lines"] = lines
    if not content:
        raise Refused(f"run {run_id} has no output", hint="maestro runs")
    check_size(terms, f"the output of run {run_id}", len(content))
    source["size"] = len(content)
    return NewItem(
        kind="output",
        source=source,
        content=content,
        digest=digest_of(content),
        labels=("last_output",) if is_last else (),
        notes=_notes(notes),
    )


#: Longest part of a question that an answer carries along, in characters.
_QUESTION_MAX = 2000


def _notes(notes: str | None) -> str | None:
    if notes is not None and len(notes) > 10_000:
        raise InvalidValue("a note has at most 10000 characters")
    return notes or None


def lines_of(content: bytes, lines: str) -> bytes:
    """Return the lines `A-B` of a text, both included, counted from 1; `A-` goes to the end, `A` is one line."""
    first, last = _range_of(lines)
    # Newlines alone make lines: a progress bar's carriage returns do not.
    there = re.findall(rb"[^\n]*\n|[^\n]+", content)
    if first > len(there):
        raise InvalidValue(f"lines {lines}: the output has only {len(there)}")
    return b"".join(there[first - 1 : last])


def last_line_of(lines: str | None) -> int | None:
    """Return the last line that a range needs, None for the whole text."""
    return None if lines is None else _range_of(lines)[1]


def _range_of(lines: str) -> tuple[int, int | None]:
    found = _LINES.fullmatch(lines)
    if found is None:
        raise InvalidValue(f"'{lines[:40]}' is no range of lines", hint="--lines 10-20")
    first = int(found[1])
    last = int(found[3]) if found[3] else None if found[2] else first
    if first < 1 or (last is not None and last < first):
        raise InvalidValue(f"lines {lines}: they count from 1, and the first comes first", hint="--lines 10-20")
    return first, last


def check_promotable(terms: Terms, run: Run, lines: str | None) -> None:
    """Refuse an output that is too large for one item before it is read."""
    if lines is None and run.output_ref is not None:
        check_size(terms, f"the output of run {run.id}", run.output_ref.size or 0)


def check_output(run: Run, content: bytes) -> None:
    """See that an output is whole: what its run recorded when it ended."""
    if run.output_ref and run.output_ref.digest and digest_of(content) != run.output_ref.digest:
        raise WorkFailed(
            f"the output of run {run.id} is not what was recorded: {len(content)} of {run.output_ref.size} bytes"
        )


def item_id_of(text: str) -> str:
    """Return an item's id from how people write it: ctx-0001, 0001 or 1."""
    found = _ITEM_ID.fullmatch(text)
    if found is None:
        raise InvalidValue(f"'{text[:40]}' is not the id of a context item", hint="such as ctx-0001")
    return f"ctx-{int(found[1]):04d}"


def check_removable(item_ids: Iterable[str]) -> list[str]:
    """Return the ids of items to take out, each once; refuse more than can go all or none."""
    unique = list(dict.fromkeys(item_id_of(one) for one in item_ids))
    if len(unique) > REMOVE_MAX:
        raise InvalidValue(
            f"{len(unique)} items are named; at most {REMOVE_MAX} can be taken out at once",
            hint="name fewer, or take all of them out with maestro context clear",
        )
    return unique


def pick_run(session_id: str, runs: Sequence[Run], ref: str) -> Run:
    """Return the run that a number or `last` means, if its output can be taken; `last` is the newest with success."""
    if ref == "last":
        done = [run for run in runs if run.status == "success" and run.output_ref is not None]
        if not done:
            raise RunNotFound(session_id, "last")
        return done[-1]
    found = _RUN_ID.fullmatch(ref)
    if found is None:
        raise InvalidValue(f"'{ref[:40]}' is not the number of a run", hint="0001, or last")
    run = next((run for run in runs if int(run.id) == int(found[1])), None)
    if run is None:
        raise RunNotFound(session_id, ref)
    if run.status in OPEN:
        raise Refused(f"run {run.id} is still {run.status}", hint="wait for it, or maestro cancel")
    return run


def missing_blobs(terms: Terms, session_id: str, digests: Sequence[str]) -> Call:
    """Ask which contents are not there yet; returns a set of digests."""
    return Call(load("missing_blobs"), terms.keys.session(session_id), tuple(digests),
                lambda reply: {digest.decode() for digest in reply[1]})  # fmt: skip


def put_blobs(terms: Terms, stamp: Stamp, session_id: str, contents: dict[str, bytes]) -> Call:
    """Keep contents by their digest; repeatable."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, *(part for pair in contents.items() for part in pair))
    return Call(load("put_blobs"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "adding context"))  # fmt: skip


def add_context(
    terms: Terms, stamp: Stamp, session_id: str, items: Sequence[NewItem], relevant: RelevantOutput | None = None
) -> Call:
    """Append items whose contents are there already; returns the number of the first."""
    marks = (relevant.run_id, _encode(relevant)) if relevant else ("", "")
    rows = [part for item in items for part in _row(item)]
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, *_STEP, *marks, *rows)
    return Call(load("add_context"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "adding context"))  # fmt: skip


def _row(item: NewItem) -> tuple[Any, ...]:
    """Return an item as add_context.lua takes it: its JSON in pieces around the id that the script gives out."""
    before = (
        b'","kind":' + _encode(item.kind) + b',"source":' + _encode(item.source)
        + (b',"labels":' + _encode(item.labels) if item.labels else b"") + b',"snapshot":{"blob":"../blobs/'
    )  # fmt: skip
    notes = b',"notes":' + _encode(item.notes) if item.notes else b""
    after = b'.txt","digest":' + _encode(item.digest) + b'},"state":"active"' + notes + b"}"
    where = item.source.get("path_rel") or item.source.get("run_id") or ""
    return (item.digest, before, after, item.replaces, item.kind, len(item.content), where)


def remove_context(
    terms: Terms, stamp: Stamp, session_id: str, item_ids: Sequence[str], *, is_clearing: bool = False
) -> Call:
    """Take items out of the active list; returns how many. Clearing passes over those that are out already."""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, *reversed(_STEP),
            int(is_clearing), *item_ids)  # fmt: skip
    return Call(load("remove_context"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "removing context"))  # fmt: skip


def set_tool(terms: Terms, stamp: Stamp, session_id: str, tool: str, options: ToolOptions) -> Call:
    """Choose the tool of a session, and the defaults of its runs."""
    stored = msgspec.json.encode(options) if options != ToolOptions() else b""
    args = (stamp.idempotency_key, stamp.now_ms, terms.grace_ms, terms.user, tool, stored)
    return Call(load("set_tool"), terms.keys.session(session_id), args,
                lambda reply: accept(reply, session_id, "choosing a tool"))  # fmt: skip
