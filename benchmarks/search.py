"""Searching 10 000 archived sessions of 20 messages, beside bare FTS5 on the same rows and grep over the archive."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.archive import ROUNDS, in_turns
from benchmarks.rig import Rig, Row, race, rig, row
from maestro_state.clock import iso
from maestro_state.fs.entry import FileEntry
from maestro_state.mirror.layouts import session as layout

SESSIONS, MESSAGES, WORDS = 10_000, 20, 40
#: A rare word, a common one, two words, words in a row, and the beginning of a word; FTS5 has them in the same words.
QUESTIONS = ("needle", "word17", "word3 word40", '"word1 word2"', "word12*")
LIMIT = 20
#: When the first message was said.
BEGIN_MS = 1_790_000_000_000


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with rig() as bench:
        rows = fill(bench)
        maestro = bench.maestro
        maestro.search.rebuild()
        bare = bare_index(bench.folder / "bare.db", rows)
        totals = [maestro.search.find(question).total for question in QUESTIONS]
        assert totals == [count(bare, question) for question in QUESTIONS], totals
        figures = race(
            {
                "ours": lambda: [maestro.search.find(question, limit=LIMIT) for question in QUESTIONS],
                "bare": lambda: [ask(bare, question) for question in QUESTIONS],
            },
            calls=20,
        )
        named = f"search {SESSIONS} sessions, {len(QUESTIONS)} questions"
        yield row(named, figures, "ours", "bare", limit=1.5)
        sessions = str(bench.folder / ".maestro" / "sessions")
        program = "rg" if shutil.which("rg") else "grep"
        words = [program, "-c", "needle", sessions] if program == "rg" else [program, "-rc", "needle", sessions]
        ours, theirs = in_turns(
            lambda: maestro.search.find("needle", limit=LIMIT),
            lambda: subprocess.run(words, capture_output=True, check=True),
        )
        yield Row("search for needle", f"{program} over the archive", ours, theirs, "ms", faster=20)
        yield from checkpoints(bench)


def checkpoints(bench: Rig) -> Iterator[Row]:
    """Yield what a checkpoint costs in a project that has an index, beside one in a project that has none."""
    maestro, session = bench.maestro, bench.maestro.sessions.start("checkpointed")
    cache, aside = bench.folder / ".maestro" / "cache", bench.folder / "aside"

    def checkpoint() -> None:
        for number in range(10):
            maestro.messages.add("user", f"one more {number}", session.id)
            maestro.archive.checkpoint(session.id)

    maestro.search.find("more")
    maestro.search.close()
    indexed, without = [], []
    for _ in range(ROUNDS):
        indexed += in_turns(checkpoint, rounds=1)
        cache.rename(aside)
        without += in_turns(checkpoint, rounds=1)
        aside.rename(cache)
    yield Row("10 checkpoints beside an index", "without one", median(indexed), median(without), "ms", limit=1.1)


def fill(bench: Rig) -> list[tuple[int, str, str, str]]:
    """Write the archives, each as a real one is; return their messages: when, session, id and text."""
    maestro, chance = bench.maestro, random.Random(1)
    example = maestro.sessions.start("example")
    maestro.messages.add("user", "x")
    maestro.sessions.end()
    place = Path(maestro.places.own.path_of(example.id))
    record, session = (place / layout.RECORD).read_bytes(), msgspec.json.decode((place / layout.SESSION).read_bytes())
    fixed = {name: (place / name).read_bytes() for name in (layout.ACTIVE, layout.RELEVANT)}
    rows: list[tuple[int, str, str, str]] = []
    vocabulary = [f"word{number}" for number in range(2000)]
    weights = [1 / (number + 3) for number in range(len(vocabulary))]
    for number in range(SESSIONS):
        session_id, lines = f"bench--{number:06d}", []
        for at in range(MESSAGES):
            ms = BEGIN_MS + number * 60_000 + at * 1000
            text = " ".join(chance.choices(vocabulary, weights, k=WORDS))
            if number % 1000 == 7 and at == 3:
                text += " needle"
            rows.append((ms, session_id, f"{ms}-0", text))
            lines.append({"id": f"{ms}-0", "role": "user", "content": text, "timestamp": iso(ms)})
        own = session | {"id": session_id, "session_id": session_id, "slug": "bench"}
        files = fixed | {
            layout.SESSION: layout.pretty(own), layout.RECORD: record, layout.MESSAGES: layout.json_lines(lines),
            layout.EVENTS: b"",
        }  # fmt: skip
        _write(place.parent / session_id, session_id, files)
    return rows


def _write(folder: Path, session_id: str, files: dict[str, bytes]) -> None:
    entries = {}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        entries[name] = FileEntry(layout.sha256(content), len(content))
    manifest = layout.Manifest(
        format=layout.FORMAT, session_id=session_id, generation=1, written_at=iso(BEGIN_MS), last_id="1-0",
        files=entries,
    )  # fmt: skip
    (folder / layout.MANIFEST).write_bytes(layout.encode_manifest(manifest))


def bare_index(path: Path, rows: list[tuple[int, str, str, str]]) -> sqlite3.Connection:
    """Make the least that answers the same questions."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE VIRTUAL TABLE bare USING fts5 (content, session UNINDEXED, entry UNINDEXED, prefix='2 3', "
        "tokenize='unicode61 remove_diacritics 2')"
    )
    database.executemany(
        "INSERT INTO bare (content, session, entry) VALUES (?, ?, ?)",
        ((text, session_id, entry) for _, session_id, entry, text in sorted(rows)),
    )
    database.commit()
    return database


def ask(database: sqlite3.Connection, question: str) -> tuple[list[object], int]:
    """Ask it for the newest hits, with snippets, and for how many there are."""
    found = database.execute(
        "SELECT session, entry, snippet(bare, 0, '«', '»', '…', 24) FROM bare WHERE bare MATCH ? "
        "ORDER BY rowid DESC LIMIT ?",
        (question, LIMIT),
    ).fetchall()
    return found, count(database, question)


def count(database: sqlite3.Connection, question: str) -> int:
    """Ask it how many hits there are."""
    return int(database.execute("SELECT count(*) FROM bare WHERE bare MATCH ?", (question,)).fetchone()[0])
