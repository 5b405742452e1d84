"""The compose file of a team's server: well-formed, safe by default, everything passable, and no secret in it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import jsonschema
import pathspec
import pytest
from maestro_cli.command_table import COMMANDS
from maestro_cli.commands.worker import worker as COMMAND
from maestro_workers.team import EXIT_S

from maestro_state.local.settings import RULES, TERMINAL, VARIABLES
from maestro_state.tools.catalogue import TOOLS
from maestro_state.tools.tool import BASE_ENVIRONMENT
from tests.support import compose, image

ROOT = compose.FILE.parent
PASSWORDS = {f"REDIS_{name}_PASSWORD": name.lower() * 8 for name in ("TERMINAL", "WORKER", "ADMIN")}
WORKERS = ("worker-a", "worker-b")
OURS = ("access", *WORKERS, "scheduler", "serve")
COPIERS = ("backup", "restore")


def example() -> dict[str, str]:
    """Return every variable of .env.example, with the value that stands there."""
    return dict(re.findall(r"(?m)^#?([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text()))


def said(service) -> str:
    """Return all that `docker inspect` shows of what a container was given."""
    return str({name: value for name, value in service.items() if name != "secrets"})


@pytest.fixture
def services():
    """Return the services as they are with nothing but the passwords set."""
    return compose.load(PASSWORDS)["services"]


def test_the_file_is_a_compose_file():
    """It has the shape the specification asks for, with defaults and with everything set."""
    for variables in (PASSWORDS, example() | PASSWORDS):
        assert set(compose.load(variables)["services"]) == {"redis", *OURS, *COPIERS}


@pytest.mark.parametrize(
    "wrong",
    [
        {"services": {"a": {"image": "x", "comand": ["x"]}}},
        {"services": {"a": {"image": "x", "depends_on": {"b": {"condition": "service_started"}}}}},
        {"services": {"a": {"image": "x", "restart": False}}},
        {"services": {"a": {"image": "x", "volumes": ["data:/data"]}}, "volumes": {}},
        {"services": {"a": {"image": "x", "secrets": ["s"]}}},
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
    """Whoever copies .env.example sees everything that can be set, and no password or key is in it."""
    text = compose.FILE.read_text()
    used = set(re.findall(r"\$\{(\w+)", text)) | set(re.findall(r"(?m)^ +([A-Z][A-Z_]+):$", text))
    listed = example()
    assert set(listed) == used
    assert {value for name, value in listed.items() if re.search("PASSWORD|KEY|TOKEN", name)} == {""}


def test_every_setting_reaches_every_service(services):
    """What .env sets is set in workers, scheduler and page alike; without it nothing is, and the defaults count."""
    wanted = {name: f"x{number}" for number, name in enumerate(VARIABLES) if RULES[VARIABLES[name]].scope != TERMINAL}
    full = compose.load(PASSWORDS | wanted)["services"]
    own = {"MAESTRO_REDIS_URL", "MAESTRO_ARCHIVE_ROOT", "MAESTRO_SECRETS_FILE", "MAESTRO_WORKERS"}
    for name in (*WORKERS, "scheduler", "serve"):
        environment = full[name]["environment"]
        assert {key: environment.get(key) for key in wanted if key not in own} == {
            key: value for key, value in wanted.items() if key not in own
        }
        assert set(services[name]["environment"]) <= {*own, "MAESTRO_NAMESPACE", "MAESTRO_LOG_LEVEL"}
    assert wanted["MAESTRO_WORKERS"] in full["worker-a"]["command"]


def test_each_worker_is_told_what_it_is_for(services):
    """Labels and tools are options of a worker, not settings of a team: .env has a line for each."""
    assert [services[name]["command"] for name in WORKERS] == [["worker", "--count", "2"]] * 2
    options = {"WORKER_A_OPTIONS": "--label gpu --tools claude,codex", "MAESTRO_WORKERS": "3"}
    told = compose.load(PASSWORDS | options)["services"]
    assert told["worker-a"]["command"] == ["worker", "--count", "3", "--label", "gpu", "--tools", "claude,codex"]
    assert told["worker-b"]["command"] == ["worker", "--count", "3"]
    known = {option for parameter in COMMAND.params for option in parameter.opts}
    assert {word for word in told["worker-a"]["command"] if word.startswith("--")} <= known


def test_keys_of_tools_are_in_the_workers_and_nowhere_else():
    """From .env, or a file per worker, of which only the path is seen; each is one that a tool is let see."""
    keys = {name for name in example() if re.search("_KEY$|_TOKEN$|_BASE_URL$|_PROXY$", name)}
    values = {name: f"value-of-{name.lower()}" for name in keys}
    files = {"WORKER_A_SECRETS": "./a.env", "WORKER_B_SECRETS": "./b.env"}
    document = compose.load(PASSWORDS | values | files)
    for name, service in document["services"].items():
        shown = {value for value in values.values() if value in said(service)}
        assert shown == (set(values.values()) if name in WORKERS else set())
        assert service.get("secrets", []) == ([name] if name in WORKERS else [])
    seen = [pattern for tool in TOOLS for pattern in tool.sees] + list(BASE_ENVIRONMENT)
    assert [key for key in keys if not any(fnmatchcase(key, pattern) for pattern in seen)] == []
    assert document["services"]["worker-b"]["environment"]["MAESTRO_SECRETS_FILE"] == "/run/secrets/worker-b"
    assert document["secrets"]["worker-b"]["file"] == "./b.env"


def test_what_is_filled_in_is_committed_and_built_by_nobody():
    """Passwords, keys and certificates lie in the checkout, as documents have them: git and Docker leave them out."""
    text = (ROOT / "docs/team-server.md").read_text() + (ROOT / ".env.example").read_text()
    filled_in = [".env", *re.findall(r"\./((?:secrets|tls)\b[\w./-]*)", text), "tls/ca.key", "tls/server.key"]
    assert {"secrets/worker-a.env", "tls"} <= set(filled_in)
    for name in (".gitignore", ".dockerignore"):
        ignored = pathspec.GitIgnoreSpec.from_lines((ROOT / name).read_text().splitlines())
        assert [one for one in filled_in if not ignored.match_file(f"{one}/" if one == "tls" else one)] == []
        assert not ignored.match_file("pyproject.toml"), "control: not everything is left out"


def test_without_a_secrets_file_none_is_looked_for(services):
    """An empty folder with passwords in .env is enough to start from."""
    assert [services[name]["environment"]["MAESTRO_SECRETS_FILE"] for name in WORKERS] == ["", ""]


def seconds(duration: str) -> int:
    """Read a duration as compose does."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


@pytest.mark.parametrize("grace", [None, "0", "600"])
def test_stopping_waits_for_what_is_under_way(grace):
    """Docker kills a worker later than the worker gives up by itself, whatever its grace period is set to."""
    variables = {} if grace is None else {"MAESTRO_STOP_GRACE_SECONDS": grace}
    services = compose.load(PASSWORDS | variables)["services"]
    least = int(grace or RULES["stop_grace_seconds"].default) + EXIT_S
    assert all(seconds(services[name]["stop_grace_period"]) > least for name in WORKERS)


def test_logs_are_rotated_and_health_is_checked(services):
    """Everything that goes on running says whether it does its work, and fills no disk with what it says."""
    for name, service in services.items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
        if name not in ("access", *COPIERS):
            assert service["healthcheck"]["test"][0] == "CMD"
            assert service["restart"] == "unless-stopped"
    for name in WORKERS:
        assert services[name]["healthcheck"]["test"][1:] == image.started("HEALTHCHECK", "worker-tools")


def test_the_server_is_safe(services):
    """Append-only, nothing evicted, an access list, a volume, a health check, reachable from this machine only."""
    redis = services["redis"]
    words = redis["command"]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--save"] == "", "a snapshot that fails has every write refused, whatever the append-only file does"
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--aclfile"] == "/access/users.acl"
    assert "data:/data" in redis["volumes"]
    assert redis["healthcheck"]["test"]
    assert redis["healthcheck"]["start_period"] == "10m", "a file of gigabytes takes minutes to read"
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])


def test_no_password_is_in_an_argument(services):
    """Arguments can be read by everybody on the machine; passwords are only in environments."""
    for service in services.values():
        for word in (*service.get("command", ()), *service.get("healthcheck", {}).get("test", ())):
            assert not any(password in word for password in PASSWORDS.values())


def test_services_run_commands_and_settings_that_exist(services):
    """What the file starts and sets is what the program has."""
    for name in OURS:
        assert services[name]["command"][0] in COMMANDS
        for variable in services[name]["environment"]:
            assert variable in VARIABLES or variable in PASSWORDS
        assert services[name]["build"]["target"] in image.stages()


def test_services_have_no_more_than_they_need(services):
    """Ours run without root's rights on a read-only file system, with the one password that they use."""
    theirs = {"access": set(PASSWORDS.values()), "serve": {PASSWORDS["REDIS_TERMINAL_PASSWORD"]}}
    for name in OURS:
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert not {"cap_add", "privileged", "user"} & set(service)
        seen = {secret for secret in PASSWORDS.values() if secret in said(service)}
        assert seen == theirs.get(name, {PASSWORDS["REDIS_WORKER_PASSWORD"]})
    for name in (*WORKERS, "scheduler"):
        assert "archive:/archive" in services[name]["volumes"]
    homes = [volume for name in WORKERS for volume in services[name]["volumes"] if volume.endswith(":/home/maestro")]
    assert homes == ["home-a:/home/maestro", "home-b:/home/maestro"], "logins of a worker last, and are its own"


def test_what_is_written_can_be_written_by_its_user(services):
    """A tmpfs is root's unless it says whose: HOME says so, /tmp is everybody's. A volume has the image's owner."""
    made = " ".join(rest for word, rest in image.stages()["base"].lines if word == "RUN")
    for name in OURS:
        mounted = dict(entry.partition(":")[::2] for entry in services[name]["tmpfs"])
        owned = set(mounted.get("/home/maestro", "uid=10001,gid=10001,mode=0700").split(","))
        assert owned >= {"uid=10001", "gid=10001"}
        kept = {volume.split(":")[1] for volume in services[name].get("volumes", []) if not volume.endswith(":ro")}
        assert "/home/maestro" in {*mounted, *kept}
        assert all(folder in made for folder in kept)
        assert mounted["/tmp"] == ("exec" if name in WORKERS else "")


def test_no_process_of_a_worker_is_open_to_its_tools(services):
    """A first process of Docker's own would show them the password; worker and interpreter are closed."""
    assert [services[name]["init"] for name in WORKERS] == [False, False]
    assert services["serve"]["init"], "control: where no tool runs there is one"
    made = [rest for word, rest in image.stages()["build"].lines if word == "RUN"]
    assert "venv --copies /opt/maestro" in made[0]
    assert made[-1].endswith("chmod 0711 /opt/maestro/bin/python*")


def test_who_copies_the_data_reaches_nobody(services):
    """Backup and restore see files of all users: no network, no password, and none of them starts by itself."""
    for name in COPIERS:
        service = services[name]
        assert (service["network_mode"], service["environment"], service["profiles"]) == ("none", {}, [name])
        assert service["cap_drop"] == ["ALL"]
    read_only = {volume for volume in services["backup"]["volumes"] if volume.endswith(":ro")}
    assert read_only == {"data:/data:ro", "archive:/archive:ro"}


def test_what_is_started_on_the_page_works_among_the_checkouts(services):
    """In a folder that the workers have too, and that is not the one of the archives."""
    assert services["serve"]["working_dir"] == "/projects"
    for name in ("serve", *WORKERS):
        assert "projects:/projects" in services[name]["volumes"]


def test_the_page_is_for_this_machine_unless_told_otherwise(services):
    """One port, tokens, and TLS of its own or of a proxy in front."""
    serve = services["serve"]
    assert serve["ports"] == ["127.0.0.1:4175:4175"]
    assert {"--require-auth", "--behind-proxy"} < set(serve["command"])
    tls = compose.load(PASSWORDS | example() | PASSWORDS)["services"]["serve"]["command"]
    assert tls[-4:] == ["--tls-cert", "/tls/server.crt", "--tls-key", "/tls/server.key"]
    assert "--behind-proxy" not in tls
