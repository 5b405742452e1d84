"""What the process beside an opened tool tells at the end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from maestro_cli.open_follower import Follower

_FOLLOW = """
import sys
from types import SimpleNamespace
from maestro_cli.foreground import Foreground
from maestro_cli.open_follower import Follower

running = Foreground("/bin/true", ["true"], {})
app = SimpleNamespace(folder=sys.argv[1], session_ref=None)
start = {"tool": "claude", "started_ms": 0, "folder": "/"}
follower = Follower(app, "a--bcdfgh", None, start, running)
code = running.wait(lambda pid: None)
follower.finish()
sys.exit(code)
"""


def test_a_reason_of_any_length_is_told_in_one_line():
    """A reason longer than what the pipe takes at once is shortened, and never a traceback after the tool's exit."""
    folder = "/ü" * 1500  # no such folder, and in JSON longer than the pipe's buffer
    done = subprocess.run([sys.executable, "-c", _FOLLOW, folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "not all is in the session" in done.stderr
    assert "maestro import claude brings the rest" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("tool", "command"), [("llm", "maestro import llm --any-project"), ("qwen", "maestro import qwen")]
)
def test_who_sat_beside_another_is_told_what_is_not_in_the_session(
    tool: str, command: str, capsys: pytest.CaptureFixture[str]
):
    """Whose conversation was whose could not be told: nobody should have to find out that nothing was kept."""
    follower = Follower.__new__(Follower)
    follower._session_id, follower._start = "a--bcdfgh", {"tool": tool}
    follower._say({"forks": [], "said": 0, "is_in_doubt": False})
    assert capsys.readouterr().err == ""
    follower._say({"forks": [], "said": 0, "is_in_doubt": True})
    assert f"{command} keeps it" in " ".join(capsys.readouterr().err.split())
