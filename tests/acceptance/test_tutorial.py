"""The tutorial does what it says: its commands are typed in a fresh project, on a terminal, and print what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

from tests.support.cli_runs import MAESTRO

PAGE = Path(__file__).parent.parent.parent / "docs" / "tutorial.md"


def steps(page: Path) -> list[tuple[str, list[str]]]:
    """Return the commands of a page's console blocks, each with the lines it should print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def plain(line: str) -> str:
    """Return a line without what differs from run to run."""
    line = line.rpartition("\r")[2]  # what was written over is not seen
    line = re.sub(r"(fix-login|second-try)--[0-9a-z]{6}", r"\1--ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line)
    return re.sub(r"\d+\.\d s", "SECONDS", re.sub(r"\d{13}-\d+", "MESSAGE", line)).rstrip()


def fits(shown: list[str], printed: list[str]) -> bool:
    """Compare output with what a page shows; `…` stands for any rest of a line, alone for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(fits(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    if not printed:
        return False
    start, cut, _ = plain(shown[0]).partition("…")
    same = plain(printed[0]).startswith(start) if cut else plain(printed[0]) == start
    return same and fits(shown[1:], printed[1:])


def typed(command: str, folder: Path) -> tuple[int, list[str]]:
    """Run a command line of the page as a shell on a terminal would; return its exit code and the lines seen."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    path = f"{Path(MAESTRO).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=slave,
                          stderr=slave) as process:  # fmt: skip
        os.close(slave)
        seen = b""
        try:
            while piece := os.read(master, 65536):
                seen += piece
        except OSError:  # Linux says so when the last one has closed it
            pass
        os.close(master)
    lines = seen.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    return process.returncode, [] if lines == [""] else lines


def test_the_tutorial(project: Path):
    """Every command succeeds and prints what the page says."""
    found = steps(PAGE)
    assert len(found) > 20
    for command, shown in found:
        code, seen = typed(command, project)
        assert code == 0, (command, seen)
        assert fits(shown, seen), (command, seen)


def test_a_page_that_is_wrong_would_be_found():
    """The comparison has teeth."""
    assert fits(["a …", "…", "b"], ["a 1", "x", "b"])
    assert not fits(["a", "b"], ["a", "c"])
    assert not fits(["a"], ["a", "more"])
    assert not fits(["a", "b"], ["a"])
