"""Record anew what the real tools print: `python -m tests.real_tools.record [TOOL...]`, with the tools on PATH.

Each call is written to tests/recorded/<tool>/<call>.json: exit code, stdout, the end of stderr; without this machine's
paths, and with long lists that no reader looks at cut short.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from maestro_state.models.run import ToolOptions
from maestro_state.tools import Tool, resolve
from tests.real_tools.homes import environment
from tests.support.model_api import ModelApi, model_api

FOLDER = Path(__file__).parent.parent / "recorded"

#: Call → mode and prompt; `{file}` is a file of the project.
CALLS: dict[str, tuple[str | None, str]] = {
    "answer": (None, "hello MARK-first"),
    "continue": (None, "and now? MARK-second"),
    "shell": ("full", "@shell=echo MARK-shell@"),
    "write": ("edit", "@write={file}@"),
    "denied": (None, "@write={file}@"),
    "refused-401": (None, "hello @401@"),
    "refused-404": (None, "hello @404@"),
    "refused-500": (None, "hello @500@"),
}

#: A tool that goes on trying is ended after this long, in seconds.
DEADLINE_S = 12.0
#: One that answers may have to start in a new home first.
ANSWER_S = 120.0
TOOLS = ("claude", "codex", "gemini", "qwen", "opencode", "llm")


def main(tools: list[str]) -> None:
    """Record every call of the tools, in one project and one home each."""
    for name in tools or TOOLS:
        with tempfile.TemporaryDirectory() as place, model_api(answer=None) as api:
            _record(resolve(name), Path(place), api)


def _record(tool: Tool, place: Path, api: ModelApi) -> None:
    project = place / "project"
    project.mkdir()
    env = environment(place / "home", api.origin, os.environ["PATH"])
    if os.geteuid() == 0:
        env["IS_SANDBOX"] = "1"  # without it claude refuses its widest mode to root
    conversation: str | None = None
    (FOLDER / tool.name).mkdir(parents=True, exist_ok=True)
    for call, (mode, prompt) in CALLS.items():
        options = ToolOptions(mode=mode if mode in tool.modes else None)
        (project / "made.txt").unlink(missing_ok=True)
        argv = tool.argv(options, conversation if call == "continue" else None)
        deadline_s = DEADLINE_S if call.startswith("refused") else ANSWER_S
        told = _call(argv, prompt.format(file=project / "made.txt"), project, env, deadline_s)
        if call == "answer":
            parser = tool.parser()
            parser.feed(told["stdout"].encode())
            conversation = parser.end(0).usage.tool_session
        clean = _clean(json.dumps(_short(told), ensure_ascii=False, indent=1), place, api)
        (FOLDER / tool.name / f"{call}.json").write_text(clean + "\n")
        print(tool.name, call, told["exit_code"], len(clean), flush=True)


def _call(argv: list[str], prompt: str, project: Path, env: dict[str, str], deadline_s: float) -> dict[str, Any]:
    """Call a tool as a worker does; past the deadline it is ended, which shows as no exit code."""
    process = subprocess.Popen(
        argv, cwd=project, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(prompt.encode(), deadline_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        (out, err), code = process.communicate(), None
    return {"exit_code": code, "stdout": out.decode(), "stderr": err.decode()[-4000:]}


def _clean(text: str, place: Path, api: ModelApi) -> str:
    """Take out what is only of this machine."""
    text = text.replace(str(place), "/place").replace(str(place)[1:], "place")
    text = re.sub(r"file:///[^\s)\"]+?([^/\s)\"]+\.js)", r"file:///\1", text)
    text = re.sub(r"/\$bunfs/\w+/", "/bundled/", text).replace(tempfile.gettempdir(), "/temporary")
    return text.replace(api.origin, "loopback").replace(api.origin.rpartition(":")[2], "1")


def _short(told: dict[str, Any]) -> dict[str, Any]:
    return told | {"stdout": [_short_line(line) for line in told["stdout"].splitlines()]}


def _short_line(line: str) -> Any:
    try:
        return _cut(json.loads(line))
    except ValueError:
        return line


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut(one) for one in (value[:2] if value and isinstance(value[0], str) else value)]
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
