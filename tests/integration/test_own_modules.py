"""The stack's processes run their own modules, whatever the folder and the shell they were started from offer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state import Maestro
from maestro_state.local import embedded
from maestro_state.local.program import RESIDENT, SUPERVISOR, command
from tests.support.embedded_project import temporary_project
from tests.support.waiting import wait_until

#: Names of modules that ours import, and of ours before they had names of their own.
SHADOWS = ("json", "redis", "rq", "click", "cli", "msgspec", "structlog", "argparse", "hashlib")


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch):
    """Give a project that is on PYTHONPATH, with a module in it that breaks whoever imports it under each name."""
    with temporary_project() as root:
        for name in SHADOWS:
            (root / f"{name}.py").write_text(f"raise SystemExit({name!r})\n")
        for name in ("workers", "tests"):
            (root / name).mkdir()
            (root / name / "__init__.py").write_text(f"raise SystemExit({name!r})\n")
        monkeypatch.setenv("PYTHONPATH", os.fspath(root))
        monkeypatch.chdir(root)
        yield root
        embedded.stop(root)


def test_a_run_is_carried_out_beside_modules_that_would_break_it(project: Path):
    """Supervisor, worker, guard and resident start; the tool gets the variable that was not meant for them."""
    broken = subprocess.run([sys.executable, "-P", "-c", "import redis"], check=False, capture_output=True, text=True)
    assert broken.stderr.strip() == "redis"  # control: the shadow is there for every Python
    with Maestro(project) as maestro:
        maestro.sessions.start("shadowed", tool="sh -c 'echo $PYTHONPATH'")
        ended = maestro.runs.wait(maestro.runs.start("go"))
        assert (ended.status, maestro.runs.output(ended.id).decode().strip()) == ("success", str(project)), ended.error
    wait_until((project / ".maestro" / "server" / "r.sock").exists, "the resident process listens")


@pytest.mark.parametrize("name", [SUPERVISOR, RESIDENT])
def test_the_programs_are_installed(project: Path, name: str):
    """What the library starts by a name is found under it; it asks for a project as each of them does."""
    words = command(name, project)[:-2]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode == 2
    assert "--project" in found.stderr


def test_a_program_that_is_not_installed_says_so(project: Path):
    """No traceback, and no silence."""
    words = command("conductor", project)
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert found.stderr == "maestro: this installation has no program 'conductor' (install it again)\n"
