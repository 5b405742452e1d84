"""`maestro serve --open` where no browser can be started."""

from __future__ import annotations

import sys
import webbrowser

import pytest
from maestro_cli.commands.serve import _start_browser

URL = "http://127.0.0.1:4175/#signin=a-code-that-works-once-and-is-as-long-as-they-are-in-earnest"


@pytest.mark.parametrize(("opens", "on_terminal"), [(True, True), (False, True), (False, False)])
def test_the_address_is_shown_to_who_reads_the_screen(opens: bool, on_terminal: bool, monkeypatch, capsys):
    """Whole and on a line of its own; a log gets no code, and where a browser starts there is nothing to say."""
    monkeypatch.setattr(webbrowser, "open", lambda url: opens)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal, raising=False)
    _start_browser(URL)
    said = capsys.readouterr().err
    assert ("no browser" in said) is not opens
    assert (URL in said.splitlines()) is (on_terminal and not opens)
    assert ("signin" in said) is (on_terminal and not opens)
