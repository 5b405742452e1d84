"""The Dockerfile: what hadolint asks for, nobody special, no secret, pinned, and enough of the checkout in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from maestro_cli.command_table import COMMANDS

from maestro_state.tools.catalogue import TOOLS
from tests.support import image

TARGETS = ("server-side", "worker", "worker-tools")
INSTALL = image.ROOT / "deploy/image/install-tools.sh"
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent))


def lint(path: Path) -> list[str]:
    """Return the rules of hadolint's that a Dockerfile breaks."""
    assert HADOLINT, "make setup installs it"
    done = subprocess.run([HADOLINT, "--format", "json", str(path)], capture_output=True, check=False)
    return [found["code"] for found in json.loads(done.stdout)]


def test_hadolint_finds_nothing():
    """Not even what it only mentions; its one exception is named, with the reason, where it is."""
    assert lint(image.ROOT / "Dockerfile") == []
    text = (image.ROOT / "Dockerfile").read_text()
    assert re.findall(r"hadolint.*", text) == ["hadolint ignore=DL3008"]


def test_hadolint_bites(tmp_path):
    """Control: what it is there for is found."""
    wrong = tmp_path / "Dockerfile"
    lines = ("FROM python:latest", "RUN apt-get install git", "RUN sudo true", "RUN pip install x", "CMD maestro")
    wrong.write_text("\n".join(lines) + "\n")
    assert {"DL3007", "DL3008", "DL3004", "DL3042", "DL3025"} <= set(lint(wrong))


@pytest.mark.parametrize("target", TARGETS)
def test_images_run_as_nobody_special(target):
    """By number, so that Kubernetes can tell; each has a health check that exists, and starts without a shell."""
    lines = image.instructions(target)
    assert [rest for word, rest in lines if word == "USER"][-1] == "10001:10001"
    assert image.started("ENTRYPOINT", target) == ["maestro"]
    assert image.started("HEALTHCHECK", target)[:2] == ["maestro", "doctor"]
    assert "doctor" in COMMANDS
    assert image.started("CMD", target)[0] in (*COMMANDS, "--help")


def test_nothing_secret_and_nothing_unpinned():
    """No password, token or address of packages; bases are of one release, what is installed of one version."""
    lines = [(word, rest) for stage in image.stages().values() for word, rest in stage.lines]
    assert not [rest for _, rest in lines if re.search(r"(?i)password|secret|token|api_key|--index|https?://", rest)]
    bases = {stage.base for stage in image.stages().values()} - set(image.stages())
    assert all(re.fullmatch(r"[a-z]+:\d+(\.\d+)?-(slim-bookworm|bookworm-slim)", base) for base in bases), bases
    for _, rest in lines:
        for command in re.findall(r"\S*pip install [^&;]*", rest):
            assert "--no-cache-dir" in command
            assert "-c constraints.txt" in command or "==" in command
    assert "ADD" not in {word for word, _ in lines}


def test_tools_are_those_that_were_tried():
    """Each version is the one that `make test-tools` tries, and the catalogue has each tool."""
    given = image.arguments()
    tried = json.loads((image.ROOT / "tests/real_tools/package.json").read_text())["dependencies"]
    packages = re.findall(r"(\w+)\) package=(\S+)@\$\{(\w+):\?\}", INSTALL.read_text())
    assert {name: given[variable] for _, name, variable in packages} == tried
    llm = re.search(r"llm==([\d.]+)", (image.ROOT / "Makefile").read_text())
    assert llm is not None
    assert given["LLM_VERSION"] == llm[1]
    assert {tool for tool, _, _ in packages} | {"llm"} == {tool.name for tool in TOOLS} - {"echo"}
    assert set(given["TOOLS"].split()) == {"claude", "codex", "gemini", "opencode", "llm"}
    example = dict(re.findall(r"(?m)^#([A-Z]+_VERSION|TOOLS)=(.*)$", (image.ROOT / ".env.example").read_text()))
    assert example == given
    # An argument counts in the stages that ask for it.
    for stage in ("tools", "worker-tools"):
        lines = image.stages()[stage].lines
        used = set(re.findall(r"\$(TOOLS|\w+_VERSION)", " ".join(rest for word, rest in lines if word == "RUN")))
        used |= set(re.findall(r"\$\{?(TOOLS|\w+_VERSION)", INSTALL.read_text())) if stage == "tools" else set()
        assert used == {rest for word, rest in lines if word == "ARG"}


@pytest.mark.parametrize("wrong", ["claude codx", "Claude", "claude;true"])
def test_a_tool_that_there_is_not_ends_the_build(tmp_path, wrong):
    """With a line that says which there are, before anything is installed."""
    environment = {"PATH": "/usr/bin:/bin", "TOOLS": wrong, "CLAUDE_VERSION": "1", "CODEX_VERSION": "1"}
    done = subprocess.run(["sh", str(INSTALL), str(tmp_path / "x")], env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"it may name claude, codex, gemini, opencode, qwen and llm" in done.stderr
    assert not (tmp_path / "x").exists()


def test_the_build_sees_what_it_copies_and_no_more():
    """The context begins with nothing: no checkout's .env, .git or .maestro can get into an image."""
    ignored = (image.ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    for name, _ in image.copied():
        assert any(name == path or name.startswith(f"{path}/") for path in let_in), name
    assert not {path for path in let_in if not (image.ROOT / path).exists()}


def test_what_the_image_copies_is_enough(tmp_path):
    """The program runs from nothing but the files that are copied in: commands, scripts, the worker's side."""
    image.lay_out(tmp_path, "build")
    wanted = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    build = wanted["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert all((tmp_path / name).is_dir() for name in build)
    module, _, function = wanted["project"]["scripts"][image.started("ENTRYPOINT", "worker")[0]].partition(":")
    code = (
        "import sys, maestro_state, maestro_workers.worker, maestro_workers.scheduler\n"
        f"from {module} import {function}\n"
        "from maestro_state.state.scripts import load, names; [load(name) for name in names()]\n"
        "assert all(m.__file__.startswith(sys.argv[1]) for n, m in sys.modules.items()\n"
        "           if n.split('.')[0] in ('maestro_state', 'workers', 'cli'))\n"
        f"sys.argv = ['maestro', 'acl']; sys.exit({function}())"
    )
    passwords = {f"REDIS_{name}_PASSWORD": name.lower() * 8 for name in ("TERMINAL", "WORKER", "ADMIN")}
    env = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]} | passwords
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.count(b"user ")) == (0, 4), done.stderr.decode()
