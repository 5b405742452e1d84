"""Every setting: its meaning, bounds and default, and how the sources add up.

Importing this costs what pydantic costs. Programs call `settings_cache.load_settings`, which comes here only
when it has not seen the same settings before. Nothing else reads MAESTRO_* variables or settings files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping  # pydantic may look at annotations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic.config import JsonDict  # as above
from pydantic_settings import BaseSettings, SettingsConfigDict

from maestro_state.errors import ConfigError
from maestro_state.fs.private import login_name, read_user_file
from maestro_state.local.settings_cache import COMMAND_LINE, DEFAULT, PREFIX, check
from maestro_state.local.trust import SETTINGS_FILE, read_with_trust

_DAY = 86_400
_TEN_YEARS = 3650 * _DAY


def _no_truth_values(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _on_or_off(value: object) -> object:
    if isinstance(value, bool):
        return "on" if value else "off"
    return _lower(value)


def _absolute(value: str) -> str:
    # A relative one would mean another folder in each terminal.
    if not os.path.isabs(value) or "\0" in value:
        raise ValueError("must be an absolute path")
    return value


_Number = Annotated[int, BeforeValidator(_no_truth_values)]
_Path = Annotated[str, AfterValidator(_absolute)]
_Switch = Annotated[Literal["on", "off"], BeforeValidator(_on_or_off)]
_Level = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)]


def _checked(name: str) -> AfterValidator:
    return AfterValidator(lambda value: check(name, value))


_ENDPOINTS = "redis://, rediss://, unix://, redis+sentinel://"
_SECRET: JsonDict = {"secret": True, "allowed": _ENDPOINTS}
_PATH: JsonDict = {"allowed": "an absolute path"}
_ENV_ONLY: JsonDict = {"env_only": True, "allowed": "1 to 128 printable characters"}
#: A project's file may set it before anybody has trusted that file. Only for what decides neither what is kept, nor
#: under whose name, nor which program, folder or server is used; whatever does not say so needs trust.
_PROJECT: JsonDict = {"project": True}


class MaestroSettings(BaseSettings):
    """The settings of Maestro; MAESTRO_<NAME> in the environment, <name> in a settings file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    redis_url: Annotated[str, _checked("redis_url")] | None = Field(
        None,
        description="Address of the state server; without one a private server is started for the project.",
        repr=False,
        json_schema_extra=_SECRET | {"allowed": f"{_ENDPOINTS}, redis+cluster://"},
    )
    queue_url: Annotated[str, _checked("queue_url")] | None = Field(
        None,
        description="Address of the queue's server, where it is not the state server (never a cluster).",
        repr=False,
        json_schema_extra=_SECRET,
    )
    namespace: str = Field(
        "maestro",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        description="First part of every key on the server.",
        json_schema_extra={"allowed": "1 to 64 letters, digits, '_', '.' or '-', a letter or digit first"},
    )
    user: Annotated[str, _checked("user")] = Field(
        default_factory=login_name,
        description="Who the changes are by; the login name unless set.",
        json_schema_extra={"allowed": "1 to 128 printable characters"},
    )
    session: Annotated[str, _checked("session")] | None = Field(
        None, description="Session this terminal is pinned to.", json_schema_extra=_ENV_ONLY
    )
    cookie: Annotated[str, _checked("cookie")] | None = Field(
        None, description="Work session that runs leave their breadcrumbs in.", json_schema_extra=_ENV_ONLY
    )
    tool: Annotated[str, _checked("tool")] | None = Field(
        None, description="Tool that runs asked for in this terminal use.", json_schema_extra=_ENV_ONLY
    )
    archive_root: _Path | None = Field(
        None, description="Folder of the archive; else the project's .maestro.", json_schema_extra=_PATH
    )
    server_binary: _Path | None = Field(
        None, description="Redis or Valkey program to run as the private server.", json_schema_extra=_PATH
    )
    notify: str | None = Field(
        None,
        pattern=r"^[^\x00-\x1f\x7f]{1,1024}$",
        description="Command that is told when a run ends, with --notify; a project's file never sets it.",
        json_schema_extra={"user_only": True, "allowed": "a command line of 1 to 1024 printable characters"},
    )
    ttl_seconds: _Number = Field(
        7 * _DAY, ge=1, le=_TEN_YEARS, description="Time without activity after which a session expires."
    )
    idle_after_seconds: _Number = Field(
        900,
        ge=1,
        le=_TEN_YEARS,
        description="Time without activity after which a session counts as idle.",
        json_schema_extra=_PROJECT,
    )
    checkpoint_seconds: _Number = Field(
        60, ge=1, le=_DAY, description="Longest time a change of a live session stays unwritten to disk."
    )
    dirty_grace_seconds: _Number = Field(
        30 * _DAY,
        ge=0,
        le=_TEN_YEARS,
        description="How much longer the server keeps what is not on disk.",
    )
    run_timeout_seconds: _Number = Field(
        3600, ge=1, le=30 * _DAY, description="Longest time a run may take.", json_schema_extra=_PROJECT
    )
    workers: _Number = Field(
        8,
        ge=1,
        le=256,
        description="Runs that the embedded stack carries out at once, at most.",
        json_schema_extra=_PROJECT,
    )
    stop_grace_seconds: _Number = Field(
        60, ge=0, le=_DAY, description="Time that a worker told to stop gives the run under way to end."
    )
    stack_idle_seconds: _Number = Field(
        1800,
        ge=1,
        le=365 * _DAY,
        description="Time without use after which the private server stops.",
        json_schema_extra=_PROJECT,
    )
    retention_days: _Number = Field(
        30, ge=0, le=36_500, description="Days after a session's end at which cleanup removes its old outputs."
    )
    cleanup: _Switch = Field(
        "off",
        description="Whether a project's own stack cleans up daily; a scheduler that somebody starts always does.",
        json_schema_extra={"allowed": "on or off"},
    )
    max_blob_bytes: _Number = Field(
        16 << 20, ge=1, le=512 << 20, description="Largest single item of context; a server stores 512 MiB."
    )
    max_output_bytes: _Number = Field(256 << 20, ge=1, le=16 << 30, description="Largest output of a run.")
    history_bytes: _Number = Field(
        16_384, ge=0, le=16 << 20, description="Most of the conversation that a run is handed; 0 is none of it."
    )
    wait_replicas: _Number = Field(
        0, ge=0, le=16, description="Replicas that must have a write before it counts as done."
    )
    log_level: _Level = Field(
        "warning",
        description="Least severe event that is logged.",
        json_schema_extra=_PROJECT | {"allowed": "debug, info, warning, error or critical"},
    )
    debug: bool = Field(
        False,
        description="Show tracebacks and keep tools' stderr.",
        json_schema_extra={"allowed": "true or false"},
    )


class Resolved(NamedTuple):
    """Validated values, where each came from, what was left out, and the digest of each file read."""

    values: dict[str, Any]
    sources: dict[str, str]
    ignored: list[str]
    digests: dict[str, str]


def resolve(
    project_root: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any], user_file: str | None
) -> Resolved:
    """Read the sources, of which the first wins: command line, environment, user's file, project's, default.

    Raises ConfigError.
    """
    digests: dict[str, str] = {}
    found: dict[str, tuple[Any, str]] = {}
    ignored: list[str] = []
    if project_root is not None:
        ignored = _add_project_file(project_root, env, found, digests)
    content = None if user_file is None else _read_user_file(user_file)
    if user_file is not None and content is not None:
        found.update(_read_table(user_file, content, digests))
    for name in MaestroSettings.model_fields:
        variable = PREFIX + name.upper()
        if env.get(variable):
            found[name] = (env[variable], f"env {variable}")
    for name, value in overrides.items():
        _refuse_unknown(name, COMMAND_LINE)
        # A caller's Path is as good as its text, which is what a setting holds.
        found[name] = (os.fspath(value) if isinstance(value, Path) else value, COMMAND_LINE)
    sources = {name: found[name][1] if name in found else DEFAULT for name in MaestroSettings.model_fields}
    return Resolved(_validate(found), sources, ignored, digests)


def _validate(found: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    # Every field is passed, so that nothing is left to look up in this process's own environment.
    fields = MaestroSettings.model_fields
    complete = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    complete.update({name: value for name, (value, _) in found.items()})
    try:
        return MaestroSettings(**complete).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(first["loc"][0])
        value, source = found[name]
        if _mark(name, "secret"):
            problem = first["msg"].removeprefix("Value error, ")
        else:
            problem = f"{_excerpt(value)} is not valid; allowed: {_allowed(name)}"
        # Not chained: what pydantic says may hold the value.
        raise ConfigError(
            f"{name} ({source}): {problem}", hint="maestro config shows where each setting comes from"
        ) from None


def _add_project_file(
    project_root: Path, env: Mapping[str, str], found: dict[str, tuple[Any, str]], digests: dict[str, str]
) -> list[str]:
    """Take from the project's file what it may say, and return the names of what it may not before it is trusted."""
    file = read_with_trust(project_root, SETTINGS_FILE, env)
    if file is None:
        return []
    table = _read_table(os.path.join(os.path.abspath(project_root), SETTINGS_FILE), file.content, digests)
    ignored = sorted(name for name in table if _mark(name, "user_only") or not (file.trusted or _mark(name, "project")))
    found.update({name: entry for name, entry in table.items() if name not in ignored})
    return ignored


def _read_user_file(path: str) -> bytes | None:
    try:
        return read_user_file(path)
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise ConfigError(reason, hint="it must be a readable file") from error


def _read_table(path: str, content: bytes, digests: dict[str, str]) -> dict[str, tuple[Any, str]]:
    """Return the file's settings as name → (value, path)."""
    import tomllib
    from hashlib import sha256

    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8, or too deep"
        # Not chained: the parser's error may hold the whole text.
        raise ConfigError(f"{path} is not valid TOML: {reason}", hint="one NAME = VALUE per line") from None
    for name in table:
        _refuse_unknown(name, path)
        if _mark(name, "env_only"):
            raise ConfigError(
                f"{name} ({path}): a file cannot set it, it belongs to one terminal",
                hint=f"set {PREFIX}{name.upper()} there",
            )
    digests[path] = sha256(content).hexdigest()
    return {name: (value, path) for name, value in table.items()}


def _refuse_unknown(name: str, source: str) -> None:
    if name in MaestroSettings.model_fields:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, MaestroSettings.model_fields, n=1)
    hint = f"did you mean {near[0]}?" if near else "maestro config lists the settings"
    raise ConfigError(f"{_excerpt(name)} ({source}): there is no such setting", hint=hint)


def _mark(name: str, mark: str) -> Any:
    extra = MaestroSettings.model_fields[name].json_schema_extra
    return extra.get(mark) if isinstance(extra, dict) else None


def _allowed(name: str) -> str:
    bounds = {type(part).__name__: part for part in MaestroSettings.model_fields[name].metadata}
    if "Ge" in bounds and "Le" in bounds:
        return f"a whole number from {bounds['Ge'].ge} to {bounds['Le'].le}"
    return str(_mark(name, "allowed"))


def _excerpt(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "…"
