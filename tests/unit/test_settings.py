"""Settings: one declaration, five sources in order, and errors that name setting, source and remedy."""

from __future__ import annotations

import json
import os

import pytest

from maestro_state.errors import ConfigError
from maestro_state.local.settings import (
    NAMES,
    PREFIX,
    RULES,
    SECRETS,
    TERMINAL,
    Settings,
    describe,
    load_settings,
    unknown_variables,
)
from maestro_state.local.settings_validation import MaestroSettings
from maestro_state.local.trust import trust
from maestro_state.vocabulary import OWN_SECRETS


class Place:
    """A project and a user's home, both in a temporary folder."""

    def __init__(self, base):
        self.root = base / "project"
        self.root.mkdir()
        self.env = {"HOME": str(base / "home")}
        (base / "home").mkdir()
        self.user_file = base / "home/.config/maestro/settings.toml"
        self.project_file = self.root / ".maestro/config/settings.toml"

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def load(self, overrides=None, **env):
        return load_settings(self.root, self.env | env, overrides or {})


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def refusal(place, overrides=None, **env):
    with pytest.raises(ConfigError) as caught:
        place.load(overrides, **env)
    text = f"{caught.value} {caught.value.hint}"
    assert "\n" not in text
    return text


def test_what_validates_is_made_from_the_table():
    """The validating model has the record's settings and defaults."""
    declared = {n: f.get_default(call_default_factory=True) for n, f in MaestroSettings.model_fields.items()}
    assert {name: getattr(Settings({}, {}, []), name) for name in NAMES} == declared
    assert set(vars(Settings({}, {}, []))) - set(NAMES) == {"sources", "ignored"}


def test_settings_do_not_change(place):
    """What was validated cannot be set to something else."""
    with pytest.raises(AttributeError, match="workers is a setting"):
        place.load().workers = 3


def test_every_setting_is_described_and_bounded():
    """Each setting has a meaning, and a text of what is allowed."""
    assert {name for name in NAMES if not (RULES[name].meaning and RULES[name].allowed)} == set()


def test_secrets_are_the_addresses_that_no_tool_sees():
    """The table's secrets are just the variables that are kept from tools."""
    assert {PREFIX + name.upper() for name in SECRETS} == OWN_SECRETS


#: All that an untrusted project's file may set, with a value that is not the default.
ALLOWED = {
    "idle_after_seconds": 5,
    "run_timeout_seconds": 5,
    "workers": 2,
    "stack_idle_seconds": 5,
    "log_level": "error",
}


@pytest.mark.parametrize("name", [name for name in NAMES if RULES[name].scope != TERMINAL])
def test_an_untrusted_file_decides_nothing_about_what_is_kept_or_run(place, name):
    """Of every setting there is, only those of the list count before the file is trusted; a new one is not there."""
    value = ALLOWED.get(name, "1")
    place.write(place.project_file, f"{name} = {json.dumps(value)}\n")
    settings = place.load()
    if name in ALLOWED:
        assert (getattr(settings, name), settings.ignored) == (value, [])
    else:
        assert getattr(settings, name) == getattr(place.load(), name) == _default(name)
        assert settings.ignored == [name]
        assert settings.sources[name] == "default"


@pytest.mark.parametrize("name", ["user", "namespace", "ttl_seconds", "retention_days", "cleanup", "max_output_bytes"])
def test_a_trusted_file_decides(place, name):
    """The control: the same file counts once its user has vouched for it."""
    value = {"user": "ann", "namespace": "team", "cleanup": "on"}.get(name, 7)
    place.write(place.project_file, f"{name} = {json.dumps(value)}\n")
    trust(place.root, place.env)
    settings = place.load()
    assert (getattr(settings, name), settings.ignored) == (value, [])


def test_what_is_called_at_the_end_of_a_run_is_a_persons_own(place):
    """A project's file cannot name that command, not even a trusted one; the user's own file and environment can."""
    place.write(place.project_file, 'notify = "curl evil"\n')
    trust(place.root, place.env)
    assert (place.load().notify, place.load().ignored) == (None, ["notify"])
    place.write(place.user_file, 'notify = "notify-send maestro"\n')
    assert place.load().notify == "notify-send maestro"
    assert place.load(MAESTRO_NOTIFY="say").notify == "say"


def _default(name: str) -> object:
    return getattr(Settings({}, {}, []), name)


def test_nothing_configured_gives_the_documented_defaults(place):
    """With no setting at all every value is the documented default and says so."""
    settings = place.load()
    assert (settings.ttl_seconds, settings.idle_after_seconds) == (604800, 900)
    assert settings.checkpoint_seconds == 60
    assert (settings.dirty_grace_seconds, settings.retention_days) == (30 * 86400, 30)
    assert (settings.max_blob_bytes, settings.max_output_bytes) == (16 * 2**20, 256 * 2**20)
    assert (settings.run_timeout_seconds, settings.stack_idle_seconds) == (3600, 1800)
    assert (settings.namespace, settings.redis_url, settings.wait_replicas) == ("maestro", None, 0)
    assert settings.user
    assert set(settings.sources.values()) == {"default"}
    assert settings.ignored == []


def test_user_is_found_without_an_account(place, monkeypatch):
    """A user id without an account still has a user name."""
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert place.load().user == f"uid-{os.getuid()}"


def test_sources_win_in_order(place):
    """Command line beats environment beats the user's file beats the project's file beats the default."""
    shared = "ttl_seconds = {0}\nretention_days = {0}\ncheckpoint_seconds = {0}\n"
    place.write(place.project_file, shared.format(1) + "wait_replicas = 1")
    trust(place.root, place.env)
    place.write(place.user_file, shared.format(2))
    settings = place.load({"ttl_seconds": 4}, MAESTRO_TTL_SECONDS="3", MAESTRO_RETENTION_DAYS="3")
    got = {name: (getattr(settings, name), settings.sources[name]) for name in NAMES}
    assert got["ttl_seconds"] == (4, "command line")
    assert got["retention_days"] == (3, "env MAESTRO_RETENTION_DAYS")
    assert got["checkpoint_seconds"] == (2, str(place.user_file))
    assert got["wait_replicas"] == (1, str(place.project_file))
    assert got["idle_after_seconds"] == (900, "default")


def test_given_environment_is_the_only_one(place, monkeypatch):
    """The process's own variables do not leak into settings loaded for another environment."""
    monkeypatch.setenv("MAESTRO_TTL_SECONDS", "7")
    monkeypatch.setenv("MAESTRO_NAMESPACE", "leak")
    settings = place.load(MAESTRO_RETENTION_DAYS="3")
    assert (settings.ttl_seconds, settings.namespace, settings.retention_days) == (604800, "maestro", 3)


def test_empty_variables_and_absent_overrides_count_as_not_set(place):
    """An empty variable and an override of None leave the default."""
    settings = place.load({"ttl_seconds": None}, MAESTRO_TTL_SECONDS="", MAESTRO_REDIS_URL="")
    assert settings.ttl_seconds == 604800
    assert settings.sources["redis_url"] == "default"


def test_paths_may_be_given_as_paths(place, tmp_path):
    """An override that is a Path becomes its text."""
    assert place.load({"archive_root": tmp_path}).archive_root == str(tmp_path)


def test_without_a_project_only_the_users_file_counts(place):
    """No project root means no project file."""
    place.write(place.project_file, "ttl_seconds = 1")
    assert load_settings(None, place.env, {}).ttl_seconds == 604800


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("TTL_SECONDS", "soon", "a whole number from 1 to"),
        ("TTL_SECONDS", "0", "a whole number from 1 to"),
        ("MAX_BLOB_BYTES", str(2**40), "to 536870912"),
        ("RETENTION_DAYS", "-1", "from 0 to"),
        ("LOG_LEVEL", "loud", "debug, info, warning, error or critical"),
        ("DEBUG", "perhaps", "true or false"),
        ("NAMESPACE", "a:{b}", "letters, digits"),
        ("NAMESPACE", "a\n", "letters, digits"),
        ("ARCHIVE_ROOT", "here", "an absolute path"),
        ("SERVER_BINARY", "redis-server", "an absolute path"),
        ("SESSION", "a\x1b[2J", "printable"),
        ("COOKIE", "x" * 129, "printable"),
        ("USER", "a\nb", "printable"),
    ],
)
def test_wrong_value_is_refused_in_one_line(place, variable, value, allowed):
    """A wrong value is named with its setting, its source and what is allowed, on one clean line."""
    text = refusal(place, **{f"MAESTRO_{variable}": value})
    assert f"{variable.lower()} (env MAESTRO_{variable})" in text
    assert allowed in text
    assert text.isprintable()


@pytest.mark.parametrize(
    "value",
    ["http://:hunter2@h", "hunter2", "redis://:hunter2@h:port", "redis://:hun/hunter2@h", "redis://h?password=hunter2"],
)
@pytest.mark.parametrize("name", ["redis_url", "queue_url"])
def test_wrong_address_is_refused_without_repeating_it(place, name, value):
    """An address that is none is refused from every source, and no part of the password is shown."""
    variable = f"MAESTRO_{name.upper()}"
    if value == "redis://:hun/hunter2@h":
        assert "hunter2" not in str(describe(place.load(**{variable: value})))
        return
    assert "hunter2" not in refusal(place, **{variable: value})
    assert "hunter2" not in refusal(place, {name: value})
    place.write(place.user_file, f'{name} = "{value}"')
    text = refusal(place)
    assert "hunter2" not in text
    assert f"{name} ({place.user_file})" in text


def test_queue_on_a_cluster_is_refused(place):
    """A cluster serves as state server, not as queue."""
    assert place.load(MAESTRO_REDIS_URL="redis+cluster://a,b").redis_url == "redis+cluster://a,b"
    assert "cluster" in refusal(place, MAESTRO_QUEUE_URL="redis+cluster://a,b")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("ttl_second = 5", "did you mean ttl_seconds"),
        ("[section]\nttl_seconds = 5", "no such setting"),
        ("ttl_seconds = ", "not valid TOML"),
        ("ttl_seconds = 5\nttl_seconds = 6", "not valid TOML"),
        (b"user = '\xff'", "not UTF-8"),
        ("user = " + "[" * 5000, "not valid TOML"),
        ("workers = true", "a whole number"),
        ("workers = [1]", "a whole number"),
        ("session = 'x'", "a file cannot set it"),
        ("cookie = 'x'", "MAESTRO_COOKIE"),
        ("#" * (2**20 + 1), "larger than"),
    ],
)
@pytest.mark.parametrize("which", ["user_file", "project_file"])
def test_wrong_file_is_refused(place, which, content, reason):
    """A file that cannot be read as settings is refused by its path, whoever's it is."""
    path = getattr(place, which)
    place.write(path, content)
    text = refusal(place)
    assert str(path) in text
    assert reason in text


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder", "dangling"])
def test_project_file_that_is_no_plain_file_is_refused(place, tmp_path, kind):
    """A link, a pipe or a folder in the place of the project's file is refused, never followed."""
    place.write(tmp_path / "elsewhere/config/settings.toml", "ttl_seconds = 5")
    place.project_file.parent.mkdir(parents=True)
    if kind == "link":
        place.project_file.symlink_to(tmp_path / "elsewhere/config/settings.toml")
    elif kind == "dangling":
        place.project_file.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(place.project_file)
    elif kind == "folder":
        place.project_file.mkdir()
    else:
        place.project_file.parent.rmdir()
        place.project_file.parent.symlink_to(tmp_path / "elsewhere/config")
    assert str(place.project_file) in refusal(place)


def test_users_file_may_be_a_link(place, tmp_path):
    """The user's own file may be a link, as dotfiles often are."""
    place.write(tmp_path / "dotfiles.toml", "ttl_seconds = 5")
    place.user_file.parent.mkdir(parents=True)
    place.user_file.symlink_to(tmp_path / "dotfiles.toml")
    assert place.load().ttl_seconds == 5


def test_unknown_override_is_refused(place):
    """An override that is no setting is a mistake, not a wish to ignore."""
    assert "command line" in refusal(place, {"ttl": 5})


def test_untrusted_project_file_names_no_endpoint(place, tmp_path):
    """An untrusted project file names no endpoint, program or folder; the rest of it counts."""
    place.write(
        place.project_file,
        f'redis_url = "redis://evil"\nserver_binary = "/evil"\narchive_root = "{tmp_path}"\nworkers = 5',
    )
    settings = place.load()
    assert (settings.redis_url, settings.server_binary, settings.archive_root) == (None, None, None)
    assert settings.workers == 5
    assert settings.ignored == ["archive_root", "redis_url", "server_binary"]
    trust(place.root, place.env)
    settings = place.load()
    assert (settings.redis_url, settings.server_binary, settings.ignored) == ("redis://evil", "/evil", [])
    assert settings.sources["redis_url"] == str(place.project_file)


def test_users_file_is_trusted_by_itself(place):
    """The user's own file may name endpoints."""
    place.write(place.user_file, 'redis_url = "redis://mine"')
    assert place.load().redis_url == "redis://mine"


def test_relative_xdg_folder_is_ignored(place):
    """A relative XDG folder does not make the current folder a place for settings."""
    place.write(place.user_file, "ttl_seconds = 5")
    assert place.load(XDG_CONFIG_HOME="config").ttl_seconds == 5


def test_description_masks_secrets_and_names_sources(place):
    """What is shown has every setting with its source, and addresses without their passwords."""
    settings = place.load(MAESTRO_REDIS_URL="redis://me:hunter2@host:7/2", MAESTRO_TTL_SECONDS="5")
    rows = {row["name"]: row for row in describe(settings)}
    assert list(rows) == list(NAMES)
    assert rows["redis_url"]["source"] == "env MAESTRO_REDIS_URL"
    assert "host:7" in rows["redis_url"]["value"]
    assert rows["ttl_seconds"] == {"name": "ttl_seconds", "value": 5, "source": "env MAESTRO_TTL_SECONDS"}
    assert "hunter2" not in str(rows)
    assert "hunter2" not in repr(settings)
    assert settings.redis_url == "redis://me:hunter2@host:7/2"


def test_unknown_variables_are_listed_not_refused(place):
    """A MAESTRO_ variable that sets nothing is no error and can be listed."""
    env = {"MAESTRO_TTL": "5", "MAESTRO_TTL_SECONDS": "5", "OTHER": "1"}
    assert unknown_variables(env) == ["MAESTRO_TTL"]
    assert place.load(**env).ttl_seconds == 5
