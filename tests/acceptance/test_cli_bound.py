"""Sessions of other frameworks at the command line: listed with what they are bound to, and named by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.adapters.binding import Entries
from tests.support.cli_runs import printed, refused

KEYS = {"openai": "a b/{c}:*..", "langgraph": "日本", "adk": "app/user/1", "claude": "-work-shop/1111"}


@pytest.mark.usefixtures("served")
def test_they_are_listed_and_named(project: Path):
    """Live and archived: `bound` in the list, `kind:key` wherever a session is named; an unknown key is not found."""
    with Maestro(project) as maestro:
        for kind, key in KEYS.items():
            session_id = maestro.bindings.ensure(kind, key)
            maestro.bindings.write(session_id, Entries().message("user", f"for {kind}"))
            maestro.bindings.write(session_id, Entries().message("user", "taken back"))
            maestro.bindings.retract_last(session_id)
    rows = printed(project, "session", "list")["sessions"]
    assert {row["bound"]["kind"]: row["bound"]["key"] for row in rows} == KEYS
    for kind, key in KEYS.items():
        ref = f"{kind}:{key}"
        assert printed(project, "session", "status", ref)["session"]["bound"] == {"kind": kind, "key": key}
        first, second = printed(project, "--session", ref, "messages")["messages"]
        assert (first["content"], "retracted_at" in first, "retracted_at" in second) == (f"for {kind}", False, True)
        assert printed(project, "session", "end", ref)["state"] == "finalizada"
        archived = printed(project, "--session", ref, "messages")["messages"]
        assert archived == [first, second]
    rows = printed(project, "session", "list")["sessions"]
    assert {row["bound"]["kind"]: row["bound"]["key"] for row in rows} == KEYS
    code, error = refused(project, "session", "status", "openai:nobody")
    assert (code, error["code"]) == (3, "session_not_found")
