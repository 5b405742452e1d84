"""What a tool prints is kept byte for byte, however much and in whatever shape; worker and server stay bounded."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.embedded_project import servers
from tests.support.waiting import wait_until
from tests.support.workshop import Workshop

LARGE_BYTES = 100_000_000

#: Prints every byte value, a hundred megabytes of them.
LARGE = f"""
import os
block = bytes(range(256)) * 250
for _ in range({LARGE_BYTES} // len(block)):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""

#: A million short lines, flushed every now and then, the last one without its end.
LINES = """
import sys
for number in range(1_000_000):
    sys.stdout.write(f"{number}\\n" if number < 999_999 else f"{number}")
    if number % 997 == 0:
        sys.stdout.flush()
"""

#: Bytes that are no text, in pieces that cut characters in half.
BROKEN = """
import os
face = "\\U0001f600".encode()
for piece in (b"\\xff\\xfe", b"\\xc3", b"\\xa9", b"\\r\\n\\0\\x1b[2J", face[:3], face[3:] + b" no end"):
    os.write(1, piece)
"""

#: Closes stdout and stderr, lives on until told, and exits with a code of its own.
CLOSES = """
import os, time
os.write(1, b"said")
os.close(1)
os.close(2)
open("closed", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
os._exit(0)
"""


def _kib(pid: int, name: str) -> int:
    """Return a figure of a process's memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"no {name}")


def _carried_out(maestro, run, timeout_s: float = 60):
    wait_until(lambda: maestro.runs.read(run.id).status not in ("pending", "running"), "the run has ended", timeout_s)
    return maestro.runs.read(run.id)


def _digest(maestro, run_id: str) -> tuple[str, int, int]:
    digest, size, lines = hashlib.sha256(), 0, 0
    for chunk in maestro.runs.chunks(run_id):
        digest.update(chunk)
        size += len(chunk)
        lines += chunk.count(b"\n")
    return digest.hexdigest(), size, lines


def test_a_hundred_megabytes_are_exact_and_memory_is_bounded(shop: Workshop):
    """Every byte arrives; the worker grows by less than 60 MB, the server by hardly more than what it stores."""
    worker = shop.start_worker()
    (server,) = servers(shop.project)
    maestro = shop.open()
    maestro.sessions.start("large", tool=shop.tool("large", LARGE))
    _carried_out(maestro, maestro.runs.start("warm up", tool="cat"))
    before, server_before = _kib(worker.pid, "VmHWM"), _kib(server, "VmRSS")
    ended = _carried_out(maestro, maestro.runs.start("go"), 180)

    block = bytes(range(256)) * 250
    wanted = hashlib.sha256()
    for _ in range(LARGE_BYTES // len(block)):
        wanted.update(block)
    digest, size, _ = _digest(maestro, ended.id)
    assert (ended.status, ended.output_ref.size, size) == ("success", size, LARGE_BYTES // len(block) * len(block))
    assert digest == ended.output_ref.digest == wanted.hexdigest()
    grown, server_grown = _kib(worker.pid, "VmHWM") - before, _kib(server, "VmHWM") - server_before
    print(f"worker grew by {grown} KiB, server by {server_grown} KiB")
    assert grown < 60_000
    assert server_grown < 1.5 * LARGE_BYTES / 1024


def test_every_shape_of_output_is_kept_as_it_was_printed(shop: Workshop):
    """A million short lines without a last end, bytes that are no text, and a tool that closes stdout and lives on."""
    shop.start_worker()
    maestro = shop.open()
    maestro.sessions.start("shapes")
    lines = _carried_out(maestro, maestro.runs.start("p", tool=shop.tool("lines", LINES)))
    wanted = "\n".join(map(str, range(1_000_000))).encode()
    assert (lines.status, lines.output_ref.size) == ("success", len(wanted))
    assert _digest(maestro, lines.id) == (hashlib.sha256(wanted).hexdigest(), len(wanted), 999_999)

    broken = _carried_out(maestro, maestro.runs.start("p", tool=shop.tool("broken", BROKEN)))
    said = b"\xff\xfe\xc3\xa9\r\n\0\x1b[2J\xf0\x9f\x98\x80 no end"
    assert (broken.status, maestro.runs.output(broken.id)) == ("success", said)

    run = maestro.runs.start("p", tool=shop.tool("closes", CLOSES))
    wait_until((shop.project / "closed").exists, "the tool has closed its output")
    wait_until(lambda: maestro.runs.output(run.id) == b"said", "what it said is there while it lives")
    assert maestro.runs.read(run.id).status == "running"
    (shop.project / "go").touch()
    closed = _carried_out(maestro, run)
    assert (closed.status, closed.exit_code, closed.output_ref.size) == ("success", 0, 4)

    maestro.sessions.end()
    for run_id, content in ((lines.id, wanted), (broken.id, said), (closed.id, b"said")):
        assert maestro.runs.output(run_id) == content
        kept = shop.project / ".maestro/sessions" / maestro.sessions.list(everything=True)[0].id
        assert (kept / "runs" / run_id / "output.txt").read_bytes() == content
