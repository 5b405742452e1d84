"""A tool as a child process: exact bytes both ways, no deadlock, nothing left behind. No server is needed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from maestro_workers import invoke as module
from maestro_workers.invoke import Finished, Invocation, invoke

from tests.support.embedded_project import is_alive
from tests.support.waiting import wait_until

GRANDCHILD = "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])"


def call(folder: Path, code: str, **options) -> tuple[Finished, bytes]:
    """Run some Python as the tool and return how it ended and what it printed."""
    pieces: list[bytes] = []
    values = {
        "argv": [sys.executable, "-S", "-c", code],
        "stdin": b"",
        "folder": str(folder),
        "environment": {"PATH": os.environ["PATH"]},
        "timeout_s": 60.0,
        "on_output": lambda data: pieces.append(data),
        "on_beat": lambda: None,
        "beat_s": 0.05,
        **options,
    }
    finished = invoke(Invocation(**values))
    return finished, b"".join(pieces)


def test_bytes_are_exact_in_both_directions(tmp_path):
    """Every byte value, no newline at the end: what goes in comes out."""
    data = bytes(range(256)) * 4096 + b"\xff\xfe no newline"
    finished, said = call(tmp_path, "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", stdin=data)

    assert finished == Finished(0, None, b"")
    assert said == data


def test_a_tool_that_does_not_read_its_input_does_not_hang(tmp_path):
    """A megabyte that nobody reads neither blocks nor fails; one who writes before reading does not either."""
    finished, said = call(tmp_path, "print('done')", stdin=b"x" * 1_000_000)
    assert (finished.exit_code, said) == (0, b"done\n")
    code = "import sys; sys.stdout.write('y' * 3_000_000); sys.stdout.flush(); print(len(sys.stdin.read()))"
    finished, said = call(tmp_path, code, stdin=b"x" * 1_000_000)
    assert said.endswith(b"y1000000\n")


def test_a_child_that_closes_stdout_and_lives_on_is_waited_for(tmp_path):
    """The end of stdout is not the end of the tool: its exit code counts."""
    code = "import os, time; os.write(1, b'said'); os.close(1); time.sleep(0.7); os._exit(3)"
    finished, said = call(tmp_path, code)

    assert (finished.exit_code, finished.stopped, said) == (3, None, b"said")


def test_what_a_tool_leaves_running_is_killed_and_does_not_hold_its_end_up(tmp_path):
    """A grandchild that keeps stdout open neither delays the end for ever nor survives it."""
    code = f"import subprocess, sys; print({GRANDCHILD}.pid)"
    finished, said = call(tmp_path, code)

    assert finished.exit_code == 0
    wait_until(lambda: not is_alive(int(said)), "the grandchild is gone")


@pytest.mark.parametrize("why", ["timeout", "asked"])
def test_a_tool_that_ignores_the_request_to_end_is_made_to(tmp_path, monkeypatch, why):
    """TERM, a grace, then KILL for the whole group; what was printed before is there."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        # Past Python's buffer, which may be in the middle of the line below when the signal comes.
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'asked\\n'))\n"
        f"print({GRANDCHILD}.pid, flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    seen: list[bytes] = []
    later = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + later))

    def hear(data: bytes) -> None:
        """Let the time be over that the tool has, to run or to end: once it has done what the test waits for."""
        nonlocal later
        seen.append(data)
        if why == "timeout" or data.endswith(b"asked\n"):
            later += 600

    options = {"timeout_s": 300.0} if why == "timeout" else {"on_beat": lambda: "asked" if seen else None}
    finished, _ = call(tmp_path, code, grace_s=300.0, on_output=hear, **{"timeout_s": 10_000.0} | options)

    first, *rest = b"".join(seen).split(b"\n")
    assert rest == [b"asked", b""]
    assert (finished.exit_code, finished.stopped) == (None, why)
    wait_until(lambda: not is_alive(int(first)), "the grandchild is gone")


def test_only_the_tail_of_stderr_is_kept(tmp_path):
    """Megabytes on stderr cost a few kilobytes of memory, and do not block the tool."""
    heard: list[int] = []
    code = "import sys; sys.stderr.write('e' * 3_000_000 + 'the end'); print('ok')"
    finished, said = call(tmp_path, code, on_stderr=lambda data: heard.append(len(data)))

    assert said == b"ok\n"
    assert len(finished.stderr) == module.STDERR_BYTES
    assert finished.stderr.endswith(b"the end")
    assert sum(heard) == 3_000_007


def test_short_lines_are_handed_on_together_and_one_line_at_once(tmp_path):
    """A hundred thousand short lines make few pieces; the first line does not wait for more."""
    pieces: list[bytes] = []
    code = "import sys\nprint('first', flush=True)\nfor n in range(100000): print(n, flush=n % 7 == 0)"
    call(tmp_path, code, on_output=lambda data: pieces.append(data))

    assert b"".join(pieces) == b"first\n" + b"".join(b"%d\n" % n for n in range(100000))
    assert len(pieces) < 2000
    assert max(map(len, pieces)) <= module.PIECE_BYTES


def test_argv_environment_and_folder_are_exactly_those_given(tmp_path, monkeypatch):
    """No shell looks at the words, and nothing of our environment goes along."""
    monkeypatch.setenv("MAESTRO_TEST_MARK", "leak")
    words = ["$(touch marker)", "; touch marker", "-x", "a\nb", "", "`id`"]
    code = "import os, sys, json; print(json.dumps([sys.argv[1:], sorted(os.environ), os.getcwd()]))"
    _, said = call(tmp_path, "", argv=[sys.executable, "-S", "-c", code, *words])

    import json

    arguments, environment, folder = json.loads(said)
    assert arguments == words
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "MAESTRO_RUN_MARK"}
    assert folder == str(tmp_path)
    assert not (tmp_path / "marker").exists()


def test_a_program_that_is_not_there_is_an_error_at_once(tmp_path):
    """Nothing is started and nothing is left."""
    with pytest.raises(FileNotFoundError):
        call(tmp_path, "", argv=["/no/such/program"])
