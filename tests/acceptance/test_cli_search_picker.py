"""`maestro search` without words, on a terminal: hits come while one types."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from maestro_cli.screen.picker import Picker, _draw, split_keys

from maestro_state import Found, Hit
from maestro_state.search.words import QUERY_MAX
from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import maestro_command, printed, refused
from tests.support.embedded_project import temporary_project

ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project with two messages."""
    with temporary_project() as folder:
        printed(folder, "session", "start", "pick me")
        printed(folder, "message", "add", "--role", "user", "first pangolin")
        printed(folder, "message", "add", "--role", "user", "second pangolin")
        yield folder


def settings(screen: Screen) -> list[object]:
    """Return how the terminal is set."""
    return termios.tcgetattr(screen.master)[:4]


def test_type_choose_and_get_the_command(project: Path):
    """The beginning of a word is enough; the arrows choose; what is printed can be run."""
    screen = Screen(project, "search")
    screen.wait_for(b"type words")
    screen.press(b"pangox\x7f")
    screen.wait_for(b"2 hits")
    screen.wait_for(b"second ")
    screen.press(b"\x1b[B\r")
    assert screen.end() == 0
    assert screen.seen.count(ENTER_SCREEN) == screen.seen.count(LEAVE_SCREEN) == 1
    command = screen.seen.rpartition(LEAVE_SCREEN)[2].decode().strip()
    assert command.startswith("maestro --session pick-me--")
    words = command.split()[1:]
    assert "first pangolin" in maestro_command(project, *words).stdout


@pytest.mark.parametrize(("key", "code"), [(b"\x1b", 0), (b"\x04", 0), (b"\x03", 130)])
def test_leaving_leaves_the_screen_as_it_was(project: Path, key: bytes, code: int):
    """Whatever the way: the other screen is back, and the terminal set as before."""
    screen = Screen(project, "search")
    before = settings(screen)
    screen.wait_for(b"type words")
    assert settings(screen) != before
    screen.press(b"zzz")
    screen.wait_for(b"nothing found")
    screen.press(key)
    screen.wait_for(LEAVE_SCREEN)
    master = os.dup(screen.master)
    try:
        assert screen.end() == code
        assert termios.tcgetattr(master)[:4] == before
    finally:
        os.close(master)
    assert screen.seen.rpartition(LEAVE_SCREEN)[2].strip() == b""


def test_a_huge_paste_does_not_make_it_deaf(project: Path):
    """Whatever is pasted: of it a question is kept, and the next key is heard."""
    screen = Screen(project, "search")
    screen.wait_for(b"type words")
    screen.press(b"pangolin " + b"x" * 2000)
    for _ in range(100):
        screen.press(b"y" * 2000)
    screen.press(b"\x15pangolin")
    screen.wait_for(b"2 hits")
    screen.press(b"\x03")
    assert screen.end() == 130


def test_without_a_terminal_it_is_refused(project: Path):
    """There is nobody to type."""
    code, error = refused(project, "search")
    assert (code, error["message"]) == (2, "there is nothing to search for")


def hit(number: int, snippet: str = "a «word» here") -> Hit:
    """Return something found."""
    return Hit(
        session_id=f"s--{number:06}", slug="s", kind="message", entry="1-0", ts="2026-11-18T03:00:00.000+00:00",
        snippet=snippet,
    )  # fmt: skip


def test_every_line_fits_and_the_chosen_one_is_shown():
    """However small the window, and whatever a text holds."""
    hits = [hit(number, "x\x1b[2J\u202e登录 " * 30) for number in range(50)]
    picker = Picker(lambda typed, limit: Found(hits, len(hits)))
    picker.key("é登".encode(), 3)
    picker.search(200)
    for columns, rows in ((80, 24), (20, 8)):
        for _ in range(60):
            picker.key(b"\x1b[B", 3)
            lines = picker.lines(columns, rows)
            assert len(lines) <= rows
            assert all(len(line) < 400 and "\x1b[2J" not in line for line in lines)
            assert any(picker.chosen.session_id in line for line in lines if ">" in line)
        picker.key(b"\x1b[5~", 100)
    assert picker.chosen == hits[0]


def test_what_is_pasted_is_kept_as_far_as_one_can_ask():
    """So that to show it, and to ask, takes no longer than for any question."""
    asked: list[str] = []
    picker = Picker(lambda typed, limit: asked.append(typed))
    picker.key(b"x" * 100_000, 3)
    assert picker.key(b"y", 3) is None, "nothing changed"
    picker.search(200)
    assert [len(one) for one in asked] == [QUERY_MAX]
    assert picker.prompt(80) == "search: " + "x" * 71


def test_enter_never_chooses_what_was_found_for_less():
    """Who types on while the first letters are asked for gets a hit of the whole."""
    picker = Picker(lambda typed, limit: Found([hit(len(typed))], 1))
    picker.key(b"log", 3)
    picker.search(200)
    picker.key(b"in", 3)
    assert picker.key(b"\r", 3) == "enter"
    picker.search(200)
    assert picker.chosen == hit(5)
    picker.search(200)
    assert picker.chosen == hit(5)


def test_a_full_line_keeps_its_last_letter(capsys: pytest.CaptureFixture[str]):
    """Nothing is erased behind what was written, where the cursor may still be on it; the screen is filled."""
    picker = Picker(lambda typed, most: Found([hit(0, "x" * 100)], 1))
    picker.search(1)
    _draw(picker, os.terminal_size((40, 10)))
    lines = capsys.readouterr().err.removeprefix("\x1b[H").split("\r\n")
    assert len(lines) == 10
    assert all(line.startswith("\x1b[K") and line.count("\x1b[K") == 1 and "\x1b[J" not in line for line in lines)


def test_keys_are_told_apart():
    """Letters in a row together, keys by themselves, and what is no key of ours left out."""
    assert list(split_keys("aé\x7f\x1b[B\x1b[1;5C\x01b\r".encode())) == ["aé".encode(), b"\x7f", b"\x1b[B", b"b", b"\r"]
    assert list(split_keys(b"\x1b")) == [b"\x1b"]
