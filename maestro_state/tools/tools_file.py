"""`.maestro/config/tools.json`: what was found of each tool, when. It may have come with the repository, so a
path in it is shown, and used only while the user trusts the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from maestro_state.errors import ConfigError, FileCorrupt
from maestro_state.local.project import Project
from maestro_state.local.trust import TOOLS_FILE, keep_trust, read_with_trust
from maestro_state.models.undecodable import UNDECODABLE

OK, WARN, MISSING = "ok", "warn", "missing"


class ToolRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool in the file."""

    name: str
    path: str | None = None
    last_check: str | None = None
    status: str | None = None  #: ok, warn or missing; none before the first check
    notes: str | None = None


class ToolsFile(msgspec.Struct, frozen=True):
    """The file."""

    tools: list[ToolRow]


def read_rows(project: Project, env: Mapping[str, str] | None = None) -> tuple[list[ToolRow], bool]:
    """Return the rows and whether the user trusts the file; no rows when there is none."""
    file = read_with_trust(project.root, TOOLS_FILE, env)
    return ([], False) if file is None else (_decoded(file.content), file.trusted)


def _decoded(content: bytes) -> list[ToolRow]:
    try:
        return msgspec.json.decode(content, type=ToolsFile).tools
    except UNDECODABLE as error:
        raise FileCorrupt(f"{TOOLS_FILE} is damaged ({error})", hint=f"remove {TOOLS_FILE}") from error


def trusted_paths(project: Project, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return tool → program, as far as the user trusts what the file says.

    One that nobody trusts, or that is not even a file, has no say: neither in what is run nor in whether anything is.
    """
    try:
        file = read_with_trust(project.root, TOOLS_FILE, env)
    except ConfigError:
        return {}
    if file is None or not file.trusted:
        return {}
    return {row.name: row.path for row in _decoded(file.content) if row.path and os.path.isabs(row.path)}


def write_rows(project: Project, checked: Iterable[ToolRow], env: Mapping[str, str] | None = None) -> list[ToolRow]:
    """Put what was found into the file, beside what else it says; return all of it."""
    with project.folder("config", create=True) as folder, folder.locked(".tools.lock"):
        rows, trusted = read_rows(project, env)
        merged = {row.name: row for row in rows} | {row.name: row for row in checked}
        content = msgspec.json.format(msgspec.json.encode(ToolsFile(list(merged.values()))), indent=2) + b"\n"
        if trusted:
            keep_trust(project.root, TOOLS_FILE, content, env)
        folder.replace("tools.json", content, mode=0o644)
    return list(merged.values())
