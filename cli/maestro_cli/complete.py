"""What the shell offers on TAB: paths, the sessions this checkout knows, tools, fields, and the runs and items that the
last checkpoint wrote to disk. Starts no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a path by its own rules."""
    return [_left_to_shell(incomplete, "file")]


def folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [_left_to_shell(incomplete, "dir")]


def _left_to_shell(incomplete: str, kind: str) -> CompletionItem:
    from click.shell_completion import CompletionItem

    return CompletionItem(incomplete, type=kind)


def sessions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the sessions of the local index, newest first."""
    from maestro_state.errors import MaestroError
    from maestro_state.local.project import Project
    from maestro_state.models.names import is_session_id

    folder = ctx.find_root().params.get("project") or "."
    try:
        rows = Project.at(folder).index()
    except (MaestroError, OSError):
        return []  # while completing is no time to tell what is wrong
    rows.sort(key=lambda row: row.updated_at, reverse=True)
    # The index may be untrusted: what is no id never reaches the shell.
    return [row.id for row in rows if row.id.startswith(incomplete) and is_session_id(row.id)]


def tools(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from maestro_state.tools.catalogue import TOOLS

    return [tool.name for tool in TOOLS if tool.name.startswith(incomplete)]


def modes(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [mode for mode in ("read", "edit", "full") if mode.startswith(incomplete)]


def fields(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from maestro_state.models.session import SETTABLE

    return [name for name in SETTABLE if name.startswith(incomplete)]


def runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the runs of the session, newest first."""
    found = {path.split("/")[1] for path in _on_disk(ctx, "runs")}
    return [run_id for run_id in sorted(found, reverse=True) if run_id.startswith(incomplete)]


def items(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the items of the session, removed ones too."""
    found = {path.rpartition("/")[2].removesuffix(".json") for path in _on_disk(ctx, "context/items")}
    return [item_id for item_id in sorted(found) if item_id.startswith(incomplete)]


def _on_disk(ctx: click.Context, folder: str) -> list[str]:
    """Return the files of a folder of the session this terminal is on, as the last checkpoint wrote them."""
    from maestro_state import Maestro
    from maestro_state.errors import MaestroError
    from maestro_state.models.names import pick

    options = ctx.find_root().params
    try:
        with Maestro(options.get("project"), session=options.get("session_ref")) as maestro:
            ref = maestro.pinned or maestro.project.active()
            rows = sorted(maestro.project.index(), key=lambda row: row.updated_at, reverse=True)
            return maestro.places.files(pick(ref, [row.id for row in rows]), folder) if ref else []
    except (MaestroError, OSError):
        return []
