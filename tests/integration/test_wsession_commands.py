"""`maestro wsession …` and `maestro work` as their users run them: documents, exit codes, files."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.programs import running
from tests.support.waiting import wait_until
from tests.support.work_samples import STAMP, age, foreign, post

pytestmark = pytest.mark.usefixtures("served")

RECORD = ["session_id", "session_type", "parent_session_id", "status", "created", "modified", "related_entity",
          "breadcrumbs_dir", "metadata"]  # fmt: skip
NOBODY = "00000000-0000-4000-8000-000000000000"
FLAGS = ("--prompt", "p", "--response", "r")


def start(folder: Path, *words: str) -> str:
    """Start a work session; return its cookie."""
    cookie: str = printed(folder, "wsession", "start", "work_task", *words)["session_id"]
    return cookie


def test_the_documents_have_their_fields(project: Path):
    """Every command prints the document it promises."""
    started = printed(project, "wsession", "start", "work_track", "--entity", "track=login", "--entity", "n=1")
    top = started["session_id"]
    assert list(started) == RECORD
    assert started["related_entity"] == {"track": "login", "n": "1"}
    child = start(project, "--parent", top)
    added = printed(project, "wsession", "breadcrumb", "add", "--cookie", child, *FLAGS, "--model", "opus",
                    "--tokens-in", "10", "--tokens-out", "5", "--cost", "0.5", "--error", "boom")  # fmt: skip
    assert (added["depth_level"], added["parent_session_id"], added["applied"]) == (1, top, False)
    (shown,) = printed(project, "wsession", "breadcrumbs", child)["breadcrumbs"]
    assert shown == added
    assert printed(project, "work", top, "--once") == {"applied": 1, "duplicates": 0, "rejected": []}
    assert printed(project, "wsession", "breadcrumbs", child)["breadcrumbs"] == [added | {"applied": True}]
    stats = printed(project, "wsession", "stats", top)
    assert stats | {"by_day": 0} == {
        "sessions": 2, "breadcrumbs": 1, "tokens": {"input": 10, "output": 5}, "cost": 0.5, "files_modified": 0,
        "errors": 1, "by_model": {"opus": {"breadcrumbs": 1, "tokens": {"input": 10, "output": 5}, "cost": 0.5}},
        "by_tool": {}, "by_depth": {"1": 1}, "by_day": 0,
        "cost_detail": {"known": 0.5, "estimated": 0.0, "unknown": 0},
    }  # fmt: skip
    events = printed(project, "wsession", "timeline", top)["events"]
    assert [event["type"] for event in events] == ["session.started", "session.started", "breadcrumb.applied"]
    assert {"ts", "type", "session_id", "summary"} <= set(events[0])
    record = printed(project, "wsession", "show", top)
    assert list(record) == [*RECORD, "children", "breadcrumbs"]
    assert (record["children"], record["breadcrumbs"]) == ([child], 0)
    (tree,) = printed(project, "wsession", "tree")["tree"]
    assert [one["session_id"] for one in tree["children"]] == [child]
    assert [one["session_id"] for one in printed(project, "wsession", "list")["sessions"]] == [child, top]
    assert printed(project, "wsession", "list", "--type", "work_track")["sessions"][0]["session_id"] == top
    assert refused(project, "wsession", "end", top)[0] == 4
    assert printed(project, "wsession", "end", top, "--children", "end")["status"] == "completed"
    assert refused(project, "wsession", "end", top)[1]["code"] == "work_session_closed"


def test_exit_codes(project: Path):
    """Unknown cookies, bad input and wrong states leave with the code that says so, and change nothing."""
    add = ("wsession", "breadcrumb", "add")
    assert refused(project, *add, "--cookie", NOBODY, *FLAGS)[0] == 3
    assert refused(project, *add, *FLAGS)[0] == 2
    assert refused(project, "work", NOBODY, "--once")[0] == 3
    assert refused(project, "wsession", "show")[0] == 3
    cookie = start(project)
    for words, code in (
        ((*add, "--cookie", cookie, "--prompt", "p"), 2),
        ((*add, "--cookie", cookie, *FLAGS, "--cost", "nan"), 2),
        ((*add, "--cookie", cookie, *FLAGS, "--depth", "999"), 2),
        ((*add, "--cookie", cookie, "--from", "nothing.json"), 3),
        (("wsession", "list", "--since", "soon"), 2),
        (("wsession", "start", "t", "--entity", "novalue"), 2),
        (("wsession", "start", "t", "--parent", NOBODY), 3),
        (("wsession", "end", cookie, "--status", "running"), 2),
    ):
        assert refused(project, *words)[0] == code, words
    for text in (
        b"{",
        b"[]",
        b"\xff",
        b'{"prompt": 3}',
        b"{}",
        b'{"prompt": "x"}',
        b'{"response": "x"}',
        b"[" * 100_000,
    ):
        assert refused(project, *add, "--cookie", cookie, "--from", "-", stdin=text)[0] == 2
    assert printed(project, "wsession", "show", cookie)["breadcrumbs"] == 0


def test_a_breadcrumb_from_a_file_or_a_pipe_is_added_once(project: Path):
    """The same breadcrumb twice is once; without an id each is its own; MAESTRO_COOKIE says where."""
    cookie = start(project)
    document = {
        "breadcrumb_id": "b-1",
        "timestamp": STAMP,
        "prompt": "p",
        "response": "r",
        "tools_called": [{"tool": "sh"}],
    }
    (project / "b.json").write_text(json.dumps(document))
    for _ in range(2):
        printed(project, "wsession", "breadcrumb", "add", "--from", "b.json", env={"MAESTRO_COOKIE": cookie})
    for _ in range(2):
        printed(project, "wsession", "breadcrumb", "add", "--cookie", cookie, "--from", "-",
                stdin=json.dumps({"timestamp": STAMP, "prompt": "q", "response": "r"}).encode())  # fmt: skip
    assert printed(project, "wsession", "show", cookie)["breadcrumbs"] == 3
    names = {path.name for path in (project / "docs/sessions" / cookie / "breadcrumbs/0").iterdir()}
    assert names == {f"{STAMP}.json", f"{STAMP}-2.json", f"{STAMP}-3.json"}


def test_a_foreign_tree_is_listed_and_worked_on(project: Path):
    """A tree another program wrote is shown as it is; working on it takes it in, bad files aside."""
    top, child = "20260101_120000", "11111111-2222-4333-8444-555555555555"
    foreign(project, (top,), {"session_type": "work_track", "status": "running"})
    foreign(project, (top, child), {"session_type": "work_task"})
    age(post(project, (top,), "20260101_120001_000000", {"prompt": "a"}))
    age(post(project, (top, child), "20260101_120002_000000", {"prompt": "b", "cost": 0.25}, depth=1))
    assert {one["session_id"] for one in printed(project, "wsession", "list")["sessions"]} == {top, child}
    before = printed(project, "wsession", "stats", top)
    assert (before["sessions"], before["breadcrumbs"], before["cost"]) == (2, 2, 0.25)
    age(post(project, (top, child), "20260101_120003_000000", b"{", depth=1))
    done = printed(project, "work", top, "--once")
    assert (done["applied"], done["duplicates"]) == (2, 0)
    assert [one["source"] for one in done["rejected"]] == [
        f"docs/sessions/{top}/{child}/breadcrumbs/1/20260101_120003_000000.json"
    ]
    assert printed(project, "wsession", "stats", top) == before
    assert printed(project, "work", top, "--once") == {"applied": 0, "duplicates": 0, "rejected": []}


def test_what_another_program_wrote_into_a_record_is_kept(project: Path):
    """Fields that Maestro does not know survive `work` and `wsession end`; nothing is applied before it is consumed."""
    top = "33333333-2222-4333-8444-555555555555"
    theirs = {
        "purpose": "plan the login",
        "context": {"files": ["a.py"], "n": 1.5},
        "state": "open",
        "parent_wsession_id": None,
        "children_wsession_ids": ["x", "y"],
        "created_at": "2026-01-01T12:00:00",
        "closed_at": None,
    }
    foreign(project, (top,), theirs | {"session_type": "work_track", "status": "running"})
    age(post(project, (top,), "20260101_120001_000000", {"prompt": "a"}))
    shown = lambda: [one["applied"] for one in printed(project, "wsession", "breadcrumbs", top)["breadcrumbs"]]  # noqa: E731
    assert shown() == [False]
    assert "0 applied" in maestro_command(project, "wsession", "show", top).stdout
    printed(project, "work", top, "--once")
    assert shown() == [True]
    printed(project, "wsession", "end", top)
    record = json.loads((project / "docs/sessions" / top / "session.json").read_bytes())
    assert {name: record[name] for name in theirs} == theirs
    assert record["status"] == "completed"


def test_a_record_that_cannot_be_read_is_not_written_over(project: Path):
    """A damaged session.json of a live work session stops its writing with a word, and stays as it is."""
    cookie = printed(project, "wsession", "start", "t")["session_id"]
    record = project / "docs/sessions" / cookie / "session.json"
    record.write_text("{ torn")
    failed = maestro_command(project, "wsession", "end", cookie)
    assert (failed.returncode, record.read_text()) == (1, "{ torn")
    assert "session.json" in failed.stderr


def test_folders_of_the_project_are_made_as_its_user_makes_folders(project: Path):
    """`docs/` is the project's: its mode is the umask's doing; what holds prompts is only its user's."""
    before = os.umask(0o027)
    try:
        cookie = printed(project, "wsession", "start", "t")["session_id"]
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((project / name).stat().st_mode) for name in ("docs", "docs/sessions")}
    assert modes == {"docs": 0o750, "docs/sessions": 0o750}
    assert stat.S_IMODE((project / "docs/sessions" / cookie).stat().st_mode) == 0o700


def test_nothing_stored_reaches_the_terminal_as_a_command(project: Path):
    """Escape sequences in what was left are shown, not obeyed."""
    cookie = start(project, "--entity", "name=\x1b]0;owned\x07")
    printed(project, "wsession", "breadcrumb", "add", "--cookie", cookie, "--prompt", "\x1b[2J", "--response", "r",
            "--model", "m\x1b[31m")  # fmt: skip
    maestro_command(project, "work", cookie, "--once")
    for words in (("list",), ("show",), ("tree",), ("breadcrumbs",), ("timeline",), ("stats",)):
        done = maestro_command(project, "wsession", *words)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout


def test_work_follows_until_it_is_interrupted(project: Path, tmp_path: Path):
    """Without --once it shows what arrives, from the server and from files, and Ctrl-C exits with 130."""
    cookie = start(project)
    with running(tmp_path, [MAESTRO, "--project", str(project), "work", cookie, "--json"]) as program:
        printed(project, "wsession", "breadcrumb", "add", "--cookie", cookie, *FLAGS)
        wait_until(lambda: len(program.lines()) == 1, "the breadcrumb is shown")
        post(project, (cookie,), "20270101_000000_000000", {"prompt": "from a file"})
        wait_until(lambda: len(program.lines()) == 2, "the one from the file is shown")
        assert json.loads(program.lines()[1])["summary"] == "from a file"
        os.kill(program.process.pid, signal.SIGINT)
        assert program.process.wait(60) == 130
        assert program.complained.read_text().strip() == ""
    assert printed(project, "wsession", "stats", cookie)["breadcrumbs"] == 2


@pytest.mark.parametrize("words", [("list",), ("tree",)])
def test_nothing_is_no_error(project: Path, words: tuple[str, ...]):
    """A project without work sessions has empty lists."""
    ((_, rows),) = printed(project, "wsession", *words).items()
    assert rows == []


def test_a_read_only_folder_is_said(project: Path):
    """A file where docs/ should be is an error with a reason, and the work session is still live."""
    (project / "docs").write_text("not a folder")
    done = subprocess.run([MAESTRO, "wsession", "start", "t", "--json"], cwd=project, capture_output=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["code"] == "work_failed"
    assert len(printed(project, "wsession", "list")["sessions"]) == 1
