"""What is said of a word that is no command."""

from __future__ import annotations

import pytest
from maestro_cli.main import run


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("sesion", "Did you mean 'session'"),
        ("stat", "Did you mean 'status'"),
        ("start", "Did you mean 'session start' or"),
        ("use-output", "Did you mean 'context use-output'?"),
        ("help", "Did you mean 'maestro --help'?"),
        ("version", "Did you mean 'maestro --version'?"),
    ],
)
def test_what_may_be_meant_is_named(word: str, meant: str, capsys: pytest.CaptureFixture[str]):
    """A name like it, or the group that has it as a verb."""
    assert run([word]) == 2
    told = capsys.readouterr().err
    assert f"No such command '{word}'. {meant}" in told
    assert "maestro --help" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["session", "strat"], "No such command 'strat'. Did you mean 'start' or 'status'? → maestro session --help"),
        (["session", "end", "--wat"], "Did you mean '--no-wait' or '--wait'? → maestro session end --help"),
        (["run", "--model"], "Option '--model' requires an argument. → maestro run --help"),
        (["session", "start", "--note"], "Option '--note' requires an argument. → maestro session start --help"),
        (["run", "fix", "login"], "argument (login) → a text of several words goes in quotes; maestro run --help"),
        (
            ["session", "start", "fix", "a", "b"],
            "(a b) → a text of several words goes in quotes; maestro session start",
        ),
        (["--project"], "Option '--project' requires an argument. → maestro --help"),
    ],
)
def test_all_mistakes_are_told_alike(words: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    """Whatever was mistyped, where; and the help that is named is that of the command."""
    assert run(words) == 2
    assert told in capsys.readouterr().err


def test_a_word_like_no_command_is_only_refused(capsys: pytest.CaptureFixture[str]):
    """Nothing is guessed."""
    assert run(["xyzzy"]) == 2
    assert capsys.readouterr().err == "maestro: No such command 'xyzzy'. → maestro --help\n"
