"""Finding out which tools are there: each is asked for its version, a few at once, each with a deadline of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress

import msgspec

from maestro_state.local.logs import redact_text
from maestro_state.tools import Tool
from maestro_state.tools.tools_file import MISSING, OK, WARN, ToolRow

#: How long a tool may take to tell its version, in seconds: the first start of one on a busy machine takes ten.
DEADLINE_S = 30.0

#: How many are asked at once where there are fewer processors: a tool that starts waits for the disk, too.
_AT_ONCE = 4

#: Names of variables that asking for a version does not need.
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")

#: How much of what it prints is read, in bytes.
_PRINTED_MAX = 65536

#: Longest note, in characters.
_NOTE_MAX = 200


class Finding(msgspec.Struct, frozen=True):
    """What was found of one tool."""

    row: ToolRow
    log: str  #: what was asked and answered, without secrets


def check_tools(
    tools: Sequence[Tool],
    environ: Mapping[str, str],
    when: str,
    *,
    programs: Mapping[str, str] | None = None,
    deadline_s: float = DEADLINE_S,
    told: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Ask every tool for its version. `programs` name programs to use instead of those on PATH.

    As many at once as there are processors, and a few at least: more would make each other late. `told` hears how
    many have answered, and of how many.
    """

    def ask(tool: Tool) -> Finding:
        return _check(tool, environ, when, (programs or {}).get(tool.name), deadline_s)

    with ThreadPoolExecutor(max(_AT_ONCE, os.cpu_count() or 1)) as pool:
        asked = [pool.submit(ask, tool) for tool in tools]
        for number, _ in enumerate(as_completed(asked)):
            if told:
                told(number + 1, len(asked))
        return [one.result() for one in asked]


def _check(tool: Tool, environ: Mapping[str, str], when: str, given: str | None, deadline_s: float) -> Finding:
    program = given or tool.program(environ.get("PATH"))
    if program is None or not os.access(program, os.X_OK):
        where = f"{program} is no program" if program else f"no {tool.argv()[0]} on PATH"
        return _finding(tool, when, None if program is None else program, MISSING, where, "not called")
    if not tool.version:
        return _finding(tool, when, program, OK, "a command line of yours", "not called")
    # Asking for a version needs no key, and nothing of the project: it is asked in an empty folder.
    seen = {name: value for name, value in tool.environment(environ).items() if not _SECRET_NAME.search(name)}
    command = [program, *tool.version_argv()[1:]]
    try:
        with tempfile.TemporaryDirectory(prefix="maestro-check-") as folder:
            code, printed, warned = _call(command, seen, folder, deadline_s)
    except OSError as error:
        return _finding(tool, when, program, WARN, f"it cannot be started: {error.strerror}", "not started")
    log = printed + warned
    if code is None:
        return _finding(tool, when, program, WARN, f"no answer within {deadline_s:g} s", log)
    if code != 0:
        return _finding(tool, when, program, WARN, f"exit code {code} {_first_line(log)}".strip(), log)
    # What it warns of on stderr is not its version, also where it comes first.
    return _finding(tool, when, program, OK, _first_line(printed) or "it tells no version", log)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _finding(tool: Tool, when: str, path: str | None, status: str, notes: str, printed: str) -> Finding:
    notes = "".join(char if char.isprintable() else " " for char in redact_text(notes))[:_NOTE_MAX].strip()
    log = f"{tool.name}: {status}, {path or 'no program'}\n  {notes}\n" + "".join(
        f"  | {redact_text(line)}\n" for line in printed.splitlines()[:50]
    )
    return Finding(ToolRow(tool.name, path, when, status, notes or None), log)


def _call(
    command: list[str], environment: dict[str, str], folder: str, deadline_s: float
) -> tuple[int | None, str, str]:
    """Run a command in a group of its own; return its exit code, None past the deadline, stdout and stderr."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as warned:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=warned,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # The whole group, also when the tool itself is gone: a child it left behind would live on.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        warned.seek(0)
        said, warning = (file.read(_PRINTED_MAX).decode("utf-8", "replace") for file in (printed, warned))
        return code, said, warning
