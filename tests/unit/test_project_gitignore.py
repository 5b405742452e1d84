"""What `.maestro/.gitignore` keeps out of commits, held against git itself, and whose file it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from maestro_state.local.project import Project

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git says what it would commit")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a repository with a session, its active mark, a setting, and the server's files."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = Project(str(tmp_path))
    found.set_active("fix-login--abc123")
    for name in ("sessions/fix-login--abc123/runs/0001/prompt.txt", "sessions/.staging/x", "server/data", "logs/a.log",
                 "trash/y", "config/settings.toml", "config/.tools.lock"):  # fmt: skip
        path = tmp_path / ".maestro" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return found


def committed(project: Project) -> set[str]:
    """Return what `git add .` would take of `.maestro/`."""
    listed = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], cwd=project.path, check=True, text=True,
                            capture_output=True).stdout  # fmt: skip
    return {line.removeprefix(".maestro/") for line in listed.split()}


def test_no_prompt_slips_into_a_commit(project: Project):
    """Only settings are left to commit; without our file everything would be, which is the control."""
    assert committed(project) == {".gitignore", "config/settings.toml"}
    (Path(project.path) / ".maestro" / ".gitignore").unlink()
    assert "sessions/fix-login--abc123/runs/0001/prompt.txt" in committed(project)


def test_a_line_that_was_taken_away_stays_away(project: Project):
    """Who takes the line away commits sessions, and no later command brings it back; machine-local files stay out."""
    file = Path(project.path) / ".maestro" / ".gitignore"
    file.write_text(file.read_text().replace("/sessions/\n", "", 1))
    project.set_active("other--abc123")
    wanted = {".gitignore", "config/settings.toml", "sessions/fix-login--abc123/runs/0001/prompt.txt"}
    assert committed(project) == wanted

    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if line[0] != "#"))
    project.set_active("other--abc123")
    assert committed(project) == wanted  # also without the comment it is not what an earlier version wrote
    file.write_text("")
    project.set_active("other--abc123")
    assert file.read_text() == ""


def test_a_file_of_an_earlier_version_that_nobody_touched_is_replaced(project: Project):
    """It left sessions in."""
    file = Path(project.path) / ".maestro" / ".gitignore"
    file.write_text("/server/\n/logs/\n/trash/\n/sessions/active\n/sessions/.*\n")
    assert "sessions/fix-login--abc123/runs/0001/prompt.txt" in committed(project)
    project.set_active("other--abc123")
    assert committed(project) == {".gitignore", "config/settings.toml"}


def test_a_link_in_its_place_is_left_alone(project: Project, tmp_path: Path):
    """Nothing is written through it, and no command stops for it."""
    file = tmp_path / ".maestro" / ".gitignore"
    file.unlink()
    (tmp_path / "canary").write_text("/server/\n/logs/\n/trash/\n/sessions/active\n/sessions/.*\n")
    file.symlink_to(tmp_path / "canary")
    project.set_active("other--abc123")
    assert file.is_symlink()
    assert "/sessions/\n" not in (tmp_path / "canary").read_text()
