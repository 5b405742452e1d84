"""A disk that is read-only, full, failing or takes little at a time: said in words, nothing torn, a retry works."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maestro_state.errors import ArchiveFailed, MaestroError
from maestro_state.fs import handles, opening, tree
from maestro_state.mirror.home import STAGING
from tests.support.servers import valkey
from tests.support.stored import Filler

ROOT = Path(__file__).parents[2]

#: Starts a session, gives up the right to write where permissions forbid it (which root has, and nobody else), and then
#: syncs and ends in a folder that cannot be written, and again in one that can.
ORDINARY = """
import ctypes, json, os, sys
from maestro_cli.main import run
sessions = f"{sys.argv[1]}/.maestro/sessions"
codes = [run(["session", "start", "kept"])]
if os.geteuid() == 0:
    # Still root, who may read this interpreter wherever it is installed; without CAP_DAC_OVERRIDE and _READ_SEARCH.
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    assert libc.capget(head, rights) == 0, os.strerror(ctypes.get_errno())
    for at in (0, 1):
        rights[at] &= ~0b110
    assert libc.capset(head, rights) == 0, os.strerror(ctypes.get_errno())
codes.append(run(["message", "add", "--role", "user", "acknowledged"]))
os.chmod(sessions, 0o500)
refused = [run(["session", "sync", "--json"]), run(["session", "end", "--json"]), run(["sweep", "--json"])]
os.chmod(sessions, 0o700)
after = [run(["sweep", "--json"])]
print(json.dumps([codes, refused, after]))
"""


def test_an_ordinary_user_in_a_read_only_folder_loses_nothing(tmp_path: Path):
    """sync, end and sweep leave with 1 and say why; the session stays; made writable, a sweep writes it."""
    with valkey(tmp_path) as server:
        project = tmp_path / "project"
        project.mkdir()
        env = os.environ | {"MAESTRO_REDIS_URL": server.url}
        done = subprocess.run([sys.executable, "-c", ORDINARY, str(project)], cwd=project, env=env,
                              capture_output=True, text=True, check=True)  # fmt: skip
        *said, last = done.stdout.splitlines()
        codes, refused, after = json.loads(last)
        assert codes == [0, 0], done
        assert refused == [1, 1, 1], done
        errors = [json.loads(line)["error"] for line in done.stderr.splitlines() if line.startswith("{")]
        errors += [{"message": one["reason"]} for one in json.loads(said[-2])["errors"]]
        assert len(errors) == 3, (done.stdout, done.stderr)
        assert all("Permission denied" in error["message"] for error in errors), errors
        assert after == [0]
        assert json.loads(said[-1])["errors"] == []
        (archive,) = (path for path in (project / ".maestro/sessions").iterdir() if path.name.startswith("kept--"))
        assert b"acknowledged" in (archive / "messages.jsonl").read_bytes()
        assert json.loads((archive / "session.json").read_text())["state"] == "finalizada"
        assert os.listdir(project / ".maestro/sessions" / STAGING) == []


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Put a disk of one megabyte in a folder's place."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here; test_archive_crash.py has the calls fail one by one")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_leaves_the_archive_and_the_session_as_they_were(real, project: Path):
    """What does not fit is said; the archive is the last one, whole, nothing is left; with room the same call works."""
    sessions = project / ".maestro/sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    with small_disk(sessions), real.open() as maestro:
        session = maestro.sessions.start("full")
        fill = Filler(real.raw, maestro.server.terms.keys, session.id)
        fill.item(os.urandom(100_000))
        assert maestro.archive.checkpoint().current
        fill.item(os.urandom(2_000_000))
        for act in (maestro.archive.checkpoint, maestro.sessions.end):
            with pytest.raises(ArchiveFailed, match="No space left"):
                act()
            assert maestro.archive.verify().ok
            assert os.listdir(sessions / STAGING) == []
            assert len(list((sessions / session.id / "context/blobs").iterdir())) == 1
            assert len(maestro.context.list()) == 2
        assert [one.id for one in maestro.archive.sweep().errors] == [session.id]
        subprocess.run(["mount", "-o", "remount,size=16m", sessions], check=True)
        assert maestro.archive.sweep().errors == []
        assert len(list((sessions / session.id / "context/blobs").iterdir())) == 2
        assert maestro.archive.verify().ok


#: The modules that touch the disk.
FILE_LAYER = (handles, opening, tree)


class Failing:
    """`os` for the modules that touch the disk, in which the n-th call of a kind fails."""

    def __init__(self, name: str, number: int, code: int) -> None:
        self.name, self.number, self.code = name, number, code
        self.count = 0

    def __getattr__(self, name: str) -> object:
        found = getattr(os, name)
        if name != self.name:
            return found

        def call(*args: object, **more: object) -> object:
            self.count += 1
            if self.count == self.number:
                raise OSError(self.code, os.strerror(self.code))
            return found(*args, **more)

        return call


@pytest.mark.parametrize("code", [errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
def test_a_call_that_fails_is_an_error_in_words_and_nothing_more(real, project: Path, monkeypatch, code: int):
    """Whichever write, rename, link or folder fails: the flush says so, the session is live, the next one is whole."""
    reasons: list[str] = []
    with real.open() as maestro:
        session = maestro.sessions.start("failing")
        fill = Filler(real.raw, maestro.server.terms.keys, session.id)
        for number in range(1, 13):
            for name in ("write", "open", "mkdir", "link", "rename"):
                fill.item(f"{name} {number}".encode())
                failing = Failing(name, number, code)
                for module in FILE_LAYER:
                    monkeypatch.setattr(module, "os", failing)
                try:
                    maestro.archive.checkpoint()
                except MaestroError as error:
                    reasons.append(str(error))
                finally:
                    for module in FILE_LAYER:
                        monkeypatch.setattr(module, "os", os)
                assert maestro.archive.verify().ok, (name, number)
        assert len(reasons) >= 20, "too few of the calls were reached"
        assert all(os.strerror(code) in reason for reason in reasons)
        assert maestro.archive.checkpoint().current
        maestro.archive.sweep()
        assert os.listdir(project / ".maestro/sessions" / STAGING) == []
        assert len(maestro.context.list()) == 60
        maestro.sessions.end()
        real.raw.delete(*maestro.server.terms.keys.session(session.id))
        assert len(maestro.context.list(session.id)) == 60


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(real, project: Path, monkeypatch):
    """Short writes are gone on with; control: written once and not looked at, the same bytes are cut short."""
    content = os.urandom(10_000)

    class Short(Failing):
        def __getattr__(self, name: str) -> object:
            return (lambda file, data: os.write(file, bytes(data[:997]))) if name == "write" else getattr(os, name)

    short = Short("write", 0, 0)
    with (project / "plain").open("wb") as file:
        short.write(file.fileno(), content)
    assert (project / "plain").read_bytes() == content[:997]
    with real.open() as maestro:
        session = maestro.sessions.start("short")
        Filler(real.raw, maestro.server.terms.keys, session.id).item(content)
        for module in FILE_LAYER:
            monkeypatch.setattr(module, "os", short)
        try:
            assert maestro.archive.checkpoint().current
        finally:
            for module in FILE_LAYER:
                monkeypatch.setattr(module, "os", os)
        assert maestro.archive.verify().ok
    (blob,) = (project / ".maestro/sessions" / session.id / "context/blobs").iterdir()
    assert blob.read_bytes() == content
