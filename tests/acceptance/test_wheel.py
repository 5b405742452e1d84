"""The wheel as it is installed, in a shell whose PYTHONPATH leads to somebody's modules of the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support.embedded_project import temporary_project

pytestmark = pytest.mark.xdist_group("wheel")  # it is built and installed once

ROOT = Path(__file__).parent.parent.parent
#: Names of ours, of our libraries', of Python's own, and one that libraries import only where it is installed.
TAKEN = ("cli", "workers", "tests", "redis", "rq", "click", "msgspec", "json", "argparse", "socket", "typing",
         "opentelemetry")  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the environment in which the wheel of this checkout is installed; libraries are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*install, *map(str, folder.glob("*.whl"))], check=True, capture_output=True)
    packages = next((folder / "env").glob("lib/python*/site-packages"))
    # Named there it is a place to import from; links to checkouts that it holds are not followed.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "env" / "bin"


def taken(folder: Path) -> dict[str, str]:
    """Write modules that fail when they are imported; return the environment of a shell that finds them."""
    for at, name in enumerate(TAKEN):
        path = folder / f"{name}.py" if at % 2 else folder / name / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"raise SystemExit('{name} of somebody else was imported')\n")
    return os.environ | {"PYTHONPATH": "."}


def called(line: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", TAKEN)
def test_without_us_such_a_name_is_found_first(tmp_path: Path, installed: Path, name: str):
    """Control: in such a shell, Python itself takes somebody's module for its own."""
    env = taken(tmp_path)
    done = called([str(installed / "python"), "-c", f"import {name}"], tmp_path, env)
    assert done.stderr == f"{name} of somebody else was imported\n"
    tidied = f"from maestro_state.startup import own_modules_first; own_modules_first(); import {name}"
    done = called([str(installed / "python"), "-c", tidied], tmp_path, env)
    assert not done.stderr or f"No module named '{name}'" in done.stderr, done.stderr  # not even what nobody installed


def test_a_folder_whose_path_begins_like_ours_is_somebody_elses(installed: Path):
    """What is ours is told by the whole path."""
    packages = next(installed.parent.glob("lib/python*/site-packages"))
    beside = packages.with_name(f"{packages.name}-of-somebody")
    beside.mkdir()
    env = taken(beside) | {"PYTHONPATH": str(beside)}
    tidied = "from maestro_state.startup import own_modules_first; own_modules_first(); import json"
    assert called([str(installed / "python"), "-c", tidied], beside, env).returncode == 0


def test_a_session_from_start_to_end_beside_modules_of_the_same_names(installed: Path):
    """Every program of the stack starts, and a worker carries out the run."""
    with temporary_project() as project:
        env = taken(project)

        def maestro(*words: str) -> str:
            done = called([str(installed / "maestro"), *words], project, env)
            assert done.returncode == 0, f"{words}: {done.stderr}"
            return done.stdout

        assert maestro("--version").startswith("maestro ")
        session_id = json.loads(maestro("session", "start", "beside", "--json"))["id"]
        assert maestro("run", "--tool", "echo", "hi").rstrip().endswith("hi")
        assert [row["id"] for row in json.loads(maestro("session", "list", "--json"))["sessions"]] == [session_id]
        assert session_id in maestro("status")
        assert json.loads(maestro("stack", "status", "--json"))["running"]
        assert json.loads(maestro("session", "end", "--json"))["state"] == "finalizada"
        assert maestro("stack", "stop") == "stopped\n"


def test_the_page_beside_modules_of_the_same_names(installed: Path):
    """The server starts there, and so does the process that makes HTML of texts."""
    with temporary_project() as project:
        env = taken(project)
        words = [str(installed / "maestro"), "serve", "--port", "0", "--json"]
        with subprocess.Popen(words, cwd=project, env=env, stdout=subprocess.PIPE, text=True) as server:
            try:
                url = json.loads(server.stdout.readline())["url"]
                body = json.dumps({"texts": ["**bold**"]}).encode()
                asked = urllib.request.Request(
                    f"{url}/render", body, {"Content-Type": "application/json", "Origin": url}
                )
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    assert "<strong>bold</strong>" in json.load(answer)["html"][0]
            finally:
                server.terminate()
        assert server.returncode == 0


def test_what_was_installed_into_a_place_of_pythonpath_is_found(tmp_path: Path, installed: Path):
    """Some have their packages there and nowhere else; they come last."""
    (tmp_path / "only_there-1.dist-info").mkdir()
    (tmp_path / "only_there.py").write_text("")
    (tmp_path / "json.py").write_text("raise SystemExit('of somebody else')")
    env = os.environ | {"PYTHONPATH": "."}
    tidied = "from maestro_state.startup import own_modules_first; own_modules_first(); import json, only_there"
    assert called([str(installed / "python"), "-c", tidied], tmp_path, env).returncode == 0


def test_a_maestro_named_by_pythonpath_is_the_one_that_runs(tmp_path: Path, installed: Path):
    """A checkout that somebody works on comes before the installed package, with all of its parts."""
    places = [str(ROOT), str(ROOT / "cli"), str(ROOT / "workers")]
    code = (
        "from maestro_state.startup import own_modules_first; own_modules_first()\n"
        "import maestro_cli, maestro_state, maestro_workers\n"
        "for one in (maestro_cli, maestro_state, maestro_workers): print(one.__file__)"
    )
    done = called([str(installed / "python"), "-c", code], tmp_path, os.environ | {"PYTHONPATH": ":".join(places)})
    assert [Path(line).is_relative_to(ROOT) for line in done.stdout.split()] == [True] * 3, done.stderr
