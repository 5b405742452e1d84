"""`make demo`: the main job, end to end, in a throw-away project on the embedded server. Every line shown is real: the
commands run as processes of their own, as they would in three terminals.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from maestro_cli import output

_MAESTRO = str(Path(sys.executable).with_name("maestro"))


class Terminal:
    def __init__(self, number: int, folder: Path) -> None:
        """Take the project folder; terminals know each other only through the session."""
        self._mark = output.colour(f" {number} │ ", ("cyan", "magenta", "yellow")[number - 1])
        self._folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MAESTRO_")}

    def type(self, *words: str) -> None:
        self._show_command(words)
        done = subprocess.run([_MAESTRO, *words], cwd=self._folder, env=self.environment, text=True,
                              capture_output=True, check=False)  # fmt: skip
        for text in (done.stdout + done.stderr).splitlines():
            output.line(self._mark + text)
        if done.returncode:
            raise SystemExit(f"demo: maestro {' '.join(words)} exited with {done.returncode}")

    @contextmanager
    def keep_open(self, *words: str) -> Iterator[Iterator[str]]:
        """Run a command that goes on; yields the lines it prints, as they come."""
        self._show_command(words)
        with subprocess.Popen([_MAESTRO, *words], cwd=self._folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE) as process:  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - PIPE was asked for
            try:
                yield (self._mark + line.rstrip() for line in process.stdout)
            finally:
                process.terminate()

    def _show_command(self, words: tuple[str, ...]) -> None:
        quoted = " ".join(f'"{word}"' if " " in word else word for word in words)
        output.line(self._mark + output.colour(f"$ maestro {quoted}", bold=True))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="maestro-demo-") as name:
        folder = Path(name)
        first, second, third = (Terminal(number, folder) for number in (1, 2, 3))
        output.line("Three terminals, one session. Nothing is configured: the first command starts a private server.\n")
        try:
            first.type("session", "start", "fix-login")
            with second.keep_open("watch", "--from", "start") as seen:
                output.line(next(seen))
                third.type("message", "add", "--role", "user", "look at the cookie first")
                output.line(next(seen))
                (folder / "login.py").write_text("def login(user):\n    return user.cookie\n")
                first.type("context", "add", "login.py")
                output.line(next(seen))
                first.type("use", "echo")
                output.line(next(seen))
                first.type("run", "why does the login fail?")
                for line in seen:
                    output.line(line)
                    if "✓" in line:
                        break
                third.type("status")
                first.type("session", "end")
                output.line(next(seen))
            third.type("verify")
            archive = next(folder.glob(".maestro/sessions/*--*"))
            output.line(f"\nOn disk, whatever becomes of the server: {archive.relative_to(folder)}/")
            for path in sorted(archive.rglob("*.*")):
                output.line(f"     {path.relative_to(archive)}")
            output.line()
            _second_scene(first, folder)
        finally:
            subprocess.run([_MAESTRO, "stack", "stop"], cwd=folder, stdout=subprocess.DEVNULL, check=False)
    output.line(f"Now yours: {os.path.relpath(_MAESTRO)} session start my-work, and maestro watch in another terminal.")


def _second_scene(terminal: Terminal, folder: Path) -> None:
    """Two agents in one session, where the SDK is installed."""
    from maestro_cli import demo_agents

    if find_spec("mcp") is None:
        output.line(f"{demo_agents.WITHOUT}\n")
        return
    output.line("Second scene: two agents in two terminals, one session. Each has started maestro mcp for itself.\n")
    terminal.type("session", "start", "agents")
    demo_agents.play(_MAESTRO, folder, terminal.environment)
    terminal.type("messages")


if __name__ == "__main__":
    main()
