"""Budgets: read by everybody, changed by admins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maestro_state.serve.request import document

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request


async def list_budgets(request: Request) -> Response:
    """List budgets with what is left of each, and who set it."""
    return document({"budgets": await request.maestro.budgets.list()})


async def set_budget(request: Request) -> Response:
    """Set the limit of a user, a session or everyone, in the place of the one there was."""
    return document(await request.maestro.budgets.set(**request.fields))


async def remove_budget(request: Request) -> Response:
    """Remove the limits of a user, a session or everyone: all of them, or those that are named."""
    said = request.query
    removed = await request.maestro.budgets.remove(
        session=said.session, user=said.user, everyone=said.everyone, period=said.period, unit=said.unit
    )
    return document({"removed": removed})
