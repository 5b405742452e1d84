"""Archives made to exhaust whoever reads them: refused or answered with less than 100 MB, nothing outside touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from maestro_state.local.project import Project
from maestro_state.mirror.home import Home
from maestro_state.mirror.layouts import session as layout
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.verify import verify
from tests.support.generations import SESSION_ID, write_generation

#: Most memory a reader may ever have used, in kilobytes.
LIMIT_KIB = 100_000

#: Reads everything there is to read of an archive and prints its largest memory and how each reading went.
READER = """
import json, sys
from maestro_state.mirror.home import Home
from maestro_state.mirror.reader import ArchivedSession, index_rows
from maestro_state.mirror.retention import clean
from maestro_state.mirror.verify import verify
from maestro_state.errors import MaestroError
from maestro_state.local.project import Project
project, session_id = Project(sys.argv[1]), sys.argv[2]
home = Home.of_project(project)
archived = ArchivedSession(home, session_id)
calls = {
    "record": archived.record, "contents": archived.contents, "messages": archived.messages,
    "events": lambda: sum(1 for _ in archived.events()), "chunks": lambda: sum(1 for _ in archived.chunks()),
    "sent": lambda: archived.sent_context("0001"), "last": archived.last_output, "files": lambda: archived.files(""),
    "output": lambda: sum(map(len, archived.output("0001"))),
    "verify": lambda: verify(home, session_id).ok or "damaged",
    "clean": lambda: clean(home, set(), now_ms=1_800_000_000_000, days=1, dry_run=True),
    "index": lambda: project.index(), "rows": lambda: index_rows(project, home),
}
said = {}
for name, call in calls.items():
    try:
        said[name] = "damaged" if call() == "damaged" else "read"
    except MaestroError:
        said[name] = "refused"
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([peak, said]))
"""

#: Control: what a plain reader of the same file needs.
NAIVE = """
import json, sys
value = json.load(open(sys.argv[1]))
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def sparse(path: Path, size: int, start: bytes = b"") -> None:
    """Write a file that says it is large and takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def written(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def nested(folder: Path) -> None:
    """Make folders in folders, far deeper than any archive."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


GIB = 1 << 30
DENSE_MANIFEST = (
    b'{"format":1,"session_id":"work--abcdef","generation":1,"written_at":"","last_id":"","files":{'
    + b",".join(b'"%x":["",0]' % number for number in range(400_000))
    + b"}}"
)

#: What is done to the archive, and the readings that must not have answered.
ATTACKS: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "large record": (lambda at: sparse(at / "session.json", GIB), {"record", "contents"}),
    "record with a hole": (lambda at: sparse(at / "session.json", 60 << 20, b'{"notes":"'), {"record", "contents"}),
    "dense record": (lambda at: written(at / "session.json", b'{"a":[' + b"[]," * 4_000_000 + b"[]]}"), {"record"}),
    "many strings": (lambda at: written(at / "session.json", b'{"a":[' + b'"",' * 2_000_000 + b'""]}'), {"record"}),
    "no end of a string": (lambda at: written(at / "session.json", b"," * 300_000 + b'"\\"' * 4_000_000), {"record"}),
    "large item": (lambda at: sparse(at / "context/items/ctx-0001.json", GIB), {"verify"}),
    "dense sent": (lambda at: written(at / "runs/0001/sent_context.json", b"[" + b"{}," * 5_000_000 + b"]"), {"sent"}),
    "large manifest": (lambda at: sparse(at / "manifest.json", 1 << 40), {"verify"}),
    "manifest with a hole": (lambda at: sparse(at / "manifest.json", 60 << 20, b'{"format":1,"x":"'), {"verify"}),
    "dense manifest": (lambda at: written(at / "manifest.json", DENSE_MANIFEST), {"verify"}),
    "a line of holes": (lambda at: sparse(at / "messages.jsonl", GIB), {"messages"}),
    "an endless line": (lambda at: sparse(at / "events.jsonl", 8 * GIB, b"\n\n"), {"events"}),
    "deep lines": (lambda at: written(at / "events.jsonl", (b'{"data":' + b"[" * 200_000 + b"\n") * 20), {"events"}),
    "large index": (lambda at: sparse(at.parent / "index.json", GIB), {"index"}),
    "deep folders": (lambda at: nested(at / "runs"), {"files"}),
}  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return the folder of an archive that is in order, without what says that this program wrote it."""
    write_generation(tmp_path, 1)
    folder = tmp_path / ".maestro/sessions" / SESSION_ID
    (folder / "manifest.json").unlink()
    return folder


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_archive_exhausts_its_reader(tmp_path: Path, archive: Path, attack: str):
    """Everything there is to read is answered or refused, and takes less than 100 MB."""
    act, must_refuse = ATTACKS[attack]
    act(archive)
    done = subprocess.run([sys.executable, "-c", READER, str(tmp_path), SESSION_ID], cwd=Path(__file__).parents[2],
                          capture_output=True, check=False, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    peak, said = json.loads(done.stdout)
    assert peak < LIMIT_KIB, said
    assert {name for name in must_refuse if said[name] == "read"} == set(), said
    subprocess.run(["rm", "-rf", str(archive / "runs")], check=True)  # deeper than shutil can go


def test_a_plain_reader_is_exhausted(tmp_path: Path):
    """Control: half as much costs a reader without these limits more than 100 MB."""
    written(tmp_path / "session.json", b'{"a":[' + b"[]," * 2_000_000 + b"[]]}")
    done = subprocess.run(
        [sys.executable, "-c", NAIVE, str(tmp_path / "session.json")], capture_output=True, check=True
    )
    assert int(done.stdout) > LIMIT_KIB


def test_names_that_are_there_twice_and_digests_that_lie(tmp_path: Path, archive: Path):
    """A folder's own name wins over what a file says; another spelling of a number is another run; lies are named."""
    written(archive / "session.json", b'{"id":"x--abcdef","id":"y--abcdef","notes":"one","notes":"two"}')
    for run_id in ("0001", "00001"):
        ref = {"path": "../../../secret", "size": 4, "digest": layout.sha256(b"true")}
        written(archive / f"runs/{run_id}/meta.json", json.dumps({"tool": "t", "output_ref": ref}).encode())
        written(archive / f"runs/{run_id}/output.txt", b"true" if run_id == "0001" else b"lies")
    home = Home.of_project(Project(str(tmp_path)))
    found = ArchivedSession(home, SESSION_ID)
    assert (found.record().id, found.record().notes) == (SESSION_ID, "two")
    assert [run.id for run in found.runs()] == ["0001", "00001"] or [run.id for run in found.runs()] == [
        "00001",
        "0001",
    ]
    assert b"".join(found.output("0001")) == b"true"
    assert [(one.path, one.reason) for one in verify(home, SESSION_ID).damaged] == [
        ("runs/00001/output.txt", "its digest does not fit")
    ]


def test_a_text_full_of_commas_is_no_attack(archive: Path, tmp_path: Path):
    """Commas in a text are not values: a large table in a note is read."""
    table = "a,b,c,\\n" * 200_000
    written(archive / "session.json", json.dumps({"notes": table, "state": "com_saida"}).encode())
    assert ArchivedSession(Home.of_project(Project(str(tmp_path))), SESSION_ID).record().notes == table


def test_a_manifest_of_very_many_files_is_no_attack():
    """What a session of fifty thousand runs would have is written and read back."""
    entry = layout.FileEntry(layout.sha256(b""), 0)
    names = ("meta.json", "prompt.txt", "output.txt")
    files = {f"runs/{number:04}/{name}": entry for number in range(50_000) for name in names}
    manifest = layout.Manifest(format=1, session_id=SESSION_ID, generation=1, written_at="", last_id="", files=files)
    assert layout.decode_manifest(layout.encode_manifest(manifest), SESSION_ID).files == files
