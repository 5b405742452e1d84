"""Trust: by content, kept outside the project, safe against links and against two at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from maestro_state.errors import ConfigError, FileCorrupt
from maestro_state.local.trust import SETTINGS_FILE, TOOLS_FILE, read_with_trust, trust, untrust


@pytest.fixture
def env(tmp_path):
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def root(tmp_path):
    return make_project(tmp_path / "project")


@pytest.fixture
def record(tmp_path):
    return tmp_path / "home/.config/maestro/trust.json"


def is_trusted(root, relative_file, env):
    file = read_with_trust(root, relative_file, env)
    return file is not None and file.trusted


def make_project(root):
    (root / ".maestro/config").mkdir(parents=True)
    (root / SETTINGS_FILE).write_text('redis_url = "redis://a"\n')
    return root


def test_trust_is_given_and_taken_back(root, env):
    """Nothing is trusted until the user says so, and nothing after it is taken back."""
    assert not is_trusted(root, SETTINGS_FILE, env)
    assert trust(root, env) == [SETTINGS_FILE]
    assert is_trusted(root, SETTINGS_FILE, env)
    assert not is_trusted(root, TOOLS_FILE, env)
    assert untrust(root, env) == [SETTINGS_FILE]
    assert not is_trusted(root, SETTINGS_FILE, env)
    assert untrust(root, env) == []


def test_asking_leaves_no_trace(root, env, record):
    """Asking about trust makes no folder in the user's home."""
    is_trusted(root, SETTINGS_FILE, env)
    assert not record.parent.exists()


def test_every_single_changed_byte_ends_trust(root, env):
    """Whichever byte is changed, the file is no longer trusted; the old content is trusted again."""
    trust(root, env)
    path = root / SETTINGS_FILE
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert not is_trusted(root, SETTINGS_FILE, env), place
    path.write_bytes(content + b"\n")
    assert not is_trusted(root, SETTINGS_FILE, env)
    path.write_bytes(content)
    assert is_trusted(root, SETTINGS_FILE, env)


def test_each_file_is_trusted_for_itself(root, env):
    """A tools file that appears later is not trusted, not even with the content of a trusted file."""
    trust(root, env)
    (root / TOOLS_FILE).write_bytes((root / SETTINGS_FILE).read_bytes())
    assert not is_trusted(root, TOOLS_FILE, env)
    assert trust(root, env) == [SETTINGS_FILE, TOOLS_FILE]
    assert is_trusted(root, TOOLS_FILE, env)


def test_trust_belongs_to_one_project(root, env, tmp_path):
    """The same file in another project is not trusted, the same project through a link is."""
    trust(root, env)
    assert not is_trusted(make_project(tmp_path / "other"), SETTINGS_FILE, env)
    (tmp_path / "link").symlink_to(root)
    assert is_trusted(tmp_path / "link", SETTINGS_FILE, env)


def test_content_judged_is_the_content_returned(root, env):
    """Reading with trust gives the very bytes the verdict is about."""
    trust(root, env)
    assert read_with_trust(root, SETTINGS_FILE, env) == (b'redis_url = "redis://a"\n', True)
    (root / SETTINGS_FILE).write_bytes(b"x = 1")
    assert read_with_trust(root, SETTINGS_FILE, env) == (b"x = 1", False)
    assert read_with_trust(root, TOOLS_FILE, env) is None


@pytest.mark.parametrize("linked", [SETTINGS_FILE, ".maestro/config", ".maestro"])
def test_links_are_not_followed(root, env, tmp_path, linked):
    """A link as the file or as any folder on the way is refused, though its content had been trusted."""
    trust(root, env)
    os.rename(root / linked, tmp_path / "moved")
    (root / linked).symlink_to(tmp_path / "moved")
    assert (root / SETTINGS_FILE).read_bytes()  # the link does lead to the content
    with pytest.raises(ConfigError, match="cannot be read"):
        is_trusted(root, SETTINGS_FILE, env)
    with pytest.raises(ConfigError, match="cannot be read"):
        trust(root, env)


def test_record_is_private(root, env, record):
    """Only the user can read the record, and no temporary file stays beside it."""
    trust(root, env)
    assert record.stat().st_mode & 0o777 == 0o600
    assert record.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in record.parent.iterdir()) == ["trust.json", "trust.json.lock"]
    document = json.loads(record.read_text())
    assert list(document["projects"]) == [str(root.resolve())]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_record_others_may_write_vouches_for_nothing(root, env, record, mode):
    """A record that others may write to is not believed."""
    trust(root, env)
    assert is_trusted(root, SETTINGS_FILE, env)
    record.chmod(mode)
    assert not is_trusted(root, SETTINGS_FILE, env)


def test_linked_record_vouches_for_nothing(root, env, record, tmp_path):
    """A record that is a link is not believed."""
    trust(root, env)
    record.rename(tmp_path / "record")
    record.symlink_to(tmp_path / "record")
    assert not is_trusted(root, SETTINGS_FILE, env)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1, "projects": {"a": 1}}'])
def test_damaged_record_trusts_nothing_and_is_not_overwritten(root, env, record, content):
    """A damaged record trusts nothing, and giving trust says so instead of forgetting other projects."""
    trust(root, env)
    record.write_text(content)
    assert not is_trusted(root, SETTINGS_FILE, env)
    with pytest.raises(FileCorrupt, match="damaged"):
        trust(root, env)
    assert record.read_text() == content


def test_two_at_once_lose_nothing(env, tmp_path):
    """Many processes that give trust at the same time are all remembered."""
    program = (
        "import sys; from pathlib import Path; from maestro_state.local.trust import trust\n"
        "sys.stdin.read()\n"
        "for root in sys.argv[1:]: trust(Path(root))\n"
    )
    roots = [make_project(tmp_path / f"project-{number}") for number in range(32)]
    workers = [
        subprocess.Popen([sys.executable, "-c", program, *map(str, roots[start::4])], env=env, stdin=subprocess.PIPE)
        for start in range(4)
    ]
    for worker in workers:
        worker.stdin.close()  # all wait for this, so that they start together
    assert [worker.wait(60) for worker in workers] == [0] * 4
    assert all(is_trusted(root, SETTINGS_FILE, env) for root in roots)


def test_without_a_home_trust_is_refused(root, monkeypatch):
    """A user without a home trusts nothing and is told why."""
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert not is_trusted(root, SETTINGS_FILE, {})
    with pytest.raises(ConfigError, match="home"):
        trust(root, {})


def test_project_without_files_is_not_recorded(tmp_path, env, record):
    """There is nothing to remember about a project without such files."""
    (tmp_path / "empty").mkdir()
    assert trust(tmp_path / "empty", env) == []
    assert json.loads(record.read_text())["projects"] == {}


def test_a_folder_that_cannot_be_written_is_told_with_a_way_out(root, env, tmp_path):
    """Another folder can be named, and works."""
    (tmp_path / "home/.config").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be used") as refused:
        trust(root, env)
    assert "XDG_CONFIG_HOME" in (refused.value.hint or "")
    assert trust(root, env | {"XDG_CONFIG_HOME": str(tmp_path / "other")}) == [SETTINGS_FILE]
