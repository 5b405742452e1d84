"""Somebody who sits in the real tools: `maestro open` of each in a terminal (tmux), against a model's API on loopback.

`python -m tests.real_tools.sitting [TOOL...]` with the tools on PATH, which `make test-tools` installs, and the extra
`mcp`. Of each: what is asked in it is in the session, it can ask `maestro mcp`, Ctrl-Z and fg work, it leaves nothing
in its configuration; then `run --continue` and `open --continue` go on, and an import adds nothing twice.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from maestro_state.local import process_tree as processes
from maestro_state.local.process_tree import folder_of
from tests.real_tools.homes import environment, sit_down
from tests.support.cli_runs import MAESTRO, maestro_command
from tests.support.embedded_project import temporary_project
from tests.support.model_api import model_api
from tests.support.waiting import wait_until

TOOLS = ("claude", "codex", "gemini", "qwen", "opencode", "llm")
#: Only in the session's note: who knows it has it from the server.
SECRET = "MARK-cookie"

#: Where somebody can type, as the screen shows it.
READY = {
    "claude": r"\? for shortcuts|shift\+tab to cycle",
    "codex": r"Ask Codex to do anything|› ",
    "gemini": r"(?s)for shortcuts.*Type your message",
    "qwen": r"Type your message",
    "opencode": r"ctrl\+p commands",
    "llm": r"(?m)^>",
}
#: Those that can be given a server for one start, and those that Ctrl-Z suspends.
SERVED = ("claude", "codex", "qwen", "opencode")
SUSPENDED = ("claude", "codex", "opencode")
#: What is typed to leave.
LEAVING = {"claude": "/exit", "codex": "/quit", "gemini": "/quit", "qwen": "/quit", "opencode": "/exit", "llm": "exit"}
#: What lets a tool call its shell and the server without asking.
UNASKED = {
    "claude": ["--allowedTools=Bash,mcp__maestro"],
    "codex": ["--dangerously-bypass-approvals-and-sandbox"],
    "gemini": ["--approval-mode", "yolo"],
    "qwen": ["--approval-mode", "yolo", "--auth-type", "openai"],
    "opencode": ["--auto"],
    "llm": [],
}
#: What Maestro says when somebody has left a tool.
LEFT = r"\d messages in fix-login"
_TIMEOUT_S = 60.0


@dataclass
class Terminal:
    """One terminal with a shell in it."""

    name: str
    project: Path
    env: dict[str, str]
    was_killed: bool = False  #: what ran in it last would not leave

    def __enter__(self) -> Self:
        exported = [f"{name}={value}" for name, value in self.env.items()]
        line = ["env", "-i", "TERM=xterm-256color", "PS1=ready$ ", *exported, "bash", "--norc", "-i"]
        self._tmux("new-session", "-d", "-s", "one", "-x", "110", "-y", "40", "-c", str(self.project), shlex.join(line))
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", self.name, *words], capture_output=True, text=True, check=False)
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "one")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "one", *keys)

    def type(self, text: str) -> None:
        """Type a line as a person does: tools take what comes at once for pasted, and one that is still starting shows
        where to type and loses it. It may be on the screen already, from when it was asked before.
        """
        for _ in range(4):
            shown = self.screen().count(text[-8:])
            for piece in re.findall(r".{1,8}", text):
                self._tmux("send-keys", "-t", "one", "-l", "--", piece)
            with suppress(AssertionError):
                wait_until(lambda: self.screen().count(text[-8:]) > shown, f"{text} is typed", _TIMEOUT_S / 4)  # noqa: B023
                break
            self.press("C-u")
        self.await_(lambda: text[-8:] in self.screen(), f"{text} is typed")
        self.press("Enter")

    def ask(self, tool: str, text: str) -> None:
        """Ask a tool; gemini takes an Enter that it reads together with what was typed for a new line of that."""
        self.type(text)
        if tool == "gemini":
            self.await_(self._is_asked, f"{text} is asked")

    def _is_asked(self) -> bool:
        if "Type your message" in self.screen():
            return True
        time.sleep(1)  # it draws
        if "Type your message" not in self.screen():
            self.press("Enter")
        return False

    def leave(self, tool: str) -> None:
        """Leave a tool; gemini takes the first Enter for its list of commands, or none while it draws it."""
        self.wait_for(READY[tool], "it is at rest")
        self.type(LEAVING[tool])
        if tool == "gemini":
            self.await_(self._is_leaving, "it leaves")
            with suppress(AssertionError):
                wait_until(lambda: re.search(LEFT, self.screen()), "it has left", _TIMEOUT_S / 4)
                return
            self._kill(tool)

    def _kill(self, tool: str) -> None:
        """Kill a tool that says goodbye and stays: gemini does so at times, whoever started it."""
        self.was_killed = True
        for pid in processes.running(tool):
            if folder_of(pid) == str(self.project):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _is_leaving(self) -> bool:
        screen = self.screen()
        if "powering down" in screen:
            return True
        if "/quit" in screen:
            self.press("Enter")
        elif re.search(READY["gemini"], screen):  # what was typed while it drew is lost
            self._tmux("send-keys", "-t", "one", "-l", "--", "/quit")
        time.sleep(1)  # it draws; a key more would be for the shell
        return False

    def wait_for(self, pattern: str, what: str) -> None:
        self.await_(lambda: re.search(pattern, self.screen()), what)

    def await_(self, predicate: Callable[[], object], what: str) -> None:
        """Wait, and show the screen when it is in vain."""
        try:
            wait_until(predicate, what, _TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen().rstrip()}") from None


def look(tool: str) -> list[str]:
    """Return what is not as it should be."""
    with temporary_project() as project, TemporaryDirectory() as place, model_api(answer=None) as api:
        home = Path(place)
        env = environment(home, api.origin, f"{Path(MAESTRO).parent}:{os.environ['PATH']}")
        env |= {"XDG_CONFIG_HOME": "", "IS_SANDBOX": "1" if os.geteuid() == 0 else ""}
        sit_down(home, project)
        found = []
        try:
            with Terminal(f"maestro-test-{os.getpid()}", project, env) as terminal:
                found += list(_look(tool, project, home, terminal))
        except AssertionError as error:
            found.append(str(error))
        try:
            wait_until(lambda: not _working_in(project), "all have left")
        except AssertionError as error:
            found.append(f"{error}: {_working_in(project)}")
        return found


def _working_in(project: Path) -> list[str]:
    """Return the command lines of who still works in the project's folder."""
    here = [pid for pid in os.listdir("/proc") if pid.isdigit() and folder_of(int(pid)) == str(project)]
    lines = []
    for pid in here:
        with suppress(OSError):
            lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200])
    return [line for line in lines if line]


def _look(tool: str, project: Path, home: Path, terminal: Terminal) -> Iterator[str]:  # noqa: C901 - one visit
    def maestro(*words: str) -> Any:
        done = maestro_command(project, *words, "--json", env=terminal.env)
        return json.loads(done.stdout or done.stderr)

    def said() -> list[tuple[str, str]]:
        told = [(one["role"], one["content"].strip()) for one in maestro("messages")["messages"]]
        return [one for one in told if not one[1].startswith(("/", "<local-command"))]  # typed to the tool itself

    session = maestro("session", "start", "fix-login", "--note", SECRET, "--tool", tool)["id"]
    configured = _configuration(home, project)

    terminal.wait_for("ready", "a shell")
    terminal.type(shlex.join(["maestro", "open", tool, *(["--", *UNASKED[tool]] if UNASKED[tool] else [])]))
    terminal.wait_for(READY[tool], "it is ready")
    terminal.ask(tool, "hello MARK-first")
    terminal.await_(lambda: len(said()) == 2, "said")
    if [role for role, _ in said()] != ["user", "assistant"] or "MARK-first" not in said()[1][1]:
        yield f"messages: {said()}"
    if not any(one["terminal"].endswith(tool) for one in maestro("status")["attached"]):
        yield f"attached: {maestro('status')['attached']}"
    if tool in SERVED:
        _ask_the_server(terminal, said)
    if tool in SUSPENDED:
        terminal.press("C-z")
        terminal.wait_for(r"Stopped|ready\$ *\n*$", "it is suspended")
        terminal.type("fg")
        terminal.wait_for(READY[tool], "it is back")
    before_leaving = len(said())
    terminal.leave(tool)
    terminal.wait_for(LEFT, "it has left")
    terminal.type('echo "left with $?"')
    terminal.wait_for(r"left with \d+" if terminal.was_killed else "left with 0", "its exit code")
    if len(said()) != before_leaving:
        yield f"leaving changed what was said: {said()}"
    runs = maestro("runs")["runs"]
    if any(one["status"] != "success" or not one["usage"].get("tokens_output") for one in runs):
        yield f"runs: {runs}"
    if (left := _configuration(home, project)) != configured:
        yield f"left in its configuration: {left}"

    ran = maestro("run", "and MARK-second", "--continue")
    if ran.get("continues") != runs[-1]["id"] or "MARK-first" not in ran.get("output", ""):
        yield f"run --continue: {ran}"
    if tool != "llm" and ran.get("usage", {}).get("tokens_output", 0) > 100:
        yield f"counted what was counted before: {ran['usage']}"
    count = len(said())
    terminal.type("clear")
    terminal.type(shlex.join(["maestro", "open", tool, "--continue"]))
    terminal.wait_for(READY[tool], "it is ready again")
    if tool == "gemini":  # what is typed before that is not of the conversation
        terminal.wait_for("MARK-second", "it has the conversation")
    terminal.ask(tool, "and MARK-third")
    terminal.await_(lambda: len(said()) == count + 2, "said again")
    if not all(mark in said()[-1][1] for mark in ("MARK-first", "MARK-second", "MARK-third")):
        yield f"open --continue: {said()[-2:]}"
    terminal.leave(tool)
    terminal.wait_for(LEFT, "it has left again")
    if len(said()) != count + 2:
        yield f"said besides: {said()[count:]}"
    if len({one.get("usage", {}).get("tool_session") for one in maestro("runs")["runs"]}) != 1:
        yield f"more than one conversation: {maestro('runs')['runs']}"
    imported = maestro("import", tool, *(["--any-project"] if tool == "llm" else []))
    rows = [(one["session_id"], one["messages"]) for one in imported["imported"]]
    if imported["errors"] or [one for one in rows if one[0] != session and one[1] > 2]:
        yield f"import: {imported}"
    if len(said()) != count + 2:
        yield f"said twice: {said()}"


def _ask_the_server(terminal: Terminal, said: Callable[[], list[tuple[str, str]]]) -> None:
    """Ask what only the session knows, until the tool has connected to the server."""
    for _ in range(6):
        asked = len(said())
        terminal.type("what is the team working on?")
        terminal.await_(
            lambda asked=asked: len(now := said()) >= asked + 2 and now[-1][0] == "assistant" and now[-1][1], "answered"
        )
        if any(SECRET in one for _, one in said()):
            return
    raise AssertionError(f"it does not know of the session\n{terminal.screen().rstrip()}")


def _configuration(home: Path, project: Path) -> dict[str, int]:
    """Return in which settings of the tools our server is named, and how often."""
    files = [".claude.json", ".codex/config.toml", ".gemini/settings.json", ".qwen/settings.json",
             ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"]  # fmt: skip
    paths = [home / name for name in files]
    paths += [project / name for name in (".mcp.json", ".gemini/settings.json", ".qwen/settings.json", "opencode.json")]
    return {path.name: path.read_text().count("maestro") for path in paths if path.exists()}


def main(words: list[str]) -> int:
    """Look at the tools and print what was seen."""
    failed = 0
    for tool in words or TOOLS:
        began = time.monotonic()
        found = look(tool)
        print(tool, f"✓ {time.monotonic() - began:.0f} s" if not found else "✗ " + " | ".join(found), flush=True)
        failed += bool(found)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
