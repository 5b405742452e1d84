"""What `maestro export` wrote, and zips of archives, come back: whole, checked, and never over what is there."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import msgspec
import pytest

from maestro_state import Maestro
from maestro_state._sync.archived import Archived
from maestro_state.api.export import write_export
from maestro_state.errors import InvalidValue, PathNotFound
from tests.support.histories import archived, said, two_turns


@pytest.fixture
def origin(tmp_path: Path):
    (tmp_path / "shop" / ".maestro").mkdir(parents=True)
    with Maestro(
        tmp_path / "shop", environment={"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
    ) as one:
        two_turns(tmp_path / "c", one.project.path).write()
        yield one


@pytest.fixture
def other(tmp_path: Path):
    (tmp_path / "other" / ".maestro").mkdir(parents=True)
    with Maestro(tmp_path / "other", environment={"HOME": str(tmp_path)}) as one:
        yield one


@pytest.fixture
def session_id(origin: Maestro) -> str:
    return origin.histories.import_("claude").imported[0].session_id


def exported(origin: Maestro, session_id: str, form: str, path: Path) -> Path:
    file = io.BytesIO()
    write_export(Archived(archived(origin, session_id)), form, file, limit=1 << 20)
    path.write_bytes(file.getvalue())
    return path


def zipped(origin: Maestro, session_id: str, path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    folder = Path(origin.places.own.path_of(session_id))
    with zipfile.ZipFile(path, "w", method) as file:
        for one in sorted(folder.rglob("*")):
            if one.is_file():
                file.write(one, f"{session_id}/{one.relative_to(folder)}")
    return path


def told(maestro: Maestro, session_id: str) -> tuple[object, ...]:
    one = archived(maestro, session_id)
    record = msgspec.to_builtins(one.record())
    return record, [each.document() for each in one.messages()], one.runs(), [each.document() for each in one.events()]


def test_an_exported_document_comes_back_whole(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path):
    """Record, messages, runs, events, prompts and outputs are those that were exported; again is nothing."""
    path = exported(origin, session_id, "json", tmp_path / "one.json")
    (row,) = other.histories.import_files([path]).imported
    assert (row.session_id, row.status, row.messages, row.runs) == (session_id, "new", 8, 2)
    assert (row.tokens.input, row.tokens.cache_read, row.tokens.cache_write, row.tokens.output) == (40, 12, 8, 16)
    assert told(other, session_id) == told(origin, session_id)
    assert b"".join(archived(other, session_id).output("0002")) == b"fixed"
    assert archived(other, session_id).prompt("0001") == b"why does the login fail?"
    assert other.archive.verify_all().ok
    assert [one.status for one in other.histories.import_files([path]).imported] == ["unchanged"]


def test_a_page_comes_back_as_its_conversation(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path):
    """Who said what and when; what is only shown on it stays there."""
    path = exported(origin, session_id, "md", tmp_path / "one.md")
    (row,) = other.histories.import_files([path]).imported
    assert (row.status, row.runs) == ("new", 0)
    assert said(other, session_id) == said(origin, session_id)
    times = [one.timestamp for one in archived(origin, session_id).messages()]
    assert [one.timestamp for one in archived(other, session_id).messages()] == times
    assert archived(other, session_id).record().project_context["import"]["source"] == "page"
    assert other.archive.verify_all().ok


@pytest.mark.parametrize("ending", ["json", "md", "zip"])
def test_a_pipe_is_not_waited_for(other: Maestro, tmp_path: Path, ending: str):
    """Nobody writes to it."""
    os.mkfifo(tmp_path / f"one.{ending}")
    report = other.histories.import_files([tmp_path / f"one.{ending}"])
    assert [one.reason for one in report.errors] == ["is not a file"]


def test_a_zipped_archive_comes_back(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path):
    """Every file as it was; a newer one of the same session is one more generation, an older one is refused."""
    path = zipped(origin, session_id, tmp_path / "one.zip")
    assert [one.status for one in other.histories.import_files([path]).imported] == ["new"]
    assert told(other, session_id) == told(origin, session_id)
    assert [one.status for one in other.histories.import_files([path]).imported] == ["unchanged"]
    two_turns(tmp_path / "c", origin.project.path).ask("more").answer("done", answer="msg-8").write()
    origin.histories.import_("claude")
    newer = zipped(origin, session_id, tmp_path / "two.zip")
    assert [one.status for one in other.histories.import_files([newer]).imported] == ["updated"]
    report = other.histories.import_files([path])
    assert (report.imported, len(report.errors)) == ([], 1)
    assert other.archive.verify_all().ok


@pytest.mark.parametrize(
    "name", ["../../escape.txt", "/tmp/escape.txt", "runs/0001/../../x", "exports/x.md", "evil.py"]
)
def test_names_in_a_zip_do_not_lead_outside(
    origin: Maestro, other: Maestro, session_id: str, tmp_path: Path, name: str
):
    """What no manifest names is not unpacked, whatever it is called."""
    path = zipped(origin, session_id, tmp_path / "one.zip")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(f"{session_id}/{name}" if not name.startswith("/") else name, "escaped")
    other.histories.import_files([path])
    assert not [one for one in tmp_path.rglob("*") if one.name in ("escape.txt", "evil.py", "x", "x.md")]
    assert other.archive.verify_all().ok


def test_a_zip_that_lies_is_refused_and_leaves_nothing(
    origin: Maestro, other: Maestro, session_id: str, tmp_path: Path
):
    """Another content, a missing file, a name twice, a bomb, no manifest: named, and no session is made of it."""
    good = zipped(origin, session_id, tmp_path / "one.zip")
    with zipfile.ZipFile(good) as file:
        parts = {one.filename: file.read(one) for one in file.infolist()}
    session, manifest = f"{session_id}/session.json", f"{session_id}/manifest.json"
    lies = {
        "changed": parts | {session: parts[session].replace(b"finalizada", b"finalizadA")},
        "missing": {name: one for name, one in parts.items() if name != session},
        "bomb": parts | {session: b" " * (64 << 20)},
        "bomb of a manifest": parts | {manifest: b" " * (32 << 20) + parts[manifest]},
        "bare": {"readme.txt": b"hello"},
    }
    for name, contents in lies.items():
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for member, content in contents.items():
                file.writestr(member, content)
        report = other.histories.import_files([path])
        assert (report.imported, len(report.errors)) == ([], 1), name
    (tmp_path / "torn.zip").write_bytes(good.read_bytes()[:-200])
    assert len(other.histories.import_files([tmp_path / "torn.zip"]).errors) == 1
    assert not other.places.own.ids()


@pytest.mark.parametrize("part", ["messages", "events", "context", "runs"])
def test_an_id_that_is_there_twice_is_damage(
    origin: Maestro, other: Maestro, session_id: str, tmp_path: Path, part: str
):
    """A document that says two things of one entry is named as damaged, and no session is made of it."""
    path = exported(origin, session_id, "json", tmp_path / "one.json")
    document = json.loads(path.read_text())
    assert other.histories.import_files([path], dry_run=True).errors == []
    blob = {"blob": "../blobs/ctx-0001.txt", "digest": "0" * 64}
    item = {"id": "ctx-0001", "kind": "text", "source": {}, "snapshot": blob, "state": "active"}
    entry = document[part][0] if document[part] else item
    document[part] += [entry, entry]
    path.write_text(json.dumps(document))
    (failure,) = other.histories.import_files([path]).errors
    assert "twice" in failure.reason
    assert not other.places.own.ids()


@pytest.mark.parametrize("member", ["manifest.json", "session.json"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_named_however_it_was_packed(
    origin: Maestro, other: Maestro, session_id: str, tmp_path: Path, method: int, member: str
):
    """Each way of packing has an error of its own for what is damaged; whole, each is taken."""
    path = zipped(origin, session_id, tmp_path / "one.zip", method)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        told = file.getinfo(f"{session_id}/{member}")
    data = bytearray(whole)
    for at in range(told.header_offset + 100, told.header_offset + 130):
        data[at] ^= 0xFF
    path.write_bytes(data)
    (error,) = other.histories.import_files([path]).errors
    assert "Success" not in error.reason
    assert not other.places.own.ids()
    path.write_bytes(whole)
    assert len(other.histories.import_files([path]).imported) == 1


@pytest.mark.parametrize("content", ["é", "e", "e==="])
def test_bytes_that_are_none_are_named(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path, content: str):
    """What should be base64 may be anything; whole, the document is taken."""
    path = exported(origin, session_id, "json", tmp_path / "one.json")
    document = json.loads(path.read_bytes())
    document["context"] = [{"id": "ctx-0001", "kind": "text", "source": {}, "snapshot": {"blob": "x", "digest": "y"},
                            "state": "active", "content_base64": content}]  # fmt: skip
    path.write_text(json.dumps(document))
    (error,) = other.histories.import_files([path]).errors
    assert "is damaged" in error.reason
    document["context"][0]["content_base64"] = "eA=="
    path.write_text(json.dumps(document))
    assert len(other.histories.import_files([path]).imported) == 1


def test_what_is_no_export_is_named(other: Maestro, tmp_path: Path):
    """Any JSON, any page, nothing at all; a document whose ids lead outside."""
    evil = {"format": 1, "session": {"id": "a--bbbbbb", "state": "finalizada"}, "runs": [{"id": "../../x"}]}
    for name, content in (("a.json", "{}"), ("b.json", "[]"), ("c.md", "# hello\n"), ("d.json", json.dumps(evil))):
        (tmp_path / name).write_text(content)
        report = other.histories.import_files([tmp_path / name])
        assert (report.imported, len(report.errors)) == ([], 1), name
    with pytest.raises(PathNotFound):
        other.histories.import_files([tmp_path / "nowhere.json"])
    with pytest.raises(InvalidValue):
        other.histories.import_files([tmp_path])
    assert not other.places.own.ids()


def test_an_event_of_another_form_stays_what_it_is(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path):
    """A document may come from anybody: what an event tells is kept, whatever it is."""
    path = exported(origin, session_id, "json", tmp_path / "one.json")
    document = json.loads(path.read_text())
    (event, *_) = [one for one in document["events"] if one["type"] == "run.finished"]
    event["data"]["run"] = {"odd": []}
    path.write_text(json.dumps(document))
    assert [one.status for one in other.histories.import_files([path]).imported] == ["new"]
    assert event["data"] in [one.data for one in archived(other, session_id).events()]
    assert other.archive.verify_all().ok


def test_a_trial_run_takes_nothing_back(origin: Maestro, other: Maestro, session_id: str, tmp_path: Path):
    """With dry_run it is only told."""
    paths = [
        exported(origin, session_id, "json", tmp_path / "one.json"),
        zipped(origin, session_id, tmp_path / "one.zip"),
    ]
    assert [one.status for one in other.histories.import_files(paths, dry_run=True).imported] == ["new", "new"]
    assert not other.places.own.ids()
