"""What the shell offers on TAB: the sessions this checkout knows and the tools of the catalogue. Starts no server."""

from __future__ import annotations

import click


def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the sessions of the local index, newest first."""
    del param
    from maestro_state.errors import MaestroError
    from maestro_state.project import Project, find_root

    folder = ctx.find_root().params.get("project") or "."
    try:
        rows = Project(find_root(folder)).index()
    except (MaestroError, OSError):
        return []  # while completing is no time to tell what is wrong
    rows.sort(key=lambda row: row.updated_at, reverse=True)
    return [row.id for row in rows if row.id.startswith(incomplete)]


def tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Offer the catalogue."""
    del ctx, param
    from maestro_state.catalog.tools import TOOLS

    return [tool.name for tool in TOOLS if tool.name.startswith(incomplete)]
