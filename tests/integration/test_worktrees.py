"""Which folder is a project, and what the worktrees of one repository share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_state.local.checkouts import find_checkout, home_of, is_too_wide, main_of
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.embedded_project import temporary_project

READS = (
    "session list", "session status", "status", "messages", "runs", "context list", "wsession list", "discuss list",
    "tool list", "doctor", "config", "stack status", "usage", "verify", "show", "export", "sweep",
    "watch --until-idle 0.1",
)  # fmt: skip


def git(folder: Path, *words: str) -> None:
    """Run git as nobody in particular."""
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def repository(folder: Path) -> Path:
    """Make a repository with one commit."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    (folder / "f.txt").write_text("main\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a repository whose stack starts with the first command."""
    with temporary_project() as folder:
        yield repository(folder)


def test_worktrees_share_everything_but_what_is_active(project: Path):
    """Sessions, server and archive are the main one's; files, `active` and where a run works are the worktree's own."""
    git(project, "worktree", "add", "-q", "inside/feature")
    feature = project / "inside/feature"
    one = printed(project, "session", "start", "one", "--tool", "pwd")["id"]

    assert [row["id"] for row in printed(feature, "session", "list")["sessions"]] == [one]
    assert refused(feature, "session", "status")[0] == 3
    printed(feature, "session", "switch", "one")
    (feature / "f.txt").write_text("feature\n")
    added = printed(feature, "context", "add", "f.txt")["items"][0]
    assert printed(feature, "context", "show", added["id"])["content"] == "feature\n"
    ran = printed(feature, "run", "where?")
    assert (ran["output"], ran["working_directory"]) == (f"{feature}\n", str(feature))
    there = maestro_command(project, "run", "where?")
    assert there.stdout == f"{project}\n"
    assert "f.txt has changed" in there.stderr  # seen from the main checkout it is another file
    two = printed(feature, "session", "start", "two", "--tool", "pwd")["id"]
    assert printed(project, "session", "status")["session"]["id"] == one
    assert (feature / ".maestro/sessions/active").read_text() == f"{two}\n"
    assert os.listdir(feature / ".maestro/sessions") == ["active"]

    printed(feature, "session", "set", "working_directory", str(project / "inside"))
    assert printed(feature, "run", "where?")["output"] == f"{project / 'inside'}\n"
    printed(feature, "session", "end")
    assert (project / f".maestro/sessions/{two}/session.json").exists()


def test_a_worktree_is_one_only_if_its_repository_says_so(tmp_path: Path):
    """A `.git` file that names another's repository leads nowhere; a bare repository has no main one."""
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "real"))
    assert main_of(str(tmp_path / "real")) == str(main)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text((tmp_path / "real/.git").read_text())
    assert main_of(str(stranger)) is None
    (stranger / ".git").unlink()
    (stranger / ".git").symlink_to(tmp_path / "real/.git")
    assert main_of(str(stranger)) is None
    (stranger / ".git").unlink()
    os.mkfifo(stranger / ".git")
    assert main_of(str(stranger)) is None

    git(tmp_path, "clone", "-q", "--bare", str(main), str(tmp_path / "bare.git"))
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "of-bare"))
    assert home_of(str(tmp_path / "of-bare")) == str(tmp_path / "of-bare")
    (tmp_path / "real/.maestro/server").mkdir(parents=True)
    assert home_of(str(tmp_path / "real")) == str(tmp_path / "real")


@pytest.mark.parametrize("kind", ["plain", "repository"])
def test_reading_where_there_is_no_project_leaves_no_trace(tmp_path: Path, kind: str):
    """No reading command makes a file or starts a process there; the first `start` does."""
    folder = repository(tmp_path / "r") if kind == "repository" else tmp_path
    before = sorted(os.listdir(folder))
    for words in READS:
        done = maestro_command(folder, *words.split())
        assert done.returncode in (0, 3), (words, done)
        assert sorted(os.listdir(folder)) == before, words
    assert printed(folder, "session", "list") == {"sessions": [], "cursor": None}


def test_a_home_is_no_project_by_accident(monkeypatch: pytest.MonkeyPatch):
    """There and in / a session is started only where that is named; a repository in the home is not all of it."""
    with temporary_project() as home:
        state = home.parent / f"{home.name}-state"
        env = {"HOME": str(home), "XDG_STATE_HOME": str(state)}
        code, error = refused(home, "session", "start", "x", env=env)
        assert (code, error["code"]) == (2, "usage")
        assert "--project" in error["hint"]
        assert is_too_wide("/")  # never tried: it would be the real one
        assert os.listdir(home) == []
        (home / "docs/sessions").mkdir(parents=True)
        assert refused(home, "session", "start", "x", env=env)[0] == 2
        monkeypatch.setenv("HOME", str(home))
        git(home, "init", "-q")
        (home / "notes").mkdir()
        assert find_checkout(home / "notes") == str(home / "notes")
        try:
            assert maestro_command(home, "--project", str(home), "session", "start", "x", env=env).returncode == 0
        finally:
            maestro_command(home, "--project", str(home), "stack", "stop", env=env)
            subprocess.run(["rm", "-rf", str(state)], check=True)
        assert find_checkout(home / "notes") == str(home)
