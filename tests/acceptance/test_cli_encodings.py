"""What `maestro` prints where the terminal or the pipe does not speak UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli_runs import MAESTRO, printed
from tests.support.embedded_project import temporary_project

NOTE = "naïve → 日本 🎉"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_text_that_the_stream_cannot_carry_is_escaped(encoding: str):
    """People get escapes in its place, programs the same values; in the resident process and without."""
    with temporary_project() as project:
        printed(project, "session", "start", "told", "--note", NOTE)
        for here in ({}, {"MAESTRO_DEBUG": "1"}):
            shown = in_encoding(project, encoding, here, "status")
            assert shown.returncode == 0, shown.stderr
            assert "\\u2192 \\u65e5\\u672c \\U0001f389" in shown.stdout.decode(encoding)
            document = in_encoding(project, encoding, here, "status", "--json").stdout
            assert json.loads(document.decode("ascii"))["session"]["notes"] == NOTE
            failed = in_encoding(project, encoding, {}, "show", "é", "--json")
            assert "é" in json.loads(failed.stderr.decode("ascii"))["error"]["message"]


def in_encoding(project: Path, encoding: str, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command whose streams are of an encoding."""
    env = os.environ | {"PYTHONIOENCODING": encoding} | env
    return subprocess.run([MAESTRO, *words], cwd=project, env=env, capture_output=True, check=False)
