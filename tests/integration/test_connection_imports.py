"""What a command pays before it can talk to a server: only what it needs is imported."""

from __future__ import annotations

import subprocess
import sys

from tests.servers import valkey

HEAVY = ("redis", "asyncio", "ssl", "urllib", "pydantic", "structlog", "rq")

PROGRAM = """
import sys
from maestro_state.connection import connect
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
