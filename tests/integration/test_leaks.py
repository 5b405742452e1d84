"""Secrets that tools printed: marked when a session is archived, listed by file, line and kind, never by value."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from maestro_state.mirror import leaks
from maestro_state.mirror.leaks import MARKS
from tests.support.backends import Backend
from tests.support.cli_runs import maestro_command, printed
from tests.support.stored import filler

#: Made up, in the shape of a real one.
TOKEN = "ghp_" + "q1W2e3R4t5Y6u7I8o9P0a1S2d3F4g5H6j7K8"
KEY = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"MIIEowIBAAKCAQEAx9Y8z7W6v5U4t3S2r1Q0p9O8n7M6l5K4\n" * 20
KEY += b"-----END RSA PRIVATE KEY-----\n"


def test_what_a_tool_printed_is_marked_and_listed(real: Backend, project: Path):
    """File, line and kind, in the mark and by verify --secrets; the value in neither. Without a secret, no mark."""
    with real.open() as library:
        clean = library.sessions.start("clean")
        filler(real, clean.id).run(b"an answer\nof two lines\n")
        library.sessions.end()
        leaky = library.sessions.start("leaky")
        fill = filler(real, leaky.id)
        fill.run(b"nothing here\n")
        fill.run(f"first\nsecond\ntoken {TOKEN}\n".encode())
        library.messages.add("assistant", f"I used {TOKEN}")
        assert not (project / ".maestro/sessions" / leaky.id / MARKS).exists()
        library.sessions.end()
        real.raw.delete(*library.server.terms.keys.session(leaky.id))
    folder = project / ".maestro/sessions"
    assert not (folder / clean.id / MARKS).exists()
    wanted = [
        {"path": "runs/0002/output.txt", "line": 3, "rule": "GitHub Token"},
        {"path": "messages.jsonl", "line": 1, "rule": "GitHub Token"},
    ]
    assert json.loads((folder / leaky.id / MARKS).read_text()) == {"format": 1, "secrets": wanted}
    assert TOKEN not in (folder / leaky.id / MARKS).read_text()

    found = printed(project, "verify", leaky.id, "--secrets")
    assert (found["ok"], found["secrets"]) == (True, wanted)
    assert printed(project, "verify", clean.id, "--secrets")["secrets"] == []
    assert "secrets" not in printed(project, "verify", leaky.id)
    every = printed(project, "verify", "--all", "--secrets")["secrets"]
    assert [one["path"] for one in every] == [f"{leaky.id}/{one['path']}" for one in wanted]
    shown = maestro_command(project, "verify", leaky.id, "--secrets")
    assert shown.returncode == 0
    assert "runs/0002/output.txt:3: GitHub Token" in shown.stdout
    assert TOKEN not in shown.stdout + shown.stderr
    # Nobody relies on a mark: one that says nothing hides nothing.
    (folder / leaky.id / MARKS).write_text('{"format": 1, "secrets": []}')
    assert printed(project, "verify", leaky.id, "--secrets")["secrets"] == wanted
    exported = maestro_command(project, "export", leaky.id, "--redact", "--json")
    assert TOKEN not in Path(json.loads(exported.stdout)["path"]).read_text()


TEXT = b"a line\n" * 30 + KEY + b"x\n" * 50 + TOKEN.encode() + b"\nthe end " + TOKEN.encode()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=6, unique=True))
def test_a_secret_over_the_end_of_a_piece_is_found_once(cuts: list[int]):
    """However the text is cut, the same lines and kinds are found as in the whole of it."""
    ends = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[start:end] for start, end in pairwise(ends)]
    held, leaks._HELD = leaks._HELD, len(KEY) + 100
    try:
        assert list(leaks._search(pieces)) == list(leaks._search([TEXT]))
    finally:
        leaks._HELD = held
    assert [line for line, _ in leaks._search([TEXT])] == [31, 31 + 22 + 50, 31 + 22 + 51]
