"""Running the installed `maestro` command as its users do: a process of its own, judged by what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: The command of the environment the tests run in.
MAESTRO = str(Path(sys.executable).with_name("maestro"))


def maestro_command(
    folder: Path, *words: str, env: dict[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run one command line in a folder."""
    done = subprocess.run(
        [MAESTRO, *words],
        cwd=folder,
        env=os.environ | (env or {}),
        input=stdin,
        capture_output=True,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def _as_json(words: tuple[str, ...]) -> list[str]:
    """Ask for a document; what follows `--` is not for Maestro."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def printed(folder: Path, *words: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Any:
    """Run a command that must succeed, with --json, and return its document."""
    done = maestro_command(folder, *_as_json(words), env=env, stdin=stdin)
    assert done.returncode == 0, f"{words} exited with {done.returncode}: {done.stderr}"
    assert done.stderr == "", done.stderr
    return json.loads(done.stdout)


def refused(
    folder: Path, *words: str, env: dict[str, str] | None = None, stdin: bytes = b""
) -> tuple[int, dict[str, Any]]:
    """Run a command that must fail, with --json; return its exit code and the error document."""
    done = maestro_command(folder, *_as_json(words), env=env, stdin=stdin)
    assert done.returncode != 0, f"{words} succeeded: {done.stdout}"
    assert done.stdout == ""
    document = json.loads(done.stderr)
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message", "hint"}
    return done.returncode, document["error"]
