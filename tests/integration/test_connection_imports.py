"""What a command pays before it can talk to a server: only what it needs is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.backends import Backend
from tests.support.servers import valkey
from tests.support.stored import filler

HEAVY = ("redis", "asyncio", "ssl", "urllib", "pydantic", "structlog", "rq")

PROGRAM = """
import sys
from maestro_state.net import connect
connection = connect(sys.argv[1])
assert connection.call("ECHO", "hello") == b"hello"
connection.close()
print(*sorted(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_a_blocking_call_imports_nothing_heavy(tmp_path):
    """Connecting to a unix socket and calling needs no client library, no asyncio and no TLS."""
    with valkey(tmp_path) as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.url, *HEAVY], check=True, capture_output=True, text=True
        )
    assert done.stdout.split() == []


READING = """
import sys
from maestro_cli.main import run
code = run(["--project", *sys.argv[1:]])
loaded = {name for name in sys.modules if name.startswith("maestro_state.mirror.")} | {"hashlib"} & {*sys.modules}
print(code, *sorted(name.removeprefix("maestro_state.") for name in loaded), file=sys.stderr)
"""


def test_reading_a_live_session_imports_nothing_that_reads_archives(real: Backend, project: Path):
    """What only the disk has costs its modules, and the digests, when it is asked for; a live session does not."""
    with real.open() as library:
        session = library.sessions.start("work")
        filler(real, session.id).run(b"an answer\n", prompt=b"explain")

        def loaded(*arguments: str) -> list[str]:
            command = [sys.executable, "-c", READING, str(project), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
            code, *names = done.stderr.splitlines()[-1].split()
            assert code == "0"
            return names

        for command in (("runs",), ("messages",), ("show", "0001")):
            assert loaded(*command) == [], command
        assert [name for name in loaded("session", "status") if name != "hashlib"] == []  # one script is sent
        library.sessions.end()
        real.raw.delete(*library.server.terms.keys.session(session.id))
        assert "mirror.reader" in loaded("runs")  # control: from the disk they are needed
