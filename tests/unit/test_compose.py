"""The files a team's server is started from: well-formed, safe by default, and without a secret in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import jsonschema
import pytest
from maestro_cli.commands import COMMANDS

from maestro_state.local.settings import VARIABLES
from tests.support import compose, image

ROOT = compose.FILE.parent
PASSWORDS = {f"REDIS_{name}_PASSWORD": name.lower() * 8 for name in ("TERMINAL", "WORKER", "ADMIN")}


@pytest.fixture
def services():
    """Return the services as they are with nothing but the passwords set."""
    return compose.load(PASSWORDS)["services"]


def test_the_file_is_a_compose_file():
    """It has the shape the specification asks for, with defaults and with everything set."""
    everything = dict(re.findall(r"(?m)^#?([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text())) | PASSWORDS
    for variables in (PASSWORDS, everything):
        assert set(compose.load(variables)["services"]) == {"access", "redis", "worker", "scheduler"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"services": {"a": {"image": "x", "comand": ["x"]}}},
        {"services": {"a": {"image": "x", "depends_on": {"b": {"condition": "service_started"}}}}},
        {"services": {"a": {"image": "x", "restart": False}}},
        {"services": {"a": {"image": "x", "volumes": ["data:/data"]}}, "volumes": {}},
        {"services": {"a": {"command": ["x"]}}},
        {"service": {}},
    ],
)
def test_a_wrong_file_is_refused(wrong):
    """Control: the check bites."""
    with pytest.raises(jsonschema.ValidationError):
        compose.check(wrong)


@pytest.mark.parametrize("name", PASSWORDS)
def test_nothing_starts_without_a_password(name):
    """There is no default password: each one that is missing is named."""
    with pytest.raises(compose.MissingVariableError, match=name):
        compose.load({other: value for other, value in PASSWORDS.items() if other != name})


def test_the_example_lists_every_variable():
    """Whoever copies .env.example sees everything that can be set, and no password is in it."""
    used = set(re.findall(r"\$\{(\w+)", compose.FILE.read_text()))
    listed = dict(re.findall(r"(?m)^#?([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text()))
    assert set(listed) == used
    assert {listed[name] for name in PASSWORDS} == {""}


def test_the_server_is_safe(services):
    """Append-only, nothing evicted, an access list, a volume, a health check, reachable from this machine only."""
    redis = services["redis"]
    words = redis["command"]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--aclfile"] == "/access/users.acl"
    assert "data:/data" in redis["volumes"]
    assert redis["healthcheck"]["test"]
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])


def test_no_password_is_in_an_argument(services):
    """Arguments can be read by everybody on the machine; passwords are only in environments."""
    for service in services.values():
        for word in (*service.get("command", ()), *service.get("healthcheck", {}).get("test", ())):
            assert not any(password in word for password in PASSWORDS.values())


def test_services_run_commands_and_settings_that_exist(services):
    """What the file starts and sets is what the program has."""
    for name in ("access", "worker", "scheduler"):
        assert services[name]["command"][0] in COMMANDS
        for variable in services[name]["environment"]:
            assert variable in VARIABLES or variable in PASSWORDS


def test_services_have_no_more_than_they_need(services):
    """Ours run without root's rights on a read-only file system; only the access job sees every password."""
    for name in ("access", "worker", "scheduler"):
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        seen = {secret for secret in PASSWORDS.values() if secret in str(service["environment"])}
        assert seen == (set(PASSWORDS.values()) if name == "access" else {PASSWORDS["REDIS_WORKER_PASSWORD"]})
    assert "archive:/archive" in services["worker"]["volumes"]
    assert "archive:/archive" in services["scheduler"]["volumes"]


def test_the_image_runs_as_nobody_special_and_looks_after_itself():
    """Not root, a health check, no secret, and only what the package needs is copied in."""
    final = image.stages()[-1]
    assert dict(final)["USER"] not in ("root", "0")
    assert image.started("HEALTHCHECK")[1] in COMMANDS
    assert image.started("ENTRYPOINT") == ["maestro"]
    lines = [rest for stage in image.stages() for _, rest in stage]
    assert not any(re.search(r"(?i)password|secret|token|--index|https?://", line) for line in lines)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    assert all(f"!{name}" in ignored for name, _ in image.copied())


def test_what_the_image_copies_is_enough(tmp_path):
    """The program runs from nothing but the files that are copied in: commands, scripts, the worker's side."""
    image.lay_out(tmp_path)
    wanted = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    build = wanted["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert all((tmp_path / name).is_dir() for name in build)
    module, _, function = wanted["project"]["scripts"][image.started("ENTRYPOINT")[0]].partition(":")
    code = (
        "import sys, maestro_state, maestro_workers.worker, maestro_workers.scheduler\n"
        f"from {module} import {function}\n"
        "from maestro_state.state.scripts import load, names; [load(name) for name in names()]\n"
        "assert all(m.__file__.startswith(sys.argv[1]) for n, m in sys.modules.items()\n"
        "           if n.split('.')[0] in ('maestro_state', 'workers', 'cli'))\n"
        f"sys.argv = ['maestro', 'acl']; sys.exit({function}())"
    )
    env = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]} | PASSWORDS
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.count(b"user ")) == (0, 4), done.stderr.decode()
