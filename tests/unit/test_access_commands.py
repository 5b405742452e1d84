"""The commands an account may send: all that Maestro sends, and none that was forgotten in a script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import maestro_state
from maestro_state.state.access import Account, access_list
from maestro_state.state.keys import Keyspace

HOME = Path(maestro_state.__file__).parent


def allowed(role: str) -> set[str]:
    """Return the commands that an account of this role may send."""
    text = access_list("left", [Account("ana", role, "0123456789abcdef")]).splitlines()[1]
    return {word[1:].partition("|")[0] for word in text.split() if word.startswith("+")}


def test_every_command_of_a_script_is_allowed():
    """A script that uses a command that its account has not would be cut in the middle of a change."""
    used = {
        name.lower()
        for path in (HOME / "state" / "lua").rglob("*.lua")
        for name in re.findall(r"redis\.p?call\('([A-Za-z]+)'", path.read_text())
    }
    assert len(used) > 20
    assert used <= allowed("terminal")


def test_every_command_of_a_query_is_allowed():
    """What is asked for without a script: the first word of each command in `calls/`."""
    used = {
        name.lower()
        for path in (HOME / "state" / "calls").glob("*.py")
        for name in re.findall(r"\(\(?\"([A-Z]{3,})\", ", path.read_text())
    }
    assert len(used) > 10
    # A terminal lists no keys, and doctor says so where it may not read the server's settings.
    used -= {"block", "late", "newer"}  # an option, and answers of scripts
    assert used - allowed("terminal") <= {"scan", "config"}
    assert used - allowed("worker") <= {"config"}


@pytest.mark.parametrize(("one", "other"), [("a", "a_b"), ("a", "a-b"), ("a.b", "a-b"), ("a_b", "a-ub"), ("a", "a.b")])
def test_no_namespace_reaches_the_jobs_of_another(one: str, other: str):
    """Names that begin alike, or that RQ's letters make alike, are kept apart."""
    for first, second in ((one, other), (other, one)):
        for pattern in Keyspace(first).working_patterns():
            prefix = pattern.removesuffix("*")
            for theirs in Keyspace(second).working_patterns():
                key = theirs.replace("*", "x")
                assert key != prefix
                assert not (pattern.endswith("*") and key.startswith(prefix)), (pattern, key)
