"""Every setting, once: default, bounds, meaning and who may set it; and how a program gets its own.

The table below is the record that programs use. All else is made from it: what pydantic checks (`settings_validation`),
`maestro config`, the documentation's table, the names of variables. Nothing else reads MAESTRO_* variables or settings
files. Every command loads this first, so it is light: pydantic is imported only for settings that were not seen before
(`settings_cache`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from maestro_state.errors import ConfigError
from maestro_state.fs.private import config_home, login_name, read_user_file
from maestro_state.local.trust import SETTINGS_FILE, read_with_trust
from maestro_state.models.folders import FORM as FOLDERS

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "MAESTRO_"
DEFAULT = "default"
COMMAND_LINE = "command line"

# Who may set something, beside the command line and the environment.
#: Any file, also that of a project that nobody has trusted yet: only for what decides neither what is kept, nor under
#: whose name, nor which program, folder or server is used.
PROJECT = "project"
#: The user's own file, and that of a trusted project.
TRUSTED = "trusted"
#: The user's own file.
PERSON = "person"
#: No file: it belongs to one terminal.
TERMINAL = "terminal"

_DAY = 86_400
_TEN_YEARS = 3650 * _DAY
_ENDPOINTS = "redis://, rediss://, unix://, redis+sentinel://"


class Rule(NamedTuple):
    """What a setting means and may be."""

    kind: str  #: number, text, address, path, folders, word or flag
    default: Any  #: a function finds it out
    meaning: str
    allowed: str  #: in words
    scope: str = TRUSTED
    bounds: tuple[int, int] = (0, 0)  #: of a number
    words: tuple[str, ...] = ()  #: of a word
    pattern: str | None = None  #: of a text that is other than 1 to 128 printable characters


# Typed Any, so that the table below can say of which type each setting is once it is read.


def _setting(kind: str, default: Any, meaning: str, allowed: str, scope: str = TRUSTED, **more: Any) -> Any:
    return Rule(kind, default, meaning, allowed, scope, **more)


def _number(default: int, least: int, most: int, meaning: str, scope: str = TRUSTED) -> Any:
    return Rule("number", default, meaning, f"a whole number from {least} to {most}", scope, bounds=(least, most))


def _word(default: str, words: tuple[str, ...], meaning: str, scope: str = TRUSTED) -> Any:
    return Rule("word", default, meaning, f"{', '.join(words[:-1])} or {words[-1]}", scope, words=words)


def _text(default: Any, meaning: str, scope: str = TRUSTED) -> Any:
    return Rule("text", default, meaning, "1 to 128 printable characters", scope)


def _path(meaning: str, scope: str = TRUSTED) -> Any:
    return Rule("path", None, meaning, "an absolute path", scope)


class Settings:
    """The settings of Maestro, validated; MAESTRO_<NAME> in the environment, <name> in a settings file.

    Plain, because a dataclass takes a millisecond to make in every program; no repr, which would show secrets.
    """

    redis_url: str | None = _setting(
        "address",
        None,
        "Address of the state server; without one a private server is started for the project.",
        f"{_ENDPOINTS}, redis+cluster://",
    )
    queue_url: str | None = _setting(
        "address",
        None,
        "Address of the queue's server, where it is not the state server (never a cluster).",
        _ENDPOINTS,
    )
    namespace: str = _setting(
        "text",
        "maestro",
        "First part of every key on the server.",
        "1 to 64 letters, digits, '_', '.' or '-', a letter or digit first",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
    )
    user: str = _text(login_name, "Who the changes are by; the login name unless set.")
    session: str | None = _text(None, "Session this terminal is pinned to.", TERMINAL)
    cookie: str | None = _text(None, "Work session that runs leave their breadcrumbs in.", TERMINAL)
    tool: str | None = _text(None, "Tool that runs asked for in this terminal use.", TERMINAL)
    archive_root: str | None = _path("Folder of the archive; else the project's .maestro.")
    paths: str | None = _setting(
        "folders",
        None,
        "Where a worker has the folders of those who ask for runs: ASKED=HERE, more of them after a ':'.",
        FOLDERS,
    )
    server_binary: str | None = _path("Redis or Valkey program to run as the private server.")
    secrets_file: str | None = _path(
        "File of NAME=value lines, keys for tools; workers hand them on, each tool sees its own.", PERSON
    )
    notify: str | None = _setting(
        "text",
        None,
        "Command that is told when a run ends, with --notify; a project's file never sets it.",
        "a command line of 1 to 1024 printable characters",
        PERSON,
        pattern=r"^[^\x00-\x1f\x7f]{1,1024}$",
    )
    ttl_seconds: int = _number(7 * _DAY, 1, _TEN_YEARS, "Time without activity after which a session expires.")
    idle_after_seconds: int = _number(
        900, 1, _TEN_YEARS, "Time without activity after which a session counts as idle.", PROJECT
    )
    checkpoint_seconds: int = _number(60, 1, _DAY, "Longest time a change of a live session stays unwritten to disk.")
    dirty_grace_seconds: int = _number(
        30 * _DAY, 0, _TEN_YEARS, "How much longer the server keeps what is not on disk."
    )
    run_timeout_seconds: int = _number(3600, 1, 30 * _DAY, "Longest time a run may take.", PROJECT)
    runs_per_user: int = _number(0, 0, 10_000, "Runs of one user that may be open at once; 0 is as many as asked for.")
    runs_per_session: int = _number(
        0, 0, 10_000, "Runs of one session that may be open at once; 0 is as many as asked for."
    )
    workers: int = _number(8, 1, 256, "Runs that the embedded stack carries out at once, at most.", PROJECT)
    stop_grace_seconds: int = _number(60, 0, _DAY, "Time that a worker told to stop gives the run under way to end.")
    stack_idle_seconds: int = _number(
        1800, 1, 365 * _DAY, "Time without use after which the private server stops.", PROJECT
    )
    serve_port: int = _number(
        0, 0, 65535, "Port of this machine at which the embedded stack serves HTTP, as maestro serve does; 0: none."
    )
    serve_auth: str = _word("off", ("on", "off"), "Whether what the embedded stack serves asks for tokens.")
    retention_days: int = _number(30, 0, 36_500, "Days after a session's end at which cleanup removes its old outputs.")
    cleanup: str = _word(
        "off",
        ("on", "off"),
        "Whether a project's own stack cleans up daily; a scheduler that somebody starts always does.",
    )
    max_blob_bytes: int = _number(16 << 20, 1, 512 << 20, "Largest single item of context; a server stores 512 MiB.")
    max_output_bytes: int = _number(256 << 20, 1, 16 << 30, "Largest output of a run.")
    history_bytes: int = _number(16_384, 0, 16 << 20, "Most of the conversation that a run is handed; 0 is none of it.")
    wait_replicas: int = _number(0, 0, 16, "Replicas that must have a write before it counts as done.")
    log_level: str = _word(
        "warning", ("debug", "info", "warning", "error", "critical"), "Least severe event that is logged.", PROJECT
    )
    debug: bool = _setting("flag", False, "Show tracebacks and keep tools' stderr.", "true or false")
    #: Setting → "default", "env MAESTRO_X", a file's path or "command line".
    sources: dict[str, str]
    #: What the project's file sets but may not before it is trusted.
    ignored: list[str]

    def __init__(self, values: Mapping[str, Any], sources: Mapping[str, str], ignored: list[str]) -> None:
        """Take what is set, validated; the rest is as the table says."""
        for name, rule in RULES.items():
            default = rule.default() if callable(rule.default) else rule.default
            self.__dict__[name] = values.get(name, default)
        self.__dict__["sources"] = {name: sources.get(name, DEFAULT) for name in RULES}
        self.__dict__["ignored"] = ignored

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: what was validated stays."""
        raise AttributeError(f"{name} is a setting and does not change")


RULES: dict[str, Rule] = {name: rule for name, rule in vars(Settings).items() if isinstance(rule, Rule)}
NAMES = tuple(RULES)
VARIABLES = {PREFIX + name.upper(): name for name in NAMES}
#: Never stored, shown masked.
SECRETS = frozenset(name for name in NAMES if RULES[name].kind == "address")
#: Not cached: each is read again where it came from, and `check` is all the validation it has.
FRESH = SECRETS.union(name for name in NAMES if RULES[name].scope == TERMINAL)


class SettingsFile(NamedTuple):
    """A settings file as it was at one moment: what is validated is exactly what was judged."""

    path: str
    content: bytes
    scope: str  #: PROJECT, TRUSTED or PERSON: what it may set


class Given(NamedTuple):
    """All that settings are made from."""

    root: str | None
    files: list[SettingsFile]  #: the user's last, which counts before the project's
    env: Mapping[str, str]
    overrides: Mapping[str, Any]


class Resolved(NamedTuple):
    """Validated values, where each came from, and what an untrusted file may not set."""

    values: dict[str, Any]
    sources: dict[str, str]
    ignored: list[str]


def load_settings(
    project_root: str | os.PathLike[str] | None, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Gather, validate and return all settings; an override of None counts as not given.

    Raises ConfigError: one line that names the setting, its source and what is allowed.
    """
    root = None if project_root is None else os.path.abspath(project_root)
    chosen = {name: value for name, value in (overrides or {}).items() if value is not None}
    given = Given(root, _read_files(root, env), env, chosen)
    known = _recall(given)
    settings = None if known is None else _complete(known, given)
    if settings is not None:
        return settings
    from maestro_state.local.settings_cache import remember
    from maestro_state.local.settings_validation import resolve

    result = resolve(given)
    remember(given, result)
    return Settings(*result)


def describe(settings: Settings) -> list[dict[str, Any]]:
    """List every setting with its value and source, fit to be shown: secrets are masked."""
    return [
        {"name": name, "value": _shown(name, getattr(settings, name)), "source": settings.sources[name]}
        for name in NAMES
    ]


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """List the MAESTRO_* variables that set nothing: most often a typing mistake."""
    return sorted(name for name in env if name.startswith(PREFIX) and name not in VARIABLES)


def check(name: str, value: object) -> str:
    """Return a text or address in its final form, without pydantic's help; raise ValueError with the reason."""
    if not isinstance(value, str):
        raise ValueError("must be text")
    if name not in SECRETS:
        if not value.isprintable() or not 0 < len(value) <= 128:
            raise ValueError("must be 1 to 128 printable characters")
        return value
    from maestro_state.net.url import parse_url

    try:
        address = parse_url(value)
    except ConfigError as error:
        raise ValueError(f"{error}; {error.hint}" if error.hint else str(error)) from None
    if name == "queue_url" and address.scheme == "redis+cluster":
        raise ValueError("the queue does not run on a cluster; use redis://, rediss://, unix:// or redis+sentinel://")
    return value.strip()


def _read_files(root: str | None, env: Mapping[str, str]) -> list[SettingsFile]:
    files = []
    project = None if root is None else read_with_trust(root, SETTINGS_FILE, env)
    if root is not None and project is not None:
        scope = TRUSTED if project.trusted else PROJECT
        files.append(SettingsFile(os.path.join(root, SETTINGS_FILE), project.content, scope))
    home = config_home(env)
    path = None if home is None else os.path.join(home, "maestro", "settings.toml")
    try:
        content = None if path is None else read_user_file(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="it must be a readable file") from error
    if path is not None and content is not None:
        files.append(SettingsFile(path, content, PERSON))
    return files


def _recall(given: Given) -> Resolved | None:
    """Return what needs no validation, FRESH settings aside."""
    sources = {name: f"env {variable}" for variable, name in VARIABLES.items() if given.env.get(variable)}
    sources |= dict.fromkeys(given.overrides, COMMAND_LINE)
    if not given.files and FRESH.issuperset(sources):
        return Resolved({}, sources, [])
    from maestro_state.local.settings_cache import recall

    return recall(given)


def _complete(known: Resolved, given: Given) -> Settings | None:
    """Add what is always read afresh; None when that is not valid (the validating side explains it best)."""
    try:
        fresh = {
            name: check(name, _raw(name, known.sources[name], given)) for name in FRESH.intersection(known.sources)
        }
    except ValueError:
        return None
    return Settings(known.values | fresh, known.sources, known.ignored)


def _raw(name: str, source: str, given: Given) -> object:
    if source == COMMAND_LINE:
        return given.overrides[name]
    if source.startswith("env "):
        return given.env[source.removeprefix("env ")]
    from tomllib import loads

    return next(loads(file.content.decode())[name] for file in given.files if file.path == source)


def _shown(name: str, value: Any) -> Any:
    if name not in SECRETS or value is None:
        return value
    from maestro_state.net.url import masked

    return masked(value)
