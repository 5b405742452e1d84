"""Keys typed before a question is asked: there when the terminal is set up for it."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios

import pytest
from maestro_cli.screen import interrupts


@pytest.fixture
def typed():
    """Put a terminal with a key typed ahead, and no line end, in the place of this process's own."""
    ours, theirs = pty.openpty()
    kept = os.dup(0)
    os.dup2(theirs, 0)
    os.write(ours, b"c")
    assert os.read(ours, 1) == b"c"  # its echo: it has arrived
    yield
    os.dup2(kept, 0)
    for descriptor in (ours, theirs, kept):
        os.close(descriptor)


def test_a_key_typed_ahead_is_read(typed):
    """It counts, and the terminal is as it was afterwards."""
    before = termios.tcgetattr(0)
    with interrupts._keys() as keys:
        assert next(keys) == b"c"
    assert termios.tcgetattr(0) == before


def test_setting_the_terminal_up_with_a_flush_would_lose_it(typed):
    """Control: the usual way to read single keys throws away what was typed before."""
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ICANON
    termios.tcsetattr(0, termios.TCSAFLUSH, mode)
    assert select.select([0], [], [], 0)[0] == []


def test_a_second_interrupt_cancels_without_a_question():
    """Two of them before anything could be asked are an answer."""
    with interrupts.Interrupts() as counted:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert counted.wants_cancel("0001")
        assert counted.count == 0


def test_the_question_and_its_answer_fit_on_one_line():
    """Of the narrowest usual terminal, whose last column is left free."""
    assert len(interrupts.question("0001") + "c") < 80
