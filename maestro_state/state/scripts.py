"""Read lua/: resolve includes, parse headers, name keys and arguments. The only place that knows the Lua files.

A script opens with a header of five lines (purpose, KEYS, ARGV, RETURNS, INCLUDES). From it the loader writes the
`local` lines that name keys and arguments, and the states the script may be called in, so that nothing in Lua is
numbered and no state is spelled there. Scripts are read when first used: a command pays for the one it needs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from maestro_state.errors import ScriptError
from maestro_state.models.schema import SCHEMA
from maestro_state.state.keys import NAMES
from maestro_state.vocabulary import DISCUSSION_TRANSITIONS, TRANSITIONS, WORK_TRANSITIONS

LUA_FOLDER = os.path.join(os.path.dirname(__file__), "lua")

_HEADER = re.compile(
    r"\A--\[\[\n(?P<name>\w+): (?P<purpose>.+?)\n"
    r"KEYS     (?P<group>\w+): (?P<keys>[\w ]+)\n"
    r"ARGV     (?P<argv>-|[\w .]+)\n"
    r"RETURNS  (?P<returns>.+)\n"
    r"INCLUDES (?P<includes>-|[\w ]+)\n\]\]\n",
    re.DOTALL,
)


class Script(msgspec.Struct, frozen=True):
    """One Lua file, ready to be sent."""

    name: str
    group: str  #: which group of keys it is called with
    keys: tuple[str, ...]  #: the keys it touches by name
    argv: tuple[str, ...]  #: names of its arguments; a last one ending in ... takes the rest
    returns: tuple[str, ...]  #: the words it answers with
    body: str
    sha: str


class Call(msgspec.Struct, frozen=True):
    """One script call as a value: what to run, on which keys, with which arguments, how to read the answer."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Any, ...]
    read: Callable[[list[Any]], Any]


class Query(msgspec.Struct, frozen=True):
    """One plain read as a value."""

    command: tuple[Any, ...]
    read: Callable[[Any], Any]


def _preamble(name: str, group: str, keys: tuple[str, ...], argv: tuple[str, ...]) -> str:
    """Write the lines that give keys, arguments and state steps their names."""
    lines = [f"local {key} = KEYS[{NAMES[group].index(key) + 1}]" for key in keys]
    for position, argument in enumerate(argv, start=1):
        if argument.endswith("..."):
            lines.append(f"local {argument[:-3]} = {{unpack(ARGV, {position})}}")
        else:
            lines.append(f"local {argument} = ARGV[{position}]")
    lines.append(f"local SCHEMA = {SCHEMA}")
    if allowed := TRANSITIONS.get(name) or DISCUSSION_TRANSITIONS.get(name) or WORK_TRANSITIONS.get(name):
        # A string is searched faster than a table is built, and every call builds anew.
        lines.append(f"local ALLOWED = ' {' '.join(allowed)} '")
    return "\n".join(lines)


def _read(*parts: str) -> str:
    with open(os.path.join(LUA_FOLDER, *parts), encoding="utf-8") as file:
        return file.read()


def _words(text: str) -> tuple[str, ...]:
    """Split a header line; a lone dash says that there is nothing."""
    return () if text == "-" else tuple(text.split())


@cache
def load(name: str) -> Script:
    """Read one script; raise ScriptError when its header does not say what it must."""
    import hashlib  # a command that only reads needs no script, and not the 5 ms of this

    text = _read(f"{name}.lua")
    header = _HEADER.match(text)
    if header is None or header["name"] != name:
        raise ScriptError(f"lua/{name}.lua does not open with its header")
    keys, argv, includes = map(_words, header.group("keys", "argv", "includes"))
    parts = [_preamble(name, header["group"], keys, argv)]
    for include in includes:
        parts.append(_read("includes", f"{include}.lua").strip())
    parts.append(text[header.end() :].strip())
    body = "\n".join(parts) + "\n"
    return Script(
        name=name,
        group=header["group"],
        keys=keys,
        argv=argv,
        returns=tuple(word.split()[0] for word in header["returns"].replace("\n", " ").split("|")),
        body=body,
        sha=hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest(),
    )


def names() -> list[str]:
    """List every script there is."""
    return sorted(name.removesuffix(".lua") for name in os.listdir(LUA_FOLDER) if name.endswith(".lua"))
