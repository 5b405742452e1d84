"""Archives by other programs, damaged ones and hostile ones: read, named, or refused; never followed outside."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maestro_state import Maestro
from maestro_state.errors import FileCorrupt, MaestroError, SessionNotFound
from maestro_state.local.project import Project
from maestro_state.mirror.home import Home, team_folder
from maestro_state.mirror.layouts.session import are_safe_paths, is_safe_path, named_blob
from maestro_state.mirror.reader import ArchivedSession, index_rows
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, write_generation
from tests.support.stored import digest_of

OTHER = "outro-programa--x1y2z3"


def write(folder: Path, files: dict[str, object]) -> None:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.fixture
def foreign(project: Path) -> Path:
    """Return a session as another program would leave it: no index, no manifest, optional fields missing."""
    folder = project / ".maestro/sessions" / OTHER
    content, output = b"conte\xc3\xbado\n", b"resposta\n"
    write(folder, {
        "session.json": {
            "id": OTHER, "slug": "outro-programa", "state": "com_saida", "tool_active": "llm -m 'um modelo'",
            "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:06.123456+00:00",
            "counters": {"run_seq": 1, "ctx_seq": 2}, "stats": {"runs_total": 1},
        },
        "context/active.json": {"items": ["ctx-0001"]},
        "context/items/ctx-0001.json": {
            "id": "ctx-0001", "kind": "file", "source": {"path_rel": "a.md"},
            "snapshot": {"blob": "../blobs/ctx-0001.txt", "digest": digest_of(content)}, "state": "active",
        },
        "context/items/ctx-0002.json": {"kind": "text", "state": "removed", "removed_at": "2026-01-02T03:04:05Z"},
        "context/blobs/ctx-0001.txt": content,
        "context/blobs/ctx-0002.txt": b"solto",
        "runs/0001/meta.json": {"tool": "llm -m 'um modelo'", "status": "success", "created_at": "2026-01-02T03:04:05Z",
                                "output_ref": {"path": "output.txt", "size": 9, "digest": digest_of(output)}},
        "runs/0001/prompt.txt": b"explique",
        "runs/0001/output.txt": output,
        "outputs/last_output.json": {"run_id": "0001", "path": "../runs/0001/output.txt", "timestamp": "x"},
    })  # fmt: skip
    return folder


def archived(project: Path, session_id: str = OTHER) -> ArchivedSession:
    return ArchivedSession(Home.of_project(Project(project)), session_id)


def test_an_archive_without_index_and_optional_fields_is_read(project: Path, foreign: Path):
    """Record, items, runs, outputs and the last output of another program's archive come out as ours would."""
    found = archived(project)
    record, items, runs, relevant = found.contents()
    assert (record.state, record.tool_active, record.stats.runs_total) == ("com_saida", "llm -m 'um modelo'", 1)
    assert record.created_at == "2026-01-02T03:04:05.000+00:00"
    assert [(item.id, item.state) for item in items] == [("ctx-0001", "active"), ("ctx-0002", "removed")]
    assert found.snapshot(items[0]).decode() == "conteúdo\n"
    assert found.snapshot(items[1]) == b"solto"
    assert (runs[0].tool, runs[0].status, runs[0].prompt_source) == ("llm -m 'um modelo'", "success", "cli")
    assert b"".join(found.output("0001")) == b"resposta\n"
    assert found.prompt("0001") == b"explique"
    assert found.sent_context("0001") == []
    assert found.last_output()["run_id"] == "0001"
    assert (relevant, found.messages(), list(found.events())) == ([], [], [])
    assert [row.id for row in index_rows(Project(project), Home.of_project(Project(project)))] == [OTHER]
    report = verify(Home.of_project(Project(project)), OTHER)
    assert report.ok
    assert report.checked >= 7


def test_damage_in_it_is_named_file_by_file(project: Path, foreign: Path):
    """A changed snapshot, a changed output and a broken JSON file are each reported with their path."""
    home = Home.of_project(Project(project))
    (foreign / "context/blobs/ctx-0001.txt").write_bytes(b"other")
    (foreign / "runs/0001/output.txt").write_bytes(b"RESPOSTA\n")
    assert {one.path for one in verify(home, OTHER).damaged} == {"context/blobs/ctx-0001.txt", "runs/0001/output.txt"}
    (foreign / "runs/0001/meta.json").write_bytes(b'{"tool": ')
    assert [one.path for one in verify(home, OTHER).damaged] == ["runs/0001/meta.json"]
    with pytest.raises(FileCorrupt, match=r"meta\.json is not valid JSON"):
        archived(project).runs()


@pytest.mark.parametrize("content", [
    b"", b"[]", b"null", b'"x"', b"{", b"\xff\xfe", b'{"a":' * 100_000, b"[" * 100_000, b'{"counters": 7, "stats": []}',
    b'{"state": 5, "created_at": "yesterday", "tool_active": {}}', b'{"created_at": "' + b"9" * 5000 + b'"}',
    b'{"id": "../../etc--passwd", "slug": "/etc"}', b'{"ttl_seconds": ' + b"9" * 5000 + b"}",
])  # fmt: skip
def test_nonsense_in_a_record_never_crashes(project: Path, foreign: Path, content: bytes):
    """Whatever session.json holds, reading it answers or raises one of our errors, soon."""
    (foreign / "session.json").write_bytes(content)
    started = time.process_time()
    with contextlib.suppress(MaestroError):
        assert archived(project).record().id == OTHER
    verify(Home.of_project(Project(project)), OTHER)
    assert time.process_time() - started < 5


def test_references_that_lead_outside_are_refused(project: Path, foreign: Path, tmp_path: Path):
    """A blob reference, a link, a device or a folder in a file's place never makes us read or write elsewhere."""
    secret = tmp_path / "secret"
    secret.write_text("outside")
    item = json.loads((foreign / "context/items/ctx-0001.json").read_text())
    for reference in (str(secret), "../../../../secret", "../blobs/../../x.txt", "..", "", "ctx-0001.txt/..", "a\0b"):
        item["snapshot"]["blob"] = reference
        (foreign / "context/items/ctx-0001.json").write_text(json.dumps(item))
        found = archived(project)
        with pytest.raises(MaestroError):
            found.snapshot(found.items()[0]) if reference else named_blob(reference)
    (foreign / "runs/0001/output.txt").unlink()
    os.symlink(secret, foreign / "runs/0001/output.txt")
    with pytest.raises(MaestroError):
        b"".join(archived(project).output("0001"))
    (foreign / "runs/0001/output.txt").unlink()
    os.mkfifo(foreign / "runs/0001/output.txt")
    with pytest.raises(MaestroError):
        b"".join(archived(project).output("0001"))
    for run_id in ("..", "../..", "0001/../0001", "", "a" * 500):
        with pytest.raises(MaestroError):
            archived(project).prompt(run_id)


NAMES = [
    *("..", ".", "", "/nowhere", "../../etc--passwd", "a--bcdefg/..", "a--b\0cdef", "A--abcdef", "a--ABCDEF"),
    *("a--abcde", "--abcdef", "-a--abcdef", "a" * 300 + "--abcdef", "a--abcdef\n", "a--abcdef ", "{a}--abcdef"),
    *("a:b--abcdef", "ａ--abcdef", "é--abcdef", "a--àbcdef", "~--abcdef", "$HOME--abcdef", "a--abcdef/../b--abcdef"),
    *(f"{prefix}{body}{suffix}" for prefix in ("../", "/", "./", "a/", "..\\", "%2e%2e/", "\u2025/") for body in
      ("x--abcdef", "..", "work--abcdef") for suffix in ("", "/", "/..", "\0", "/.", "%00", " ", "\n", ".old")),
]  # fmt: skip


def test_no_name_escapes(project: Path):
    """Of two hundred hostile names none is opened, removed, trashed or locked, and nothing outside is touched."""
    write_generation(project, 1)
    home = Home.of_project(Project(project))
    outside = project / "outside"
    outside.mkdir()
    (outside / "session.json").write_text("{}")
    before = sorted(str(path) for path in project.rglob("*"))
    assert len(NAMES) >= 200
    for name in NAMES:
        for action in (home.open_session, home.remove, home.move_to_trash, lambda one: home.locked(one).__enter__()):
            with pytest.raises(SessionNotFound):
                action(name)
        assert "/" not in team_folder(name)
        assert team_folder(name) not in (".", "..")
        assert not is_safe_path(f"{name}/../x")
    assert sorted(str(path) for path in project.rglob("*")) == before


def test_links_in_place_of_our_folders_are_refused(project: Path, tmp_path: Path):
    """A session, its staging folder or `sessions` itself being a link leads to an error, not to its target."""
    write_generation(project, 1)
    sessions = project / ".maestro/sessions"
    (tmp_path / "elsewhere").mkdir()
    victim = tmp_path / "elsewhere" / "keep"
    victim.write_text("safe")
    for name in (SESSION_ID, ".staging"):
        os.rename(sessions / name, tmp_path / "aside")
        os.symlink(tmp_path / "elsewhere", sessions / name)
        with pytest.raises(MaestroError):
            write_generation(project, 2)
        os.unlink(sessions / name)
        os.rename(tmp_path / "aside", sessions / name)
    os.symlink(tmp_path / "elsewhere", sessions / SESSION_ID / "runs" / "0009")
    Home.of_project(Project(project)).remove(SESSION_ID)
    assert victim.read_text() == "safe"
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["keep"]


def test_a_manifest_that_lies_is_not_believed(project: Path):
    """A manifest of another session, with a wrong digest, or with paths outside is damage, and nothing more."""
    write_generation(project, 1)
    home = Home.of_project(Project(project))
    path = project / ".maestro/sessions" / SESSION_ID / "manifest.json"
    whole = path.read_bytes()
    for old, new in (
        (b"work--abcdef", b"other--abcdef"), (b'"generation":1', b'"generation":2'),
        (b"session.json", b"../../../x.json"), (b'{"format":1', b'{"format":9'), (whole, b"{}"),
        (whole, b"[" * 200_000),
    ):  # fmt: skip
        path.write_bytes(whole.replace(old, new))
        report = verify(home, SESSION_ID)
        assert not report.ok
        assert report.damaged[0].path == "manifest.json"
        assert ArchivedSession(home, SESSION_ID).record().notes == "generation 1"
    path.write_bytes(whole)
    assert verify(home, SESSION_ID).ok


def test_a_foreign_archive_is_listed_shown_exported(project: Path, foreign: Path):
    """The commands work on it: list, status, messages, export in both formats, fork."""
    from tests.support.backends import BACKENDS

    with BACKENDS["fake"](project) as backend, backend.open() as maestro:
        assert isinstance(maestro, Maestro)
        rows = maestro.sessions.list(everything=True)
        assert [(row.id, row.archived, row.orphan) for row in rows] == [(OTHER, True, False)]
        status = maestro.sessions.status("outro-programa")
        assert [item.id for item in status.context] == ["ctx-0001"]
        assert status.last_output["run_id"] == "0001"
        done = maestro.archive.export(OTHER, form="json")
        document = json.loads(Path(done.path).read_text())
        assert document["context"][0]["content"] == "conteúdo\n"
        assert document["runs"][0]["output"] == "resposta\n"
        assert done.warnings == ["contains the contents of 1 project file: a.md"]
        text = Path(maestro.archive.export(OTHER).path).read_text()
        assert "conteúdo" in text
        fork = maestro.sessions.fork(OTHER, "daqui em diante")
        # A command line is not taken over: an archive may be a stranger's, and must not choose a program.
        assert (fork.tool_active, fork.state) == (None, "com_contexto")


_PARTS = st.sampled_from(["a", "runs", "0001", ".", "..", "", "...", ".a", "a.", "a\nb", "\0", "x" * 400, "\u2028"])


@given(st.lists(st.lists(_PARTS, min_size=1, max_size=6).map("/".join), max_size=5))
@example(["session.json", "runs/0001/output.txt"])
@example([])
def test_many_paths_are_judged_as_each_of_them(paths: list[str]):
    """The quick look at a whole manifest says what looking at every path says."""
    assert are_safe_paths(paths) is all(is_safe_path(path) for path in paths)
