"""The AI tools that can be given a server: where each keeps its list of them, and what an entry looks like there. Pure.

A file that is changed keeps everything else in it; taken out again, it is what it was before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maestro_state.errors import FileCorrupt
from maestro_state.local.settings import VARIABLES

NAME = "maestro"
SCOPES = ("project", "user")

#: What codex is asked to hand on: it gives its servers next to nothing of its own environment.
HANDED_ON = (*sorted(VARIABLES), "XDG_CONFIG_HOME", "XDG_STATE_HOME")


@dataclass(frozen=True, slots=True)
class Host:
    """One tool."""

    name: str
    project_file: str  #: seen from the project's top folder
    key: str = "mcpServers"  #: what the list is called
    own_command: bool = False  #: the user's list is in a file that a running tool rewrites: it has to do it itself

    def file(self, scope: str, project: Path, environment: Mapping[str, str]) -> Path:
        """Return where its list is."""
        return project / self.project_file if scope == "project" else self._users_file(environment)

    def _users_file(self, environment: Mapping[str, str]) -> Path:
        home = Path(environment.get("HOME") or "~").expanduser()
        match self.name:
            case "claude":
                return Path(environment.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
            case "codex":
                return Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml"
            case "opencode":
                folder = Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
                with_comments = folder / "opencode.jsonc"
                return with_comments if with_comments.exists() else folder / "opencode.json"
        return home / self.project_file

    def entry(self, command: list[str]) -> dict[str, Any]:
        """Return what is written of the server."""
        match self.name:
            case "claude":
                return {"type": "stdio", "command": command[0], "args": command[1:], "env": {}}
            case "codex":
                return {"command": command[0], "args": command[1:], "env_vars": list(HANDED_ON)}
            case "opencode":
                return {"type": "local", "command": command, "enabled": True}
        return {"command": command[0], "args": command[1:]}

    def adding(self, command: list[str], scope: str) -> list[str]:
        """Return the tool's own command that adds the server."""
        match self.name:
            case "claude":
                return ["claude", "mcp", "add", "--scope", scope, NAME, "--", *command]
            case "codex" | "opencode":
                return [self.name, "mcp", "add", NAME, "--", *command]
        return [self.name, "mcp", "add", "-s", scope, NAME, *command]

    def removing(self, scope: str) -> list[str]:
        """Return the tool's own command that takes it out; only of those that do it by themselves."""
        return [self.name, "mcp", "remove", "--scope", scope, NAME]

    @property
    def form(self) -> type[Listed]:
        """Return how its file is written."""
        return Toml if self.name == "codex" else Json


HOSTS = {
    host.name: host
    for host in (
        Host("claude", ".mcp.json", own_command=True),
        Host("codex", ".codex/config.toml", key="mcp_servers"),
        Host("gemini", ".gemini/settings.json"),
        Host("qwen", ".qwen/settings.json"),
        Host("opencode", "opencode.json", key="mcp"),
    )
}


class Listed:
    """A file with a list of servers."""

    def __init__(self, path: str, key: str, text: str) -> None:
        """Read it; FileCorrupt when it is not of its form."""
        self.path, self.key, self.text = path, key, text
        self.document = self._read(text) if text.strip() else {}
        if not isinstance(self.document, dict) or not isinstance(self.document.get(key, {}), dict):
            raise self._damaged("not a table of settings")

    def _damaged(self, reason: str) -> FileCorrupt:
        return FileCorrupt(f"{self.path} cannot be read ({reason}), so it was not changed", hint="correct it first")

    def _read(self, text: str) -> Any:
        raise NotImplementedError

    def entry(self) -> dict[str, Any] | None:
        """Return what it says of our server."""
        found: dict[str, Any] | None = self.document.get(self.key, {}).get(NAME)
        return found

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our server."""
        raise NotImplementedError

    def drop(self) -> str:
        """Return its text without it; nothing when nothing is left."""
        raise NotImplementedError


class Json(Listed):
    """A JSON file, written with the indent it has."""

    def _read(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"{error}; comments cannot be kept") from None

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our server, the last of the list."""
        servers = {name: one for name, one in self.document.get(self.key, {}).items() if name != NAME}
        return self._written({**self.document, self.key: {**servers, NAME: entry}})

    def drop(self) -> str:
        """Return its text without it, and without a list that is empty then."""
        servers = {name: one for name, one in self.document.get(self.key, {}).items() if name != NAME}
        rest = {name: value for name, value in self.document.items() if name != self.key}
        left = {**self.document, self.key: servers} if servers else rest
        return self._written(left) if left else ""

    def _written(self, document: dict[str, Any]) -> str:
        found = re.search(r'\n([ \t]+)"', self.text)
        end = "\n" if self.text.endswith("\n") or not self.text else ""
        return json.dumps(document, indent=found[1] if found else 2, ensure_ascii=False) + end


class Toml(Listed):
    """A TOML file, of which only the lines of our own table are touched."""

    def _read(self, text: str) -> Any:
        import tomllib

        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our table at the end."""
        before = self.drop()
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        lines = [f"[{self.key}.{NAME}]", *(f"{name} = {json.dumps(value)}" for name, value in entry.items())]
        return self._checked(f"{before}{gap}" + "\n".join(lines) + "\n", {NAME: entry})

    def drop(self) -> str:
        """Return its text without our table, and without the empty line before it."""
        if self.entry() is None:
            return self.text
        header = re.compile(rf"\n?^\[{self.key}\.{NAME}(?:\.[^\]]*)?\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
        return self._checked(header.sub("", self.text), {})

    def _checked(self, text: str, wanted: dict[str, Any]) -> str:
        """Return a text that says what it should and nothing else has changed in; FileCorrupt when it is not so."""
        others = {name: one for name, one in self.document.get(self.key, {}).items() if name != NAME}
        after = {**self.document, self.key: {**others, **wanted}}
        found = self._read(text)
        if {**found, self.key: found.get(self.key, {})} != after:
            raise self._damaged(f"{self.key}.{NAME} is written in a way that cannot be replaced")
        return text
