"""What people see of a worker on a terminal."""

from __future__ import annotations

import msgspec
from maestro_cli import output
from maestro_cli.commands import workers

from maestro_state.models.worker import Worker, WorkerTool

WORKER = Worker(
    id="a", host="h\x1b[31m", pid=7, since="2026-01-01T00:00:00.000+00:00", runs_at_once=4, runs_now=1, runs_done=9,
    tools=[WorkerTool("claude", "2.1.197 (Claude Code)"), WorkerTool("llm")], project="/srv", paths={"/home/a": "/p"},
)  # fmt: skip


def shown(worker: Worker, capsys, monkeypatch) -> list[str]:
    """Return the lines of one worker."""
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setattr(output, "colour", lambda text, **_: text)
    workers._show(worker)
    return capsys.readouterr().out.splitlines()


def test_a_worker_says_what_it_has(capsys, monkeypatch):
    """Its tools with their numbers, its folders; what it does not have takes no line, and no byte of it is obeyed."""
    first, *lines = shown(WORKER, capsys, monkeypatch)
    assert first.startswith("h")
    assert "\x1b" not in first
    assert first.endswith("1 of 4 runs now, 9 done")
    assert [line.split() for line in lines] == [
        ["tools", "claude", "2.1.197,", "llm"],
        ["projects", "/srv,", "/home/a=/p"],
    ]


def test_a_worker_says_what_limits_it_was_told(capsys, monkeypatch):
    """They hold everybody who asks for runs, so everybody can see where they come from."""
    limited = msgspec.structs.replace(WORKER, labels=["gpu"], runs_per_user=1, runs_per_session=3)
    assert shown(limited, capsys, monkeypatch)[-2:] == [
        "  projects  /srv, /home/a=/p",
        "  limits    1 open run of a user, 3 open runs of a session",
    ]
