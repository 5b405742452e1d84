"""The AI tools that can be given a server: where each keeps its list of them, and what an entry looks like there. Pure.

A file that is changed keeps everything else in it; taken out again, it is what it was before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maestro_state.errors import FileCorrupt
from maestro_state.local.settings import VARIABLES
from maestro_state.mcp.json_text import JsonText

NAME = "maestro"
SCOPES = ("project", "user")

#: A JSON file that was made for nothing else than our entry, without it.
_NOTHING = "{}\n"
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
        path = project / self.project_file if scope == "project" else self._users_file(environment)
        with_comments = path.with_suffix(".jsonc")
        return with_comments if self.name == "opencode" and with_comments.exists() else path

    def has_folder(self, scope: str) -> bool:
        """Tell whether its list is in a folder that is there for nothing else than this tool."""
        return "/" in self.project_file or (scope == "user" and self.name == "opencode")

    def _users_file(self, environment: Mapping[str, str]) -> Path:
        home = Path(environment.get("HOME") or "~").expanduser()
        match self.name:
            case "claude":
                return Path(environment.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
            case "codex":
                return Path(environment.get("CODEX_HOME") or home / ".codex") / "config.toml"
            case "opencode":
                return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "opencode/opencode.json"
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
            case "qwen":  # else a model is told that there are such tools only when it searches for them
                return {"command": command[0], "args": command[1:], "alwaysLoadTools": True}
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
        if not isinstance(self.document.get(key, {}).get(NAME, {}), dict):
            raise self._damaged(f"{key}.{NAME} is no table")

    def _damaged(self, reason: str) -> FileCorrupt:
        return FileCorrupt(f"{self.path} cannot be read ({reason}), so it was not changed", hint="correct it first")

    def _read(self, text: str) -> Any:
        raise NotImplementedError

    def entry(self) -> dict[str, Any] | None:
        """Return what it says of our server."""
        found: dict[str, Any] | None = self.document.get(self.key, {}).get(NAME)
        return found

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our server; what somebody added to that, as that it may be called unasked, stays."""
        raise NotImplementedError

    def drop(self) -> str:
        """Return its text without it; nothing when nothing is left."""
        raise NotImplementedError


class Json(Listed):
    """A JSON file, with or without comments, of which only our own entry is touched."""

    def _read(self, text: str) -> Any:
        try:
            self._places = JsonText(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None
        return self._places.document

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our server: where it is, else the last of the list."""
        places = self._places if self.text.strip() else JsonText(_NOTHING)
        wanted = {**(self.entry() or {}), **entry}
        if wanted == self.entry():
            return self.text
        return self._checked(places.put((self.key, NAME), wanted), {**self.document.get(self.key, {}), NAME: wanted})

    def drop(self) -> str:
        """Return its text without it, and without a list that is empty then."""
        if self.entry() is None:
            return self.text
        servers = {name: one for name, one in self.document[self.key].items() if name != NAME}
        after = self._checked(self._places.drop((self.key, NAME)), servers)
        return "" if after == _NOTHING else after

    def _checked(self, text: str, servers: dict[str, Any]) -> str:
        """Return a text that says what it should; FileCorrupt when it does not, as when a name is in it twice."""
        others = {name: value for name, value in self.document.items() if name != self.key}
        try:
            found = JsonText(text).document
        except ValueError:
            found = {}
        if {**found, self.key: found.get(self.key, {})} != {**others, self.key: servers}:
            raise self._damaged(f"{self.key}.{NAME} is written in a way that cannot be replaced")
        return text


class Toml(Listed):
    """A TOML file, of which only the lines of our own table are touched."""

    def _read(self, text: str) -> Any:
        import tomllib

        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None

    def put(self, entry: dict[str, Any]) -> str:
        """Return its text with our table: where it is, else at the end."""
        there = self.entry()
        if there is None:
            lines = [f"[{self.key}.{NAME}]\n", *(_line(name, value) for name, value in entry.items())]
            return self._checked(self.text + ("\n" if self.text else "") + "".join(lines), {NAME: entry})
        written: list[str] = []
        for table, part in self._parts():
            if table != "":
                written.append(part)
                continue
            missing = dict(entry)
            for name, said in _assignments(part):
                if name is None or name not in missing:
                    written.append(said)
                else:
                    wanted = missing.pop(name)
                    written.append(said if there.get(name) == wanted else _line(name, wanted))
            written += [_line(name, value) for name, value in missing.items()]
        return self._checked("".join(written), {NAME: {**there, **entry}})

    def drop(self) -> str:
        """Return its text without our table and those below it; comments that follow them stay."""
        if self.entry() is None:
            return self.text
        written = ""
        for table, part in self._parts():
            if table is not None and written.endswith("\n\n"):
                written = written[:-1]  # the empty line before it
            written += part if table is None else "".join(_ending(part))
        if self.text.startswith(f"{written}["):  # it began without one: what is before it ended without a line's end
            written = written.removesuffix("\n")
        return self._checked(written, {})

    def _parts(self) -> Iterator[tuple[str | None, str]]:
        """Yield the text from header to header: with nothing for our own table, a name for one below it, else None."""
        header = re.compile(rf"^\[(?:{self.key}\.{NAME}(\.[^\]]*)?\])?", re.MULTILINE)
        found = [*header.finditer(self.text)]
        ends = [*(one.start() for one in found), len(self.text)]
        yield None, self.text[: ends[0]]
        for one, end in zip(found, ends[1:], strict=True):
            yield None if one[0] == "[" else one[1] or "", self.text[one.start() : end]

    def _checked(self, text: str, wanted: dict[str, Any]) -> str:
        """Return a text that says what it should and nothing else has changed in; FileCorrupt when it is not so."""
        others = {name: one for name, one in self.document.get(self.key, {}).items() if name != NAME}
        after = {**self.document, self.key: {**others, **wanted}}
        found = self._read(text)
        if {**found, self.key: found.get(self.key, {})} != after:
            raise self._damaged(f"{self.key}.{NAME} is written in a way that cannot be replaced")
        return text


def _line(name: str, value: Any) -> str:
    return f"{name} = {json.dumps(value)}\n"


def _assignments(part: str) -> Iterator[tuple[str | None, str]]:
    """Yield what a table says, name by name, as it is written; lines that say nothing have no name."""
    import tomllib

    name, said = None, ""
    for line in part.splitlines(keepends=True):
        if not said:
            found = re.match(r"\s*([A-Za-z0-9_-]+)\s*=", line)
            name = found[1] if found else None
        said += line
        try:
            if name is not None:
                tomllib.loads(said)
        except ValueError:
            continue  # it goes on in the next line
        yield name, said
        said = ""
    if said:
        yield name, said


def _ending(part: str) -> list[str]:
    """Return the lines that follow what a table says."""
    ending: list[str] = []
    for name, said in _assignments(part):
        ending = [] if name is not None or said.lstrip().startswith("[") else [*ending, said]
    return ending
