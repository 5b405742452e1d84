"""What the sources say, validated by pydantic-settings against the table of `settings`.

Importing this costs what pydantic costs: only `load_settings` does, for settings that it has not seen before.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from maestro_state.errors import ConfigError
from maestro_state.local.settings import (
    COMMAND_LINE,
    NAMES,
    PERSON,
    PREFIX,
    PROJECT,
    RULES,
    SECRETS,
    TERMINAL,
    TRUSTED,
    VARIABLES,
    Given,
    Resolved,
    Rule,
    Settings,
    SettingsFile,
    check,
)
from maestro_state.models.folders import parse_folders

#: What a file of this scope may set.
_MAY_SET = {PROJECT: {PROJECT}, TRUSTED: {PROJECT, TRUSTED}, PERSON: {PROJECT, TRUSTED, PERSON}}

#: Setting → what it is set to, and by what.
_Found = dict[str, tuple[Any, str]]


class _Base(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)


def _no_truth_values(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def _spelled(value: object) -> object:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value.lower() if isinstance(value, str) else value


def _one_of(words: tuple[str, ...], value: str) -> str:
    if value not in words:
        raise ValueError("no such word")
    return value


def _absolute(value: str) -> str:
    # A relative one would mean another folder in each terminal.
    if not os.path.isabs(value) or "\0" in value:
        raise ValueError("must be an absolute path")
    return value


def _folders(value: str) -> str:
    parse_folders(value)
    return value


def _type(name: str, rule: Rule) -> Any:
    match rule.kind:
        case "number":
            least, most = rule.bounds
            return Annotated[int, BeforeValidator(_no_truth_values), Field(ge=least, le=most)]
        case "flag":
            return bool
        case "word":
            return Annotated[str, BeforeValidator(_spelled), AfterValidator(partial(_one_of, rule.words))]
        case "path":
            return Annotated[str, AfterValidator(_absolute)]
        case "folders":
            return Annotated[str, AfterValidator(_folders)]
    if rule.pattern:
        return Annotated[str, Field(pattern=rule.pattern)]
    return Annotated[str, AfterValidator(partial(check, name))]


_DEFAULTS = {name: getattr(Settings({}, {}, []), name) for name in NAMES}
_TYPES = {name: _type(name, rule) for name, rule in RULES.items()}
_FIELDS: dict[str, Any] = {
    name: (_TYPES[name] | None if default is None else _TYPES[name], default) for name, default in _DEFAULTS.items()
}
MaestroSettings = create_model("MaestroSettings", __base__=_Base, **_FIELDS)


def resolve(given: Given) -> Resolved:
    """Add up the sources, of which the first wins: command line, environment, user's file, project's, default.

    Raises ConfigError.
    """
    found: _Found = {}
    ignored: list[str] = []
    for file in given.files:
        table = _read_table(file)
        refused = [name for name in table if RULES[name].scope not in _MAY_SET[file.scope]]
        found |= {name: (value, file.path) for name, value in table.items() if name not in refused}
        ignored += sorted(refused)
    for variable, name in VARIABLES.items():
        if given.env.get(variable):
            found[name] = (given.env[variable], f"env {variable}")
    for name, value in given.overrides.items():
        _refuse_unknown(name, COMMAND_LINE)
        # A caller's Path is as good as its text, which is what a setting holds.
        found[name] = (os.fspath(value) if isinstance(value, Path) else value, COMMAND_LINE)
    return Resolved(_validate(found), {name: source for name, (_, source) in found.items()}, ignored)


def _validate(found: _Found) -> dict[str, Any]:
    # Every field is passed, so that nothing is left to look up in this process's own environment.
    complete = _DEFAULTS | {name: value for name, (value, _) in found.items()}
    try:
        return MaestroSettings(**complete).model_dump(include=set(found))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(first["loc"][0])
        value, source = found[name]
        if name in SECRETS:
            problem = first["msg"].removeprefix("Value error, ")
        else:
            problem = f"{_excerpt(value)} is not valid; allowed: {RULES[name].allowed}"
        # Not chained: what pydantic says may hold the value.
        raise ConfigError(
            f"{name} ({source}): {problem}", hint="maestro config shows where each setting comes from"
        ) from None


def _read_table(file: SettingsFile) -> dict[str, Any]:
    import tomllib

    try:
        table = tomllib.loads(file.content.decode())
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8, or too deep"
        # Not chained: the parser's error may hold the whole text.
        raise ConfigError(f"{file.path} is not valid TOML: {reason}", hint="one NAME = VALUE per line") from None
    for name in table:
        _refuse_unknown(name, file.path)
        if RULES[name].scope == TERMINAL:
            raise ConfigError(
                f"{name} ({file.path}): a file cannot set it, it belongs to one terminal",
                hint=f"set {PREFIX}{name.upper()} there",
            )
    return table


def _refuse_unknown(name: str, source: str) -> None:
    if name in RULES:
        return
    from difflib import get_close_matches

    near = get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else "maestro config lists the settings"
    raise ConfigError(f"{_excerpt(name)} ({source}): there is no such setting", hint=hint)


def _excerpt(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "…"
