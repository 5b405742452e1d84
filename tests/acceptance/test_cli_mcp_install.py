"""`maestro mcp install`: shown, done, done again, undone; what cannot be done is said and changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from maestro_state.local.extras import install_command
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused

FILES = {
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json"),
    "qwen": (".qwen/settings.json", ".qwen/settings.json"),
    "opencode": (".config/opencode/opencode.json", "opencode.json"),
}
#: Does what `claude mcp add|remove` do, as far as it matters here.
CLAUDE = """#!/bin/sh
case "$2" in
  add) printf '{"mcpServers": {"maestro": {"type": "stdio", "command": "%s", "args": ["mcp"], "env": {}}}}' "$7" ;;
  remove) printf '{}' ;;
esac > "$HOME/.claude.json"
echo "$@" >> "$HOME/calls"
"""


@pytest.mark.parametrize("tool", FILES)
@pytest.mark.parametrize("scope", ["user", "project"])
def test_installed_and_undone(tool: str, scope: str, project: Path, own_home: Path):
    """In the tool's own file, with the whole path of this program; the second time nothing is done."""
    path = own_home / FILES[tool][0] if scope == "user" else project / FILES[tool][1]
    words = ("mcp", "install", tool, "--scope", scope)
    shown = maestro_command(project, *words, "--print")
    assert str(path) in shown.stdout
    assert f'"{MAESTRO}"' in shown.stdout
    assert ("env_vars" in shown.stdout) is (tool == "codex")
    assert not path.exists()
    assert printed(project, *words)["status"] == "installed"
    written = path.read_text()
    assert f'"{MAESTRO}"' in written
    assert printed(project, *words)["status"] == "unchanged"
    assert path.read_text() == written
    assert printed(project, *words, "--remove")["status"] == "removed"
    assert not path.exists()
    assert path.parent.exists() is (path.parent == project), "it leaves no folder, and takes none that is not its own"
    assert printed(project, *words, "--remove")["status"] == "unchanged"


def test_claude_keeps_its_own_list(project: Path, own_home: Path):
    """The list of all projects is claude's to write, which may be running: it is asked to."""
    programs = own_home / "bin"
    programs.mkdir()
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    assert maestro_command(project, "mcp", "install", "claude", "--print", env=env).stdout == (
        f"claude mcp add --scope user maestro -- {MAESTRO} mcp\n"
    )
    assert not (own_home / "calls").exists()
    assert printed(project, "mcp", "install", "claude", env=env)["status"] == "installed"
    assert printed(project, "mcp", "install", "claude", env=env)["status"] == "unchanged"
    (own_home / ".claude.json").write_text('{"mcpServers": {"maestro": {"command": "/old"}}}')
    assert printed(project, "mcp", "install", "claude", env=env)["status"] == "updated"
    assert printed(project, "mcp", "install", "claude", "--remove", env=env)["status"] == "removed"
    calls = [line.split()[1] for line in (own_home / "calls").read_text().splitlines()]
    assert calls == ["add", "remove", "add", "remove"]
    assert printed(project, "mcp", "install", "claude", "--scope", "project")["status"] == "installed"
    assert json.loads((project / ".mcp.json").read_text())["mcpServers"]["maestro"]["command"] == MAESTRO


def test_what_cannot_run_yet_is_said(project: Path, own_home: Path, tmp_path: Path):
    """Without its extra the server that is registered would fail at every start: whoever registers it is told."""
    words = ("mcp", "install", "gemini", "--print")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    without = {"PYTHONPATH": str(tmp_path / "plain")}
    assert install_command("mcp") in maestro_command(project, *words, env=without).stderr
    assert "pip install" in printed(project, *words, env=without)["missing"]
    assert "pip install" not in maestro_command(project, *words, "--remove", env=without).stderr
    (tmp_path / "with" / "mcp").mkdir(parents=True)
    (tmp_path / "with" / "mcp" / "__init__.py").touch()
    (tmp_path / "with" / "mcp-2.3.dist-info").mkdir()  # installed there: else nothing of the folder is imported
    present = {"PYTHONPATH": str(tmp_path / "with")}
    assert maestro_command(project, *words, env=present).stderr == ""
    assert printed(project, *words, env=present)["missing"] is None


def test_what_cannot_be_done_changes_nothing(project: Path, own_home: Path):
    """A file that is damaged, a pipe, a link out of the project, a tool that is not there, one that is not known."""
    settings = own_home / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text("{ // mine")
    code, error = refused(project, "mcp", "install", "gemini")
    assert (code, error["code"]) == (1, "file_corrupt")
    assert settings.read_text() == "{ // mine"
    settings.unlink()
    os.mkfifo(settings)
    code, error = refused(project, "mcp", "install", "gemini")
    assert (code, "not a file" in error["message"]) == (4, True)
    outside = own_home / "elsewhere.json"
    outside.write_text("{}")
    (project / ".mcp.json").symlink_to(outside)
    code, error = refused(project, "mcp", "install", "claude", "--scope", "project")
    assert code == 4
    assert outside.read_text() == "{}"
    code, error = refused(project, "mcp", "install", "claude", env={"PATH": "/nowhere"})
    assert code == 3
    assert "claude mcp add" in error["hint"]
    assert refused(project, "mcp", "install", "emacs")[0] == 2


def test_a_users_file_may_be_a_link_and_keeps_its_rights(project: Path, own_home: Path):
    """Who keeps settings elsewhere finds them there."""
    kept = own_home / "dotfiles.json"
    kept.write_text('{"theme": "dark"}\n')
    kept.chmod(0o640)
    link = own_home / ".qwen/settings.json"
    link.parent.mkdir()
    link.symlink_to(kept)
    printed(project, "mcp", "install", "qwen")
    assert link.is_symlink()
    assert json.loads(kept.read_text())["theme"] == "dark"
    assert "maestro" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("scope", ["user", "project"])
def test_comments_and_what_was_added_stay(scope: str, project: Path, own_home: Path):
    """In opencode's file with comments, where that is the one; to install again changes nothing of what is in ours."""
    mine = '{\n  // at night\n  "theme": "dark",\n}\n'
    path = own_home / ".config/opencode/opencode.jsonc" if scope == "user" else project / "opencode.jsonc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(mine)
    words = ("mcp", "install", "opencode", "--scope", scope)
    assert printed(project, *words)["path"] == str(path)
    assert "// at night" in path.read_text()
    added = path.read_text().replace('"enabled": true', '"enabled": true, "timeout": 9000 // slow')
    path.write_text(added)
    assert printed(project, *words)["status"] == "unchanged"
    assert path.read_text() == added
    path.write_text(added.replace(MAESTRO, "/old/maestro"))
    assert printed(project, *words)["status"] == "updated"
    assert '"timeout": 9000' in path.read_text()
    assert printed(project, *words, "--remove")["status"] == "removed"
    assert path.read_text() == mine
