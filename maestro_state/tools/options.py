"""Model, mode and arguments of a call: what a tool can be asked for, and what wins where several say something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from maestro_state.errors import InvalidValue
from maestro_state.models.run import ToolOptions

if TYPE_CHECKING:
    from maestro_state.tools.tool import Tool

#: How much a tool may do, least first.
MODES = ("read", "edit", "full")

#: Longest name of a model, and most that a tool is handed on beside it, in characters.
_MODEL_MAX = 200
_ARGUMENTS_MAX = 4096


class Mode(msgspec.Struct, frozen=True):
    """One mode of one tool."""

    words: tuple[str, ...]  #: says it to the tool
    allows: str  #: what the tool may do then, in plain words


def options_of(tool: Tool) -> str | None:
    """Return what a command line said besides the program, as the record of a session keeps it."""
    return msgspec.json.encode(ToolOptions(arguments=list(tool.arguments))).decode() if tool.arguments else None


def combined(said: ToolOptions, defaults: ToolOptions | None) -> ToolOptions:
    """Return what counts: what is said now, else the default; arguments said now come behind, where they win."""
    if defaults is None:
        return said
    return ToolOptions(
        model=said.model or defaults.model,
        mode=said.mode or defaults.mode,
        arguments=[*defaults.arguments, *said.arguments],
    )


def check_options(tool: Tool, options: ToolOptions) -> None:
    """Refuse what the tool cannot be asked for, before it is called."""
    if options.model is not None:
        _check_model(tool, options.model)
    if options.mode is not None:
        _check_mode(tool, options.mode)
    if arguments := [*tool.arguments, *options.arguments]:
        _check_arguments(tool, arguments)


def _check_model(tool: Tool, model: str) -> None:
    if not tool.model_flag:
        own = "say it in its command line" if not tool.entry else "leave --model out"
        raise InvalidValue(f"{tool.name[:80]} cannot be told a model", hint=own)
    if not model.isprintable() or not 0 < len(model) <= _MODEL_MAX or model.startswith("-"):
        raise InvalidValue(f"{model!r:.60} is not the name of a model")


def _check_mode(tool: Tool, mode: str) -> None:
    if mode not in MODES:
        raise InvalidValue(f"there is no mode '{mode[:40]}'", hint=f"one of {', '.join(MODES)}")
    if mode in tool.modes:
        return
    if not tool.entry:
        raise InvalidValue(
            f"'{tool.name[:80]}' is a command line, for which Maestro knows no modes", hint="say it in its own words"
        )
    known = ", ".join(tool.modes)
    raise InvalidValue(f"{tool.entry} has no mode {mode}", hint=f"it has {known}" if known else "leave --mode out")


def _check_arguments(tool: Tool, arguments: list[str]) -> None:
    if sum(map(len, arguments)) > _ARGUMENTS_MAX or any("\0" in one for one in arguments):
        raise InvalidValue(f"a tool's arguments have no NUL and at most {_ARGUMENTS_MAX} characters")
    own = {_spelled(flag) for flag in tool.own_flags}
    for one in arguments:
        if _spelled(one.partition("=")[0]) in own:
            raise InvalidValue(
                f"{one[:40]} is for Maestro to say: it reads what {tool.entry} prints", hint="leave it out"
            )


def check_no_secret(*words: str) -> None:
    """Refuse a command line that carries a password or key: it would be stored, archived and shown."""
    from maestro_state.local.logs import redact_text

    if any(redact_text(one) != one for one in (*words, " ".join(words))):
        raise InvalidValue(
            "the command line holds what looks like a secret, and would be stored",
            hint="put it into an environment variable and pass that with: maestro run --env NAME",
        )


def _spelled(flag: str) -> str:
    """Return a flag as all its spellings are: some tools also take --outputFormat, or a --no- before it."""
    if not flag.startswith("--"):
        return flag
    return "--" + flag[2:].removeprefix("no-").replace("-", "").replace("_", "").lower()
