"""The five real tools with `maestro mcp`: registered, asked what the team works on, and taken out again.

`python -m tests.real_tools.agents [TOOL...]` with the tools on PATH, which `make test-tools` installs. The model's API
is on loopback: it calls `get_session`, and what the tool answers it with is in its next request.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from maestro_cli import entry

from tests.real_tools.homes import environment
from tests.support.cli_runs import MAESTRO, maestro_command
from tests.support.embedded_project import temporary_project
from tests.support.model_api import ModelApi, model_api
from tests.support.waiting import wait_until

QUESTION = "what is the team working on?"
#: Only in the session's note: who knows it has it from the server.
SECRET = "MARK-cookie"

#: How each is asked once, and may call the server's tools.
ASKING = {
    "claude": ["claude", "-p", QUESTION, "--allowedTools", "mcp__maestro"],
    "codex": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", QUESTION],
    "gemini": ["gemini", "-p", QUESTION, "--approval-mode", "yolo"],
    "qwen": ["qwen", QUESTION, "--approval-mode", "yolo", "--auth-type", "openai"],
    "opencode": ["opencode", "run", "--auto", QUESTION],
}
_TIMEOUT_S = 180


def look(tool: str) -> list[str]:
    """Return what is not as it should be."""
    with temporary_project() as project, TemporaryDirectory() as home, model_api(answer=None) as api:
        env = environment(Path(home), api.origin, f"{Path(MAESTRO).parent}:{os.environ['PATH']}")
        env |= {"XDG_CONFIG_HOME": "", "IS_SANDBOX": "1" if os.geteuid() == 0 else ""}
        return list(_look(tool, project, api, env))


def _look(tool: str, project: Path, api: ModelApi, env: dict[str, str]):
    maestro_command(project, "session", "start", "fix-login", "--note", SECRET, env=env)
    serving = project / ".maestro/server" / entry.SERVING_NAME
    wait_until(serving.exists, "the stack's process for agents listens: codex waits for nobody")
    for wanted in ("installed", "unchanged"):
        if (status := _install(tool, project, env)) != wanted:
            yield f"install: {status}, not {wanted}"
    listed = _run([tool, "mcp", "list"], project, env)
    if "maestro" not in listed:
        yield f"mcp list: {listed[-300:]}"
    said = _run(ASKING[tool], project, env)
    if not any(SECRET in json.dumps(request) for request in api.asked):
        yield f"the model was not told: {said[-300:]}"
    if SECRET not in said:
        yield f"the answer does not know: {said[-300:]}"
    for wanted in ("removed", "unchanged"):
        if (status := _install(tool, project, env, "--remove")) != wanted:
            yield f"remove: {status}, not {wanted}"
    if "maestro" in (listed := _run([tool, "mcp", "list"], project, env)):
        yield f"still listed: {listed[-300:]}"


def _install(tool: str, project: Path, env: dict[str, str], *words: str) -> str:
    done = maestro_command(project, "mcp", "install", tool, *words, "--json", env=env)
    return str(json.loads(done.stdout)["status"]) if done.returncode == 0 else done.stderr


def _run(line: list[str], project: Path, env: dict[str, str]) -> str:
    there = os.environ | env | {"PWD": str(project)}  # as a shell says it, which opencode believes
    done = subprocess.run(line, cwd=project, env=there, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, timeout=_TIMEOUT_S)  # fmt: skip
    return done.stdout + done.stderr


def main(words: list[str]) -> int:
    """Look at the tools and print what was seen."""
    failed = 0
    for tool in words or ASKING:
        found = look(tool)
        print(tool, "✓" if not found else "✗ " + " | ".join(found), flush=True)
        failed += bool(found)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
