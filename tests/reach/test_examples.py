"""The examples that need frameworks run as they stand, in an empty folder and without an account."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from maestro_state import Maestro

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_frameworks.py"


def test_two_frameworks_and_a_terminal_share_a_session(project: Path, served: None):
    """Each is told what the others said, and the terminal shows all of it."""
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    words = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(words, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with Maestro(project) as maestro:
        (row,) = maestro.sessions.list()
        said = [(one.role, one.content) for one in maestro.messages.since(ref=row.id)]
    assert said == [
        ("user", "The login fails after an hour."),
        ("user", "Why?"),
        ("assistant", "I was told 2 things, last: Why?"),
        ("user", "Is that right?"),
        ("assistant", "I was told 4 things, last: Is that right?"),
        ("user", "And now?"),
        ("assistant", "I was told 6 things, last: And now?"),
    ]
    assert all(content in done.stdout for _, content in said)
