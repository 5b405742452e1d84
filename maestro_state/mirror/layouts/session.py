"""What an archived session looks like on disk: names, paths, the manifest. Pure.

session.json                       the record
context/active.json                ids of the active items, in order
context/items/ctx-0001.json        one item each, removed ones too
context/blobs/ctx-0001.txt         its content
runs/0001/{meta,sent_context}.json, prompt.txt, output.txt, and {stdin,history,project}.txt where it was sent them
outputs/{last_output,relevant}.json
exports/                           what `maestro export` wrote

Beside it, what that layout has no place for:

runs/0001/activity.jsonl           what the run's agent did, one line each
kept.jsonl                         what a framework keeps of its own in a session bound to a key of it: name, value
messages.jsonl  events.jsonl  outputs.jsonl    one line each, in order of their ids; outputs only where chunks end
maestro.json                       everything of the record that session.json has no field for, and the whole contents
manifest.json                      every file with its SHA-256, and how far the archive goes
secrets.json                       where tools printed what looks like a secret; only if there is something, not in the
                                   manifest
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from itertools import repeat
from typing import Any

import msgspec

from maestro_state.errors import FileCorrupt, NewerFormat
from maestro_state.fs.entry import FileEntry
from maestro_state.models.context import ContextItem
from maestro_state.models.run import RelevantOutput, Run
from maestro_state.models.undecodable import UNDECODABLE

SESSION, ACTIVE, LAST_OUTPUT, RELEVANT = (
    "session.json", "context/active.json", "outputs/last_output.json", "outputs/relevant.json",
)  # fmt: skip
MESSAGES, EVENTS, CHUNKS, KEPT = "messages.jsonl", "events.jsonl", "outputs.jsonl", "kept.jsonl"
RECORD, MANIFEST = "maestro.json", "manifest.json"

#: Folders every archive has, filled or not.
FOLDERS = ("context", "context/items", "context/blobs", "runs", "outputs", "exports")

#: Largest JSON file that is read whole: far above what people write. maestro.json repeats for every run what it was
#: given, and a prompt or a snapshot is whatever the server took.
JSON_LIMIT = 64 * 1024 * 1024
RECORD_LIMIT = 256 * 1024 * 1024
CONTENT_LIMIT = 512 * 1024 * 1024

#: Largest output, and stream, that is taken for one: the largest that a setting allows.
OUTPUT_LIMIT = 16 << 30

#: Values that are always read, and bytes that each of more than that takes up at least: written in three, a value costs
#: two hundred of memory. Digests and ids take more than that by themselves.
VALUES_MAX = 250_000
_VALUE_BYTES = 40

#: Longest line of the streams: the largest message there can be, every character of it escaped.
LINE_LIMIT = 6 * 16 * 1024 * 1024 + 1024 * 1024

#: Format of manifest.json and maestro.json.
FORMAT = 1

ITEM_ID = re.compile(r"ctx-[0-9]{4,9}", re.ASCII)
RUN_ID = re.compile(r"[0-9]{4,9}", re.ASCII)
_OWN = re.compile(
    r"(session|maestro|manifest)\.json|(messages|events|outputs|kept)\.jsonl|context/active\.json"
    r"|outputs/(last_output|relevant)\.json|context/items/ctx-[0-9]{4,9}\.json|context/blobs/ctx-[0-9]{4,9}\.txt"
    r"|runs/[0-9]{4,9}/(meta\.json|sent_context\.json|activity\.jsonl|(prompt|output|stdin|history|project)\.txt)",
    re.ASCII,
)
_LASTING = ("/prompt.txt", "/sent_context.json", "/stdin.txt", "/history.txt", "/project.txt")
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: A string of JSON, also one that never ends; takes no second look at any byte.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


class Removal(msgspec.Struct, frozen=True):
    """A file that was removed on purpose."""

    sha256: str
    size: int
    removed_at: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of one generation of an archive."""

    format: int
    session_id: str
    generation: int
    written_at: str
    last_id: str  #: the session's last event when this was written; "" when it was not written from a server
    files: dict[str, FileEntry]
    removed: dict[str, Removal] = {}
    digest: str = ""  #: SHA-256 of this manifest with an empty digest


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`maestro.json`: the session as Maestro needs it to give every answer it gave while it was live."""

    format: int = FORMAT
    fields: dict[str, Any]  #: the fields of the record that session.json has no place for
    items: list[ContextItem] = []
    runs: list[Run] = []
    relevant: list[RelevantOutput] = []


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A line of `kept.jsonl`: bytes of any kind under a name."""

    name: str
    value: bytes


_record = msgspec.json.Decoder(Record).decode
_encoder = msgspec.json.Encoder()


def folders_of(files: Collection[str]) -> set[str]:
    """Return the folders an archive with these files has, the top one by an empty name."""
    return {path.rpartition("/")[0] for path in files} | {"", *FOLDERS}


def _check(form: re.Pattern[str], name: str) -> None:
    """Refuse an id that is none before it becomes a path."""
    if not form.fullmatch(name):
        raise FileCorrupt(f"{name[:80]!r} is not the id of an item or a run")


def item_path(item_id: str) -> str:
    """Return where an item is."""
    _check(ITEM_ID, item_id)
    return f"context/items/{item_id}.json"


def blob_path(item_id: str) -> str:
    """Return where an item's content is."""
    _check(ITEM_ID, item_id)
    return f"context/blobs/{item_id}.txt"


def run_path(run_id: str, name: str) -> str:
    """Return where a file of a run is."""
    _check(RUN_ID, run_id)
    return f"runs/{run_id}/{name}"


#: What a run may be sent besides items of context.
PARTS = ("stdin", "history", "project")


def part_files(run: Run) -> list[tuple[str, str]]:
    """Return where the parts of a run are, and their digests."""
    known = [(str(one.get("id")), str(one.get("digest"))) for one in run.parts]
    return [(run_path(run.id, f"{name}.txt"), digest) for name, digest in known if name in PARTS]


def is_own(path: str) -> bool:
    """Tell whether a path is one that sessions use."""
    return _OWN.fullmatch(path) is not None


def is_lasting(path: str) -> bool:
    """Tell whether a file never changes once it is written."""
    return path.startswith("context/blobs/") or path.endswith(_LASTING)


def grows(path: str) -> bool:
    """Tell whether a file is added to while its session lives."""
    return path.endswith((".jsonl", "/output.txt"))


def named_blob(reference: str) -> str:
    """Return the path of the blob an archive refers to; only its name counts, so nothing leads outside."""
    name = reference.replace("\\", "/").rsplit("/", 1)[-1]
    if not name.endswith(".txt") or not ITEM_ID.fullmatch(name[:-4]):
        raise FileCorrupt(f"the archive refers to {reference[:80]!r}, which is not a blob of its own")
    return f"context/blobs/{name}"


def is_digest(text: str) -> bool:
    """Tell whether a text is a SHA-256 in lower-case hex."""
    return _DIGEST.fullmatch(text) is not None


def is_safe_path(path: str) -> bool:
    """Tell whether a path of a manifest stays inside its folder."""
    parts = path.split("/")
    if len(path) >= 1024 or len(parts) > 4 or "\0" in path:
        return False
    return all(part not in ("", ".", "..") for part in parts)


def is_dense(content: bytes) -> bool:
    """Tell whether JSON packs more values into its bytes than any archive does, without making them."""
    most = max(VALUES_MAX, len(content) // _VALUE_BYTES)
    if content.count(b",") <= most:
        return False
    values = end = 0
    for strings, found in enumerate(_STRING.finditer(content)):  # a text may hold as many commas as it likes
        values += content.count(b",", end, found.start())
        end = found.end()
        if values > most or strings > 2 * most:
            return True
    return values + content.count(b",", end) > most


def are_safe_paths(paths: Collection[str]) -> bool:
    """Tell whether all paths stay inside their folder; a thousand at the price of a few."""
    joined = "/".join(("", *paths, ""))
    # Empty parts show as two slashes, wherever they are; "." and ".." begin like hidden names, which are looked at.
    if not any(map(joined.__contains__, ("//", "/.", "\0"))):
        return max(map(len, paths), default=0) < 1024 and max(map(str.count, paths, repeat("/")), default=0) < 4
    return all(map(is_safe_path, paths))


def pretty(value: Any) -> bytes:
    """Write a document as people read it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def json_line(value: Any) -> bytes:
    """Write one line of JSON Lines."""
    return msgspec.json.encode(value) + b"\n"


def json_lines(values: list[Any]) -> bytes:
    return _encoder.encode_lines(values)


class _Line(msgspec.Struct):
    id: str


_line = msgspec.json.Decoder(_Line).decode


def id_of_line(line: bytes) -> str:
    """Return the id of a line of messages or events."""
    try:
        return _line(line).id
    except UNDECODABLE as error:
        raise FileCorrupt(f"a line is damaged ({error})") from error


def encode_record(record: Record) -> bytes:
    """Write maestro.json."""
    return msgspec.json.encode(record) + b"\n"


def decode_record(content: bytes) -> Record:
    """Read maestro.json, once its digest was checked; raise FileCorrupt for one that was never right."""
    try:
        record = _record(content)
        if record.format > FORMAT:
            raise NewerFormat(RECORD, record.format, FORMAT)
        return record
    except UNDECODABLE as error:
        raise FileCorrupt(f"{RECORD} is damaged ({error})") from error


def limit_of(path: str) -> int:
    """Return how large a file of an archive can be."""
    if path == RECORD:
        return RECORD_LIMIT
    if path.endswith(("/output.txt", ".jsonl")):
        return OUTPUT_LIMIT
    return JSON_LIMIT if path.endswith(".json") else CONTENT_LIMIT


def sha256(content: bytes) -> str:
    """Return a digest as archives write it."""
    return hashlib.sha256(content).hexdigest()


def _digest_of(manifest: Manifest) -> str:
    return sha256(msgspec.json.encode(msgspec.structs.replace(manifest, digest=""), order="sorted"))


def sealed(manifest: Manifest) -> Manifest:
    """Return a manifest with its own digest."""
    return msgspec.structs.replace(manifest, digest=_digest_of(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """Write a manifest with its own digest."""
    return encode_sealed(sealed(manifest))


def encode_sealed(manifest: Manifest) -> bytes:
    """Write a manifest that has its digest already."""
    return msgspec.json.encode(manifest) + b"\n"


_manifest = msgspec.json.Decoder(Manifest).decode


def decode_manifest(content: bytes, session_id: str) -> Manifest:
    """Read a manifest; raise FileCorrupt for one that is damaged, of another session, or leads outside."""
    if is_dense(content):
        raise FileCorrupt(f"{MANIFEST} of {session_id} packs more files together than any session has")
    try:
        manifest = _manifest(content)
    except UNDECODABLE as error:
        raise FileCorrupt(f"{MANIFEST} of {session_id} is damaged ({error})") from error
    if manifest.format > FORMAT:
        raise NewerFormat(f"the archive of {session_id}", manifest.format, FORMAT)
    if manifest.format != FORMAT:
        raise FileCorrupt(f"{MANIFEST} of {session_id} has format {manifest.format}; this Maestro knows {FORMAT}")
    if manifest.session_id != session_id or manifest.digest != _digest_of(manifest):
        raise FileCorrupt(f"{MANIFEST} of {session_id} is damaged (its digest does not fit)")
    if not are_safe_paths([*manifest.files, *manifest.removed]):
        raise FileCorrupt(f"{MANIFEST} of {session_id} names files outside its folder")
    return manifest
