"""`docs/archive-format.md` is enough to read an archive: this reader knows that page and no module of Maestro's."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.support.cli_runs import printed

PAGE = (Path(__file__).parent.parent.parent / "docs" / "archive-format.md").read_text(encoding="utf-8")


def _fields(name: str) -> set[str]:
    """Return the fields that the page names first for a file."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    return set(re.findall(r"`(\w+)`", row.split("|")[2].split("[")[0]))


def _described(path: str) -> bool:
    """Tell whether the page's list of files has a path."""
    listed = re.search(r"## One session\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert listed
    names = [line.split("  ")[0] for line in listed[1].splitlines()]
    names += [name.replace("{stdin,history,project}", one) for name in names for one in ("stdin", "history", "project")]
    return re.sub(r"\d{4}", "0001", path) in names


@pytest.fixture
def archive(project: Path) -> Path:
    """Return the archive of a session with context, two runs and messages."""
    (project / "login.py").write_text("def login(): ...\n")
    printed(project, "session", "start", "fix-login", "--tool", "echo")
    printed(project, "context", "add", "login.py")
    printed(project, "run", "why does the login fail?")
    printed(project, "run", "and now?", stdin=b"a diff")
    printed(project, "context", "use-output", "0001")
    ended = printed(project, "session", "end")
    return project / ".maestro" / "sessions" / ended["id"]


def _manifest(archive: Path) -> dict:
    return json.loads((archive / "manifest.json").read_text())


def _seal(manifest: dict) -> str:
    """Return the digest of a manifest, as the page says."""
    text = json.dumps(manifest | {"digest": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_page_is_enough_to_verify_an_archive(archive: Path):
    """Every file is described and listed, every digest fits, the manifest's own too."""
    manifest = _manifest(archive)
    assert _fields("manifest.json") >= set(manifest)
    assert (manifest["format"], manifest["session_id"]) == (1, archive.name)
    assert _seal(manifest) == manifest["digest"]
    there = {str(path.relative_to(archive)) for path in archive.rglob("*") if path.is_file()}
    assert there == {*manifest["files"], "manifest.json"}
    assert not [path for path in there if not _described(path)]
    for path, (digest, size) in manifest["files"].items():
        data = (archive / path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (digest, size)


def test_the_page_says_what_each_file_holds(archive: Path):
    """Fields are those that the page names."""
    for name in ("session.json", "context/active.json", "outputs/last_output.json", "maestro.json"):
        found = json.loads((archive / name).read_text())
        assert set(found) & _fields(name), name
    assert set(json.loads((archive / "outputs/last_output.json").read_text())) == _fields("outputs/last_output.json")
    (relevant,) = json.loads((archive / "outputs/relevant.json").read_text())["items"]
    assert set(relevant) <= _fields("outputs/relevant.json")
    second = json.loads((archive / "runs/0002/sent_context.json").read_text())
    assert {one.get("role") for one in second} >= {"stdin", "history"}
    assert (archive / "runs/0002/stdin.txt").read_bytes() == b"a diff"
