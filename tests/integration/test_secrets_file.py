"""Keys of tools from a file: each tool sees its own, nobody else sees any, and a wrong file is told of in a line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from maestro_state.errors import ConfigError
from maestro_state.local.secrets_file import read_secrets
from tests.support.accounts import guarded
from tests.support.cli_runs import maestro_command
from tests.support.workshop import Workshop

KEY = "k-0123456789abcdef"
#: Stands for a tool of the catalogue: says which variables it sees, and of which lengths.
SHOW = """#!{python}
import json, os, sys
sys.stdin.read()
seen = {{name: len(value) for name, value in os.environ.items() if name.endswith("_KEY")}}
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": json.dumps(seen)}}))
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a file with two keys, for its owner only."""
    path = tmp_path / "tools.env"
    path.touch(0o600)
    path.write_text(f"# ours\n\nANTHROPIC_API_KEY='{KEY}'\nexport OPENAI_API_KEY={KEY}{KEY}\n")
    return path


def test_each_tool_sees_its_own_key_and_a_new_one_without_a_restart(shop: Workshop, keys: Path):
    """It is read for every run, cut down to what the tool may see, and is in no log, archive or other environment."""
    programs = shop.project / "programs"
    programs.mkdir()
    (programs / "claude").write_text(SHOW.format(python=sys.executable))
    (programs / "claude").chmod(0o755)
    shop.start_worker(MAESTRO_SECRETS_FILE=str(keys), PATH=f"{programs}:{os.environ['PATH']}")
    maestro = shop.open()
    session = maestro.sessions.start("keys", tool="claude")

    def seen(*names: str) -> dict[str, int]:
        ended = maestro.runs.wait(maestro.runs.start("which?", env=names))
        assert ended.status == "success", ended.error
        return json.loads(maestro.runs.output(ended.id))

    assert seen() == {"ANTHROPIC_API_KEY": len(KEY)}
    assert seen("OPENAI_API_KEY") == {"ANTHROPIC_API_KEY": len(KEY), "OPENAI_API_KEY": 2 * len(KEY)}
    keys.write_text(f"ANTHROPIC_API_KEY={KEY}{KEY}{KEY}\n")
    assert seen() == {"ANTHROPIC_API_KEY": 3 * len(KEY)}
    maestro.archive.checkpoint(session.id)
    kept = [path for path in shop.project.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(kept) > 5
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]


def test_a_run_says_what_is_wrong_with_the_file(shop: Workshop, keys: Path):
    """The worker goes on: mended, the next run succeeds."""
    shop.start_worker(MAESTRO_SECRETS_FILE=str(keys))
    keys.chmod(0o644)
    maestro = shop.open()
    maestro.sessions.start("open", tool="cat")
    ended = maestro.runs.wait(maestro.runs.start("x"))
    assert ended.status == "error"
    assert ended.error == f"the secrets file {keys} can be read or changed by others (chmod 600 {keys})"
    keys.chmod(0o440)
    assert maestro.runs.wait(maestro.runs.start("x")).status == "success"


def _planted(path: Path, what: str) -> None:
    path.unlink()
    match what:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path, 0o600)
        case "bytes":
            path.touch(0o600)
            path.write_bytes(b"A=\xff\xfe\n")
        case "words":
            path.touch(0o600)
            path.write_text(f"A=1\n{KEY}\n")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nothing", "is not there"),
        ("folder", "cannot be read"),
        ("pipe", "cannot be read"),
        ("bytes", "is not text"),
        ("words", "something else than NAME=value in line 2"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(keys: Path, what: str, said: str):
    """By what is wrong and what to do, never by what it holds; a pipe in its place hangs nobody."""
    _planted(keys, what)
    with pytest.raises(ConfigError, match=said) as refusal:
        read_secrets(str(keys))
    assert refusal.value.hint
    assert KEY not in f"{refusal.value} {refusal.value.hint}"


def test_a_worker_does_not_start_with_a_file_that_others_can_read(tmp_path: Path, project: Path, keys: Path):
    """One line, exit 2, and nothing of the file in it."""
    keys.chmod(0o604)
    with guarded(tmp_path, ("wanda", "worker", "maestro")) as team:
        environment = {"MAESTRO_REDIS_URL": team.url("wanda"), "MAESTRO_SECRETS_FILE": str(keys)}
        done = maestro_command(project, "worker", "--burst", env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"chmod 600 {keys}" in done.stderr
    assert KEY not in done.stderr
