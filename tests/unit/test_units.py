"""The systemd units: understood by systemd, hardened as far as tools allow, and a stop that drains."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from maestro_cli.command_table import COMMANDS
from maestro_workers.team import EXIT_S

from maestro_state.local.settings import RULES, VARIABLES
from tests.support.cli_runs import MAESTRO

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
#: The most that systemd's own judgement of what a unit is exposed to may be, of 10: workers start Node and sandboxes.
EXPOSED = {"maestro-worker@.service": 4.0, "maestro-scheduler.service": 2.0, "maestro-serve.service": 2.0}
ANALYZE, SYSUSERS = shutil.which("systemd-analyze"), shutil.which("systemd-sysusers")


class _Lines(dict):
    """What a unit says: a name that comes twice says both."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            value = self[key] + value
        super().__setitem__(key, value)


def unit(name: str) -> dict[str, list[str]]:
    """Return what the service part of a unit says."""
    parser = configparser.RawConfigParser(dict_type=_Lines, strict=False, comment_prefixes="#")
    parser.optionxform = str
    parser.read(FOLDER / name)
    return {key: value.split("\n") for key, value in parser["Service"].items()}


def as_installed(folder: Path, name: str) -> Path:
    """Put a unit where it can be looked at, with the program of this environment in the place of the installed one."""
    path = folder / name
    path.write_text((FOLDER / name).read_text().replace("/opt/maestro/bin/maestro", MAESTRO))
    return path


@pytest.mark.skipif(ANALYZE is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_unit(tmp_path, name):
    """Nothing is misspelled or in the wrong place; the control is a unit in which something is."""
    path = as_installed(tmp_path, name)
    words = [ANALYZE, "verify", "--man=no", "--recursive-errors=no", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    path.write_text(path.read_text().replace("KillMode=", "KilMode=").replace("RestartSec=", "RestartSecs="))
    assert name in subprocess.run(words, capture_output=True, text=True, check=False).stderr


@pytest.mark.skipif(ANALYZE is None, reason="no systemd here")
@pytest.mark.parametrize("name", UNITS)
def test_units_are_hardened(tmp_path, name):
    """By systemd's own count; the control is the same unit with only its program."""
    path = as_installed(tmp_path, name)

    def judged(path: Path) -> float:
        words = [ANALYZE, "security", "--offline=yes", "--no-pager", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
        assert found, done.stderr
        return float(found[1])

    assert judged(path) <= EXPOSED[name]
    lines = [line for line in path.read_text().splitlines() if line.startswith(("[", "ExecStart"))]
    path.write_text("\n".join(lines) + "\n")
    assert judged(path) > 8


@pytest.mark.skipif(SYSUSERS is None, reason="no systemd here")
def test_the_step_that_makes_the_user_finds_its_file():
    """As the page has it, from a checkout: the control names the file by a path that systemd looks for elsewhere."""
    page = (FOLDER.parents[1] / "docs/team-server.md").read_text()
    (step,) = re.findall(r"^systemd-sysusers .*maestro\.sysusers.*$", page, re.MULTILINE)

    def tried(line: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-c", line.replace("systemd-sysusers", f"{SYSUSERS} --dry-run")]
        return subprocess.run(words, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)

    assert tried(step).returncode == 0, tried(step).stderr
    assert tried(step.replace("$PWD/", "")).returncode != 0


@pytest.mark.parametrize("name", UNITS)
def test_units_start_what_there_is(name):
    """As a user of their own, with settings that exist, and come back by themselves."""
    said = unit(name)
    program, command = said["ExecStart"][0].split()[:2]
    assert (program, command in COMMANDS) == ("/opt/maestro/bin/maestro", True)
    assert said["User"] == ["maestro"]
    assert said["Restart"] == ["always"]
    text = (FOLDER / name).read_text() + (FOLDER / "maestro.env.example").read_text()
    assert set(re.findall(r"MAESTRO_[A-Z_]+", text)) <= set(VARIABLES)


def test_each_worker_is_told_what_it_is_for():
    """Its own file names labels and tools: as words, none where it says nothing, so that systemd warns of nothing."""
    said = unit("maestro-worker@.service")
    assert said["ExecStart"][0].split()[-3:] == ["--count", "${MAESTRO_WORKERS}", "$WORKER_OPTIONS"]
    assert "WORKER_OPTIONS=" in said["Environment"][0].split()
    assert said["EnvironmentFile"][-1] == "-/etc/maestro/worker-%i.env"


def test_what_is_started_on_the_page_does_not_work_among_the_archives():
    """But in a folder that systemd makes, and that a worker of the same machine may write."""
    said = unit("maestro-serve.service")
    assert said["WorkingDirectory"] == ["/var/lib/maestro/work"]
    assert "maestro/work" in said["StateDirectory"][0].split()


def test_stopping_a_worker_leaves_its_tools_alone():
    """Only the worker is signalled, and gets longer than the runs under way may take."""
    said = unit("maestro-worker@.service")
    assert said["KillMode"] == ["mixed"]
    assert int(said["TimeoutStopSec"][0]) > RULES["stop_grace_seconds"].default + EXIT_S
