"""What reaches a terminal: tables that obey nobody but us."""

from __future__ import annotations

import sys

import pytest
from maestro_cli import output
from maestro_cli.command_table import COMMANDS
from maestro_cli.screen import first_screen

from maestro_state.vocabulary import STATE_MEANINGS, SessionState

HOSTILE = "\x1b]0;owned\x07 red\x1b[31m \u202egnp"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_obeys_no_cell(capsys, monkeypatch, terminal):
    """An escape that a stored text brings is a picture, alone and in a coloured cell; our own colours stay."""
    monkeypatch.setattr(output, "is_terminal", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    output.table(("one", "two"), [(HOSTILE, output.state_word(HOSTILE)), ("plain", output.state_word("success"))])
    printed = capsys.readouterr().out
    assert "\x1b]" not in printed
    assert "\x1b[31m" not in printed
    assert "\u202e" not in printed
    assert printed.count("\u241b]0;owned") == 2
    assert ("\x1b[32m" in printed) == terminal


@pytest.mark.parametrize("columns", [8, 17, 32, 33, 57, 58, 59, 90])
def test_an_id_keeps_its_end(capsys, monkeypatch, columns):
    """On a terminal too narrow for it, an id loses its middle: what is typed to mean it is at its end."""
    long = "login-fails-since-monday-when-the-release-went-out--cb61ix"
    shown = output.clip_middle(long, columns)
    assert output.width_of(shown) == min(columns, len(long))
    assert shown.endswith(long[-min(8, columns // 2) :])
    assert shown == long or shown.count("…") == 1

    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    output.table(("", "session", "state"), [("*", long, "com_contexto")], ids=1)
    assert ("--cb61ix" in capsys.readouterr().out) == (columns >= 1 + 2 + 2 * 8 + 2 + 12)


def test_wide_characters_are_clipped_by_columns():
    """A character two columns wide is never cut in half."""
    assert output.clip("日本語日本語", 6) == "日本…"
    assert output.clip_middle("日本語日本語", 7) == "日本…語"
    assert output.clip_middle("short", 5) == "short"


def test_beginnings_tell_ids_apart():
    """As many characters as all ids differ in, and never fewer than a reference takes."""
    assert output.telling_length([]) == 8
    assert output.telling_length(["74c717aa-1776", "84c717aa-1776"]) == 8
    assert output.telling_length(["74c717aa-1776", "74c717aa-1876"]) == 11
    assert output.telling_length(["discussion", "discussion-2", "discussion"]) == 11


@pytest.mark.parametrize(("count", "words"), [(0, "0 bytes"), (1, "1 byte"), (2, "2 bytes")])
def test_one_byte_is_one(count, words):
    """One is not many."""
    assert output.size(count) == words


def test_our_own_colours_pass_and_others_do_not(capsys, monkeypatch):
    """A line keeps every style `colour` gives and shows any other escape as a picture."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for styled in (
        output.colour("x", bold=True),
        output.colour("x", dim=True),
        *(output.colour("x", name) for name in set(output.STATE_COLOURS.values())),
    ):
        output.line(styled)
        assert capsys.readouterr().out == f"{styled}\n"
    output.line("\x1b[8mhidden\x1b[2J")
    assert "\x1b" not in capsys.readouterr().out


def test_a_state_is_shown_with_its_meaning():
    """All six words say what they mean; a word nobody knows stands for itself."""
    assert set(STATE_MEANINGS) == {str(state) for state in SessionState}
    assert output.session_state("com_saida") == "com_saida · has output"
    assert output.session_state("?") == "?"


@pytest.mark.parametrize(("rows", "last"), [("24", True), ("60", False)])
def test_the_first_steps_stay_in_sight(rows: str, last: bool, monkeypatch):
    """A terminal that cannot hold the screen shows its end: there they are; the same lines, in another order."""
    long = list(first_screen.lines(COMMANDS))
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LINES", rows)
    shown = list(first_screen.lines(COMMANDS))
    assert sorted(shown) == sorted(long)
    assert (shown.index("First steps") > len(shown) - 8) is last
    assert (shown == long) is not last


def test_the_first_screen_fits_and_names_every_command():
    """80 × 40, with the first steps; a command that no group names yet is there too."""
    shown = list(first_screen.lines(COMMANDS))
    assert len(shown) <= 39  # and the prompt below it
    assert max(map(len, shown)) <= 80
    text = "\n".join(shown)
    for step in ("session start", "use", "run"):
        assert f"  maestro {step}" in text
    words = set(text[text.index("Ask ") :].replace(",", " ").split())
    assert set(COMMANDS) <= words
    assert "Others" not in text
    assert "Others   unheard-of" in "\n".join(first_screen.lines({**COMMANDS, "unheard-of": ()}))


def test_an_error_is_one_line_in_a_pipe_and_broken_between_words_on_a_terminal(capsys, monkeypatch):
    """What to do next stands in a row of its own where the whole does not fit; nothing is wider than the screen."""
    message, hint = "there is no such thing in this place, wherever one looks for it " * 2, "maestro session list --all"
    whole = f"maestro: {message} → {hint}\n"
    output.error_line("code", message, hint, as_json=False)
    assert capsys.readouterr().err == whole
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    output.error_line("code", message, hint, as_json=False)
    shown = capsys.readouterr().err
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.endswith(f"\n  → {hint}\n")
    assert " ".join(shown.split()) == " ".join(whole.split())
    output.error_line("code", "short", hint, as_json=False)
    assert capsys.readouterr().err == f"maestro: short → {hint}\n"


@pytest.mark.parametrize("columns", [80, 30, 12])
def test_a_bar_fills_and_fits(capsys, monkeypatch, columns):
    """It is drawn in place, empty at first and full at the end, and never wider than the terminal; not for a pipe."""
    bar = output.Progress("importing", at_least=20, unit="MiB")
    bar.update(10, 200)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    for done in (0, 100, 200):
        bar.update(done, 200)
    bar.done()
    _, empty, half, full = capsys.readouterr().err.split("\r")
    assert full == full.rstrip("\n") + "\n"
    assert [line.split()[-4:] for line in (empty, half, full)] == [[n, "of", "200", "MiB"] for n in ("0", "100", "200")]
    if columns > 12:
        assert "█" not in empty
        assert half.count("█") == half.count("░") > 0
        assert "░" not in full
        assert max(map(len, (empty, half, full.rstrip()))) < columns
