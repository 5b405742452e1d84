"""Archives that travel through the server: whole or not at all, from whichever worker has them, and never believed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import redis

from maestro_state import AsyncMaestro, Maestro
from maestro_state.errors import Conflict, FileCorrupt, NoWorker, Refused, SessionNotFound, WorkFailed
from maestro_state.local.embedded import socket_path
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.state.calls.parcels import BEGIN, END, PART, Piece
from maestro_state.upkeep import pull as pulling
from tests.support.cli_runs import printed, refused
from tests.support.stored import Filler
from tests.support.workshop import Workshop


@pytest.fixture
def laptop(tmp_path_factory):
    """Return another checkout, on another machine as far as its disk goes."""
    folder = tmp_path_factory.mktemp("laptop")
    (folder / ".maestro").mkdir()
    return folder


def address(shop: Workshop) -> str:
    return f"unix://{socket_path(shop.project)}"


def raw(shop: Workshop) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket_path(shop.project)))


def archived(shop: Workshop, name: str = "gone", size: int = 3_000_000) -> str:
    """Archive a session with an output, and have the server let go of it."""
    maestro = shop.open()
    session = maestro.sessions.start(name, note="since monday")
    maestro.messages.add("user", "why?")
    fill = Filler(raw(shop), maestro.server.terms.keys, session.id)
    fill.item(b"print(1)\n")
    fill.item(b"")
    fill.run(os.urandom(size), prompt=b"explain", chunks=8)
    maestro.sessions.end(session.id)
    raw(shop).delete(*maestro.server.terms.keys.session(session.id))
    return session.id


def tree(project: Path, session_id: str) -> dict[str, bytes]:
    folder = project / ".maestro/sessions" / session_id
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {path: content for path, content in found.items() if path != layout.MANIFEST}


def test_an_archive_comes_from_the_worker_that_has_it(shop: Workshop, laptop: Path):
    """By its slug, through the server alone: the same files, verified, in the index, read like any other; once."""
    session_id = archived(shop)
    shop.start_worker(laptop, MAESTRO_REDIS_URL=address(shop))  # one that does not have it
    shop.start_worker()
    env = {"MAESTRO_REDIS_URL": address(shop)}
    done = printed(laptop, "pull", "gone", env=env)
    assert (done["session_id"], done["written"]) == (session_id, True)
    assert tree(laptop, session_id) == tree(shop.project, session_id)
    assert printed(laptop, "verify", session_id, env=env)["ok"]
    there = printed(laptop, "session", "status", "gone", env=env)
    assert there == printed(shop.project, "session", "status", "gone", env=env)
    rows = printed(laptop, "session", "list", env=env)["sessions"]
    assert [(row["id"], row["archived"], row["orphan"]) for row in rows] == [(session_id, True, False)]
    assert printed(laptop, "pull", session_id[-6:], env=env)["written"] is False
    assert not raw(shop).keys("*parcel*")


async def test_the_async_api_pulls_and_ends_alike(shop: Workshop, laptop: Path):
    """The same worker serves both shells: an archive arrives, and an ended session is archived by it."""
    session_id = archived(shop, size=1_000_000)
    shop.start_worker()
    seen: list[tuple[int, int]] = []
    async with AsyncMaestro(laptop, redis_url=address(shop)) as maestro:
        done = await maestro.archive.pull(session_id, lambda *progress: seen.append(progress))
        assert (await maestro.archive.verify(session_id)).ok
    assert done.written
    assert seen[-1] == (done.bytes, done.bytes)
    async with AsyncMaestro(shop.project) as maestro:
        session, told = await maestro.sessions.start("async"), []
        await maestro.sessions.end(told=told.append)
        assert told[0] == "a worker archives it"
        assert (await maestro.archive.verify(session.id)).ok


def test_what_nobody_has_is_not_found_and_nobody_to_ask_is_said(shop: Workshop, laptop: Path):
    """Exit 3 when every worker has said no, 5 when none listens, 2 for what is no reference, 4 for a live session."""
    env = {"MAESTRO_REDIS_URL": address(shop)}
    code, error = refused(laptop, "pull", "gone", env=env)
    assert (code, error["code"]) == (5, "no_worker")
    assert "maestro worker" in error["hint"]
    shop.start_worker()
    shop.start_worker(laptop, MAESTRO_REDIS_URL=address(shop))
    code, error = refused(laptop, "pull", "gone", env=env)
    assert (code, error["code"]) == (3, "session_not_found")
    assert refused(laptop, "pull", "../../etc", env=env)[0] == 2
    live = shop.open().sessions.start("live")
    code, error = refused(laptop, "pull", live.id, env=env)
    assert (code, error["code"]) == (4, "refused")


def test_a_pull_that_is_killed_leaves_nothing_or_the_old_one(shop: Workshop, laptop: Path):
    """Killed in the middle of the way, there is no session; the next pull has all of it, the sweep takes the rest."""
    session_id = archived(shop)
    shop.start_worker()
    code = (
        "import os, signal, sys; from maestro_state import Maestro\n"
        "def show(done, total):\n"
        "    if done > total // 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Maestro(sys.argv[1]).archive.pull(sys.argv[2], show)"
    )
    command = [sys.executable, "-c", code, str(laptop), session_id]
    killed = subprocess.run(command, env=os.environ | {"MAESTRO_REDIS_URL": address(shop)}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert os.listdir(laptop / ".maestro/sessions/.staging")  # control: it had begun to write
    with Maestro(laptop, redis_url=address(shop)) as maestro:
        assert session_id not in maestro.places.own.ids()
        assert maestro.archive.pull(session_id).written
        assert maestro.archive.verify(session_id).ok
        maestro.archive.sweep()
    assert tree(laptop, session_id) == tree(shop.project, session_id)
    assert os.listdir(laptop / ".maestro/sessions/.staging") == []


def test_damage_at_the_sender_is_said_and_not_passed_on(shop: Workshop, laptop: Path):
    """An archive that does not verify where it is stays there."""
    session_id = archived(shop, size=1000)
    (shop.project / ".maestro/sessions" / session_id / "messages.jsonl").write_bytes(b"{}\n")
    shop.start_worker()
    with Maestro(laptop, redis_url=address(shop)) as maestro:
        with pytest.raises(WorkFailed, match=r"damaged: messages\.jsonl"):
            maestro.archive.pull(session_id)
        assert session_id not in maestro.places.own.ids()


def test_an_archive_that_goes_further_here_is_kept(shop: Workshop, laptop: Path):
    """What this checkout has beyond the team's copy is not overwritten."""
    session_id = archived(shop, size=1000)
    shop.start_worker()
    with Maestro(laptop, redis_url=address(shop)) as maestro:
        maestro.archive.pull(session_id)
        folder = laptop / ".maestro/sessions" / session_id
        manifest = layout.decode_manifest((folder / layout.MANIFEST).read_bytes(), session_id)
        later = msgspec.structs.replace(manifest, last_id="9999999999999-0")
        (folder / layout.MANIFEST).write_bytes(layout.encode_manifest(later))
        (folder / "session.json").unlink()  # not whole any more: so it is asked for again
        with pytest.raises(Conflict, match="goes further"):
            maestro.archive.pull(session_id)


ID = "evil--abcdef"
GOOD = {"session.json": b'{"state": "abortada"}', "runs/0001/output.txt": b"x"}


def manifest_of(files: dict[str, bytes], session_id: str = ID) -> bytes:
    entries = {path: layout.FileEntry(layout.sha256(content), len(content)) for path, content in files.items()}
    return layout.encode_manifest(
        layout.Manifest(format=1, session_id=session_id, generation=1, written_at="", last_id="1-0", files=entries)
    )


def announcing(path: str, size: int) -> bytes:
    """Return a manifest in which one file has another size."""
    manifest = layout.decode_manifest(manifest_of(GOOD), ID)
    files = manifest.files | {path: layout.FileEntry(manifest.files[path].sha256, size)}
    return layout.encode_manifest(msgspec.structs.replace(manifest, files=files))


def parcel(manifest: bytes, *parts: tuple[str, bytes], begin: str = ID, end: bool = True) -> list[Piece]:
    pieces = [(BEGIN, begin, b""), (PART, layout.MANIFEST, manifest), *((PART, *part) for part in parts)]
    pieces += [(END, begin, b"")] if end else []
    return [Piece(number, *piece) for number, piece in enumerate(pieces)]


_GOOD = tuple(GOOD.items())
#: Every byte as announced, and still nothing that could be read as a session.
NO_SESSION: dict[str, dict[str, bytes]] = {
    "nothing at all": {},
    "no record": {"runs/0001/output.txt": b"x"},
    "an empty record": {"session.json": b"{}"},
    "an odd state": {"session.json": b'{"state": ["abortada"]}'},
    "a record that is a list": {"session.json": b"[]"},
    "a record that is none": {"session.json": b"[" * 1000},
    "a broken maestro.json": GOOD | {"maestro.json": b"[]"},
    "a broken item": GOOD | {"context/items/ctx-0001.json": b"[]"},
    "a broken message": GOOD | {"messages.jsonl": b"{}\n"},
    "a broken event": GOOD | {"events.jsonl": b"{\n"},
    "a broken end of a chunk": GOOD | {"outputs.jsonl": b"[]\n"},
    "a broken run": GOOD | {"runs/0001/sent_context.json": b"{}"},
}
NO_FILE_OF_A_SESSION = {
    "a program": GOOD | {"runs/0001/run.sh": b"x"},
    "a hidden file": GOOD | {".git/config": b"x"},
    "an export": GOOD | {"exports/page.md": b"x"},
    "a run that is none": GOOD | {"runs/1/output.txt": b"x"},
}
HOSTILE = {
    "a path that leads outside": parcel(manifest_of({"../../evil": b"x"}), ("../../evil", b"x")),
    "an absolute path": parcel(manifest_of({"/tmp/evil": b"x"}), ("/tmp/evil", b"x")),
    "more than announced": parcel(manifest_of(GOOD), ("session.json", GOOD["session.json"] + b" " * 1000), _GOOD[1]),
    "less than announced": parcel(manifest_of(GOOD), ("session.json", b"{"), _GOOD[1]),
    "another content": parcel(manifest_of(GOOD), ("session.json", b"[]"), _GOOD[1]),
    "a file that was not announced": parcel(manifest_of(GOOD), *_GOOD, ("evil.txt", b"x")),
    "a file missing": parcel(manifest_of(GOOD), _GOOD[0]),
    "a file twice": parcel(manifest_of(GOOD), *_GOOD, _GOOD[0]),
    "another session's manifest": parcel(manifest_of(GOOD, "other--abcdef"), *_GOOD),
    "a manifest that is none": parcel(b"[" * 100_000, *_GOOD),
    "a manifest that names itself": parcel(manifest_of({layout.MANIFEST: b"x"}), (layout.MANIFEST, b"x")),
    "a file in the place of a folder": parcel(manifest_of({"runs": b"x"}), ("runs", b"x")),
    "another session than asked for": parcel(manifest_of(GOOD), *_GOOD, begin="other--fedcba"),
    "a name that is no session's": parcel(manifest_of(GOOD), *_GOOD, begin="../../x"),
    "a piece missing": [piece for piece in parcel(manifest_of(GOOD), *_GOOD) if piece.number != 2],
    **{name: parcel(manifest_of(files), *files.items()) for name, files in NO_SESSION.items()},
    **{name: parcel(manifest_of(files), *files.items()) for name, files in NO_FILE_OF_A_SESSION.items()},
    "a terabyte": parcel(announcing("runs/0001/output.txt", 1 << 40), *_GOOD),
    "a record of a gigabyte": parcel(announcing("session.json", 1 << 30), *_GOOD),
    "an odd kind": [Piece(0, BEGIN, ID), Piece(1, "exec", "os.system", b"id")],
}


def fetch(shop: Workshop, laptop: Path, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull while a stranger answers with these pieces."""
    server = raw(shop)
    server.sadd("rq:workers:maestro", "rq:worker:maestro-stranger")
    server.set("rq:worker:maestro-stranger", "", ex=60)
    token = os.urandom(16)
    monkeypatch.setattr(pulling.os, "urandom", lambda _: token)
    key = f"maestro:{{{token.hex()}}}:parcel"
    server.delete(key)
    server.rpush(key, *pieces)
    server.expire(key, 60)
    try:
        with Maestro(laptop, redis_url=address(shop)) as maestro:
            maestro.server.connection.call("PING")
            maestro.archive.pull(ID)
    finally:
        monkeypatch.undo()
        server.delete("rq:workers:maestro", "rq:worker:maestro-stranger")


def test_nothing_a_stranger_sends_is_kept(shop: Workshop, laptop: Path, monkeypatch: pytest.MonkeyPatch):
    """Names, sizes, digests, order and shape are checked; nothing appears, inside or outside; a good one is kept."""
    home = Home.of_project(Project(str(laptop)))
    encoded = {name: [msgspec.msgpack.encode(piece) for piece in pieces] for name, pieces in HOSTILE.items()}
    encoded["not a piece"] = [b"\xff" * 100]
    encoded["a deep one"] = [b"\x91" * 100_000]
    for name, pieces in encoded.items():
        with pytest.raises((FileCorrupt, WorkFailed)) as caught:
            fetch(shop, laptop, pieces, monkeypatch)
        assert not isinstance(caught.value, (NoWorker, SessionNotFound, Refused)), name
        assert home.ids() == set(), name
        assert not (laptop / "evil").exists(), name
        assert not (laptop / ".maestro/evil").exists(), name
    # Control: the same way, a proper one arrives.
    fetch(shop, laptop, [msgspec.msgpack.encode(piece) for piece in parcel(manifest_of(GOOD), *_GOOD)], monkeypatch)
    assert home.ids() == {ID}
    assert tree(laptop, ID) == GOOD


def test_what_a_stranger_sends_never_takes_the_place_of_an_archive(
    shop: Workshop, laptop: Path, monkeypatch: pytest.MonkeyPatch
):
    """The archive that is there stays to the byte, whatever comes; a proper one puts it into the trash."""
    mine = GOOD | {"runs/0001/prompt.txt": b"mine", "messages.jsonl": b""}

    def send(files: dict[str, bytes]) -> None:
        pieces = parcel(manifest_of(files), *files.items())
        fetch(shop, laptop, [msgspec.msgpack.encode(piece) for piece in pieces], monkeypatch)

    send(mine | {"session.json": b'{"state": "com_saida"}'})
    before = tree(laptop, ID)
    for name, files in NO_SESSION.items():
        with pytest.raises(FileCorrupt):
            send(files)
        assert tree(laptop, ID) == before, name
    assert not (laptop / ".maestro/trash").exists()
    assert os.listdir(laptop / ".maestro/sessions/.staging") == []
    send(GOOD)  # control: the same way, one that is a session is taken
    assert tree(laptop, ID) == GOOD
    (trashed,) = (laptop / ".maestro/trash").iterdir()
    kept = {str(path.relative_to(trashed)): path.read_bytes() for path in trashed.rglob("*") if path.is_file()}
    assert {path: content for path, content in kept.items() if path != layout.MANIFEST} == before
