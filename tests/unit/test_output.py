"""What reaches a terminal: tables that obey nobody but us."""

from __future__ import annotations

import pytest

from cli import output

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
