"""Giving a tool the server for one start only: by its own words for that, or by variables and a file that is private to
this start. Its configuration stays as it is. Pure, but for reading what the variables named before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maestro_state.fs.opening import open_regular
from maestro_state.mcp.hosts import HOSTS, NAME

#: Variable that names a file of settings which count least, and where it is without: everything else stays. Gemini has
#: one too, and takes only what an administrator owns.
_DEFAULTS = ("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "/etc/qwen-code/system-defaults.json")
#: Largest file of settings that is read.
_LARGEST = 8 << 20


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """What one start of a tool is given besides."""

    words: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    content: str | None = None  #: of a private file,
    mark: str | None = None  #: which is here
    reason: str | None = None  #: why it is not given the server


def launch_config(tool: str, command: list[str], environment: Mapping[str, str], path: str) -> LaunchConfig:
    """Return how a tool is given the server for one start; `path` is where a private file may be made."""
    if tool not in HOSTS:
        return LaunchConfig(reason=f"{tool} takes no MCP servers")
    entry = HOSTS[tool].entry(command)
    servers = {HOSTS[tool].key: {NAME: entry}}
    if tool == "claude":
        # With "=": it takes every word that follows for one more configuration.
        return LaunchConfig(words=[f"--mcp-config={json.dumps(servers)}"])
    if tool == "codex":
        table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in entry.items())
        return LaunchConfig(words=["-c", f"mcp_servers.{NAME}={{{table}}}"])
    if tool == "opencode":
        return _opencode(servers, environment, path)
    if tool == "gemini":
        return LaunchConfig(reason="it takes servers only from its settings (maestro mcp install gemini puts it there)")
    variable, usual = _DEFAULTS
    place = environment.get(variable) or usual
    document = _read(place)
    if document is None:
        return LaunchConfig(reason=f"{place} has more than JSON in it")
    return LaunchConfig(variables={variable: path}, content=json.dumps(_merged(document, servers)), mark=path)


def _opencode(servers: dict[str, Any], environment: Mapping[str, str], path: str) -> LaunchConfig:
    if not environment.get("OPENCODE_CONFIG"):
        # Its log names the file that it read: by that the conversations of this start are found.
        return LaunchConfig(variables={"OPENCODE_CONFIG": path}, content=json.dumps(servers), mark=path)
    said = _object(environment.get("OPENCODE_CONFIG_CONTENT") or "{}")
    if said is None:
        return LaunchConfig(reason="OPENCODE_CONFIG_CONTENT has more than JSON in it")
    return LaunchConfig(variables={"OPENCODE_CONFIG_CONTENT": json.dumps(_merged(said, servers))})


def _merged(document: dict[str, Any], servers: dict[str, Any]) -> dict[str, Any]:
    ((key, added),) = servers.items()
    there = document.get(key)
    return {**document, key: {**(there if isinstance(there, dict) else {}), **added}}


def _read(path: str) -> dict[str, Any] | None:
    try:
        with os.fdopen(open_regular(path), encoding="utf-8") as file:
            return _object(file.read(_LARGEST))
    except UnicodeDecodeError:
        return None
    except OSError:
        return {}


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
