"""The protocol's own suite, as it is shipped, against `maestro mcp --http` and `/mcp` of `maestro serve`, by protocol.

Most of it asks for tools, resources and prompts of certain names: with those beside ours, all of it. It comes from npm,
by `make test-reach`; without npm these tests are skipped with a word.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli_runs import MAESTRO, printed
from tests.support.served import serving

_ROOT = Path(__file__).parents[2]
_MODULES = _ROOT / ".mcp-suite/node_modules"
_SUITE = _MODULES / "@modelcontextprotocol/conformance/dist/index.js"
#: It needs a newer Node.js than Debian has.
_NODE = _MODULES / f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}/bin/node"
_TIMEOUT_S = 300

pytestmark = pytest.mark.skipif(
    not (_SUITE.exists() and _NODE.exists()),
    reason="the protocol's suite is not installed: make test-reach does it where npm is",
)

#: What every server has to do, whatever its tools are, by protocol.
_OF_EVERYBODY = {"tools-list", "tools-call-error", "resources-list", "prompts-list"}
_WITH_SESSIONS = {
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "resources-subscribe",
    "resources-unsubscribe",
}
SHIPPED = {
    "2025-06-18": _OF_EVERYBODY | _WITH_SESSIONS,
    "2025-11-25": _OF_EVERYBODY | _WITH_SESSIONS | {"dns-rebinding-protection", "server-sse-multiple-streams"},
    "2026-07-28": _OF_EVERYBODY
    | {"caching", "dns-rebinding-protection", "http-header-validation", "sep-2164-resource-not-found",
       "server-sse-multiple-streams"},
}  # fmt: skip
#: What is not offered (the client's level of logging), or no matter of ours (a schema handed on as somebody wrote it).
NOT_OFFERED = {"logging-set-level", "tools-call-with-logging", "json-schema-2020-12"}


def failed(url: str, protocol: str, folder: Path) -> dict[str, list[str]]:
    """Run everything there is for a protocol; return what each scenario found wrong."""
    line = [str(_NODE), str(_SUITE), "server", "--url", url, "--suite", "all", "--spec-version", protocol]
    quiet = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    subprocess.run([*line, "-o", str(folder)], env=quiet, capture_output=True, check=False, timeout=_TIMEOUT_S)
    found = {}
    for path in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*$", r"\1", path.parent.name)
        checks = json.loads(path.read_text())
        found[scenario] = [f"{one['id']}: {one.get('errorMessage')}" for one in checks if one["status"] == "FAILURE"]
    return found


@contextmanager
def answering(line: list[str], project: Path) -> Iterator[str]:
    """Run what prints the address it serves at."""
    process = subprocess.Popen(
        line, cwd=project, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(_ROOT)}
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_TIMEOUT_S)


@pytest.mark.parametrize("protocol", SHIPPED)
@pytest.mark.parametrize("way", ["mcp", "serve"])
def test_as_it_is_shipped(project: Path, tmp_path: Path, way: str, protocol: str):
    """What needs no tools of its own passes; what does, fails: it is looked at."""
    printed(project, "session", "start", "suite")
    if way == "mcp":
        with answering([MAESTRO, "mcp", "--http", "--port", "0"], project) as url:
            found = failed(url, protocol, tmp_path)
    else:
        with serving(project) as server:
            found = failed(f"{server.url}/mcp", protocol, tmp_path)
    assert {name: wrong for name in SHIPPED[protocol] if (wrong := found.get(name)) != []} == {}
    assert found["tools-call-image"], "the control: there is no such tool"


@pytest.mark.parametrize("protocol", SHIPPED)
def test_with_what_it_asks_for(project: Path, tmp_path: Path, protocol: str):
    """With its tools, resources and prompts beside ours, everything passes."""
    printed(project, "session", "start", "suite")
    with answering([sys.executable, "-m", "tests.support.mcp_grafts", "ours"], project) as url:
        found = failed(url, protocol, tmp_path)
    assert len(found) > 25
    assert {name: wrong for name, wrong in found.items() if wrong and name not in NOT_OFFERED} == {}
