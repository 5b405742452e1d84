"""Signals of the moment before a wait: each wait of a command hears them, and the usual way to wait does not."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import printed
from tests.support.embedded_project import temporary_project
from tests.support.process_status import is_pending, state
from tests.support.waiting import TIMEOUT_S, wait_until

#: Has a thread take the signal where it would wake nobody: as if it came just before the wait.
_HEARING = """
import os, signal, sys, threading

def hear():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    hears.set()
    threading.Event().wait()

hears = threading.Event()
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
threading.Thread(target=hear, daemon=True).start()
hears.wait()
"""

_ASKED = f"""{_HEARING}
from maestro_cli.screen.question import confirmed
try:
    input("sure?") if sys.argv[1] == "input" else confirmed("sure?")
except KeyboardInterrupt:
    os.write(1, b"left")
os._exit(0)
"""


@pytest.mark.parametrize("asks", ["confirmed", "input"])
def test_a_question_hears_a_signal_that_comes_before_it_waits(tmp_path: Path, asks: str):
    """With the control that `input` sleeps on until a line comes."""
    screen = Screen(tmp_path, program=[sys.executable, "-c", _ASKED, asks])
    screen.wait_for(b"sure?")
    os.kill(screen.pid, signal.SIGINT)
    if asks == "input":
        wait_until(lambda: not is_pending(screen.pid, signal.SIGINT), "a thread has taken the signal")
        assert b"left" not in screen.seen
        screen.press(b"y\n")
    screen.end()
    assert screen.seen.endswith(b"left")


_FOLLOWED = f"""{_HEARING}
from maestro_cli.screen.interrupts import Interrupts
with Interrupts() as interrupts:
    os.write(1, b"canceled" if interrupts.wants_cancel("0001") else b"left")
os._exit(0)
"""


def test_a_second_ctrl_c_is_heard_by_the_question_about_the_first(tmp_path: Path):
    """Typed as a signal still, it comes when the question is there already: it cancels."""
    screen = Screen(tmp_path, program=[sys.executable, "-c", _FOLLOWED])
    screen.wait_for(b"[c]ancel")
    os.kill(screen.pid, signal.SIGINT)
    screen.end()
    assert screen.seen.endswith(b"canceled")


_HANDED_OVER = f"""{_HEARING}
import select, socket
from maestro_cli import entry
line = socket.socket(fileno=int(sys.argv[2]))
if sys.argv[1] == "entry":
    poll = select.poll
    select.poll = lambda: (os.write(1, b"waits"), poll())[1]
    os._exit(entry._await_end(line, ["run"]))
os.write(1, b"waits")
while True:
    try:
        os._exit(line.recv(1)[0])
    except KeyboardInterrupt:
        line.send(b"!")
"""


@pytest.mark.parametrize("waits", ["entry", "recv"])
def test_an_interrupt_is_passed_on_that_comes_before_the_wait_for_the_end(waits: str):
    """To the process that runs the command. The control sleeps on until there is something to read."""
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    with ours, theirs:
        words = [sys.executable, "-c", _HANDED_OVER, waits, str(theirs.fileno())]
        with started(words, pass_fds=[theirs.fileno()]) as caller:
            assert caller.stdout.read(5) == b"waits"
            wait_until(lambda: state(caller.pid) == "S", "it waits")
            caller.send_signal(signal.SIGINT)
            wait_until(lambda: not is_pending(caller.pid, signal.SIGINT), "a thread has taken the signal")
            if waits == "entry":
                assert ours.recv(1) == b"!"
                ours.send(b"\x07")
                assert caller.wait(TIMEOUT_S) == 7
            else:
                assert select.select([ours], [], [], 0)[0] == []
                ours.send(b"\x07")  # which is lost then: what interrupts is raised instead
                assert ours.recv(1) == b"!"


_FOREGROUND = """
import sys
from maestro_cli.foreground import Foreground
running = Foreground(sys.executable, [sys.executable, "-S", "-c", sys.argv[1]], {})
print(running.pid, flush=True)
sys.exit(running.wait(lambda pid: None))
"""
_STOPS_TWICE = """
import os, signal
for said in (b"once", b"twice"):
    os.kill(os.getpid(), signal.SIGSTOP)
    os.write(1, said)
"""


def test_a_program_that_stops_again_at_once_stays_stopped():
    """Before its command went on: it is not continued then. Continued alone, the command means both (the control)."""
    words = [sys.executable, "-c", _FOREGROUND, _STOPS_TWICE]
    with started(words) as command:
        program = int(command.stdout.readline())
        assert os.WIFSTOPPED(os.waitpid(command.pid, os.WUNTRACED)[1])
        os.kill(program, signal.SIGCONT)
        assert command.stdout.read(4) == b"once"
        wait_until(lambda: state(program) == "T", "it has stopped again")
        command.send_signal(signal.SIGCONT)
        assert os.WIFSTOPPED(os.waitpid(command.pid, os.WUNTRACED)[1])
        assert state(program) == "T"
        command.send_signal(signal.SIGCONT)
        assert command.stdout.read() == b"twice"
        assert command.wait(TIMEOUT_S) == 0


_SCHEDULES = """
import os, signal, sys, threading
from maestro_workers.scheduler import _stopped_by_signals
if sys.argv[1] == "thread":
    stopping = _stopped_by_signals()
else:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: print("free" if stopping._cond.acquire(blocking=False) else "taken"))
with stopping._cond:  # as whoever waits for it has it, before and after
    signal.raise_signal(signal.SIGTERM)
if sys.argv[1] == "thread":
    stopping.wait()
    print("stopped")
"""


@pytest.mark.parametrize(("sets", "said"), [("thread", "stopped"), ("handler", "taken")])
def test_a_scheduler_hears_a_signal_in_the_middle_of_its_wait(sets: str, said: str):
    """The control: a handler, which runs in the thread that waits, finds the lock taken that setting an event takes."""
    done = subprocess.run([sys.executable, "-c", _SCHEDULES, sets], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (said, "")


def test_what_is_said_to_stop_a_scheduler_stops_it():
    """From when it is said on; before, it would be ended by the signal."""
    with temporary_project() as project:
        printed(project, "session", "start", "tended")
        screen = Screen(project, "scheduler")
        screen.wait_for(b"(Ctrl-C stops)")
        os.kill(screen.pid, signal.SIGTERM)
        assert screen.end() == 0


@contextmanager
def started(words: list[str], pass_fds: Sequence[int] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program with all it starts in a group of its own; nothing of that is left at the end."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, pass_fds=pass_fds) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
