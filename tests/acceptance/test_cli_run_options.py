"""`maestro run` with all that can be asked of it, and `maestro show` with all that it can show of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.acceptance.test_cli_runs import Screen
from tests.support.cli_runs import MAESTRO, maestro_command, printed, refused
from tests.support.embedded_project import ended_project
from tests.support.waiting import wait_until

NOBODY = "00000000-0000-4000-8000-000000000000"
SECRET = "s3cret-of-mine-8814"

project = ended_project


def test_show_has_prompt_context_and_meta_for_people_and_programs(project: Path):
    """Each part comes as text and as a document; the prompt's bytes are exact in a pipe."""
    (project / "a.py").write_text("print('a')\n")
    printed(project, "session", "start", "shown", "--tool", "cat")
    printed(project, "context", "add", "a.py")
    printed(project, "context", "add", "--text", "a remark")
    ran = printed(project, "run", "--stdin", stdin=b"what \xff is\tthis?")
    printed(project, "context", "remove", "ctx-0001")

    shown = subprocess.run([MAESTRO, "show", "1", "--prompt"], cwd=project, capture_output=True, check=True)
    assert shown.stdout == b"what \xff is\tthis?"
    assert printed(project, "show", "1", "--prompt")["prompt"] == "what \ufffd is\tthis?"

    document = printed(project, "show", "1", "--context")
    assert [(one["id"], one["kind"]) for one in document["context"]] == [("ctx-0001", "file"), ("ctx-0002", "text")]
    assert document["run"]["context_version"] == [
        {"id": one["id"], "digest": one["digest"]} for one in document["context"]
    ]
    rows = maestro_command(project, "show", "1", "--context")
    assert rows.returncode == 0
    assert "a.py" in rows.stdout
    assert document["context"][0]["digest"][:12] in rows.stdout
    assert "ctx-0002" in rows.stdout

    meta = printed(project, "show", "1", "--meta")
    assert set(meta) == {"run"}
    assert meta["run"] == {name: value for name, value in ran.items() if name != "output"}
    text = maestro_command(project, "show", "1", "--meta")
    assert json.loads(text.stdout) == meta["run"]
    assert refused(project, "show", "7", "--context")[0] == 3
    assert refused(project, "show", "one", "--meta")[0] == 2


def test_a_cookie_leaves_a_breadcrumb_of_the_run(project: Path):
    """By option or by setting the run is told in its work session; an unknown one fails before anything runs."""
    work = printed(project, "wsession", "start", "task")["session_id"]
    printed(project, "session", "start", "crumbs", "--tool", "cat")
    ran = printed(project, "run", "by option", "--cookie", work)
    assert ran["cookie"] == work
    printed(project, "run", "by setting", "--no-history", env={"MAESTRO_COOKIE": work})
    printed(project, "run", "without")
    assert refused(project, "run", "unknown", "--cookie", NOBODY)[0] == 3
    assert refused(project, "run", "nonsense", "--cookie", "../../etc")[0] in (2, 3)
    assert len(printed(project, "runs")["runs"]) == 3

    def crumbs() -> list[dict[str, object]]:
        return printed(project, "wsession", "breadcrumbs", work)["breadcrumbs"]

    # It is left when the run has ended: whoever waited for the run may look a moment before.
    wait_until(lambda: len(crumbs()) >= 2, "both breadcrumbs are there")
    assert [one["prompt"] for one in crumbs()] == ["by option", "by setting"]
    assert [one["response"] for one in crumbs()] == ["by option", "by setting"]


def test_a_variable_is_named_and_its_value_written_nowhere(project: Path):
    """--env takes names; what a tool sees of the terminal's variables is in no file."""
    tool = "sh -c 'test -n \"$PASSED\" && echo seen; exit 0'"
    passed_on = {"PASSED": SECRET}
    printed(project, "session", "start", "variables", "--tool", tool)
    assert printed(project, "run", "p")["output"] == ""
    passed = printed(project, "run", "p", "--env", "PASSED", env=passed_on)
    assert (passed["output"], passed["env"]) == ("seen\n", ["PASSED"])
    for wrong in ("PASSED=value", "A B", "", "-x", "É", "A\nB"):
        assert refused(project, "run", "p", f"--env={wrong}")[0] == 2, wrong
    assert len(printed(project, "runs")["runs"]) == 2
    printed(project, "session", "end")
    printed(project, "stack", "stop")  # all is written, and nobody moves files while they are read
    kept = [path for path in (project / ".maestro").rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert [str(path) for path in kept if SECRET.encode() in path.read_bytes()] == []


def test_confirm_with_everything_else(project: Path):
    """It shows the command and the size, asks nobody when nothing would run, and Ctrl-C is no."""
    printed(project, "session", "start", "confirm", "--tool", "cat -v")
    screen = Screen(project, "run", "what I ask", "--confirm")
    screen.wait_for(b"Send this?")
    assert b"cat -v" in screen.seen
    assert b"(10 bytes)" in screen.seen
    screen.press(b"\x03")
    assert screen.end() == 130
    assert printed(project, "runs")["runs"] == []

    dry = printed(project, "run", "p", "--confirm", "--dry")
    assert (dry["status"], dry["flags"]["dry_run"]) == ("dry", True)
    screen = Screen(project, "run", "p", "--confirm", "--detach")
    screen.wait_for(b"Send this?")
    screen.press(b"y\n")
    assert screen.end() == 0
    (run,) = [one for one in printed(project, "runs")["runs"] if one["status"] != "dry"]
    assert (run["flags"]["confirm"], bool(run["flags"]["confirmed_at"])) == (True, True)
    assert refused(project, "run", "--stdin", "--confirm", stdin=b"p")[0] == 2
    assert len(printed(project, "runs")["runs"]) == 2
