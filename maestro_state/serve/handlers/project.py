"""What spans sessions: health, search, usage, tools, set-up, upkeep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from maestro_state import __version__
from maestro_state.errors import MaestroError, NoProject
from maestro_state.local.settings import describe
from maestro_state.serve.request import document

if TYPE_CHECKING:
    from starlette.responses import Response

    from maestro_state.serve.request import Request


#: Seconds that the state server has to answer: a probe waits for five.
_PING_S = 4.0


async def health(request: Request) -> Response:
    """Whether it serves, and its server answers."""
    try:
        async with asyncio.timeout(_PING_S):
            await request.maestro.server.connection.call("PING")
    except NoProject:
        pass  # the first session begins it, and starts its server
    except (MaestroError, TimeoutError):
        return document({"status": "unavailable", "version": __version__}, 503)
    return document({"status": "ok", "version": __version__})


async def openapi(request: Request) -> Response:
    """This document."""
    return document(request.app.openapi)


async def search(request: Request) -> Response:
    """Find what was said, asked and answered, in all sessions."""
    query = request.query
    found = await request.maestro.search.find(
        query.q,
        limit=query.limit,
        kinds=query.kind.split(",") if query.kind else (),
        session=query.session,
        live=query.live,
        since=query.since,
        rank=query.rank,
    )
    return document(found)


async def rebuild_search(request: Request) -> Response:
    """Make the index of what sessions say anew, from the archives; takes as long as reading all of them."""
    return document(await request.maestro.search.rebuild())


async def usage(request: Request) -> Response:
    """Add up what runs consumed."""
    return document(await request.maestro.usage(by=request.query.by, since=request.query.since))


async def list_tools(request: Request) -> Response:
    """List the AI tools, and what the last check found."""
    return document({"tools": await request.maestro.tools.list()})


async def check_tools(request: Request) -> Response:
    """Ask tools for their version, on the machine that serves; takes a few seconds."""
    return document({"tools": await request.maestro.tools.check(request.body.name)})


async def find_on_workers(request: Request) -> Response:
    """Tell which workers have a tool; nothing is started."""
    return document({"tools": await request.maestro.tools.check_workers(request.query.name)})


async def show_workers(request: Request) -> Response:
    """List the workers with what each has; count those that listen, and the jobs that none has taken yet."""
    queue = request.maestro.queue
    try:
        rows = await request.maestro.workers.list()
    except NoProject:  # the first session begins it: until then there is nothing to carry out
        return document({"workers": [], "listening": 0, "waiting": 0})
    shown = [msgspec.structs.asdict(one) | {"projects": one.projects} for one in rows]
    return document({"workers": shown, "listening": await queue.workers(), "waiting": await queue.waiting()})


async def show_stack(request: Request) -> Response:
    """Tell whether the embedded server runs, and where."""
    return document(await request.maestro.stack.status())


async def doctor(request: Request) -> Response:
    """Check the server, the disk and the set-up."""
    return document({"checks": await request.maestro.health.checks()})


async def repair(request: Request) -> Response:
    """Set what is damaged aside, and check again."""
    done = await request.maestro.health.repair()
    return document({"checks": await request.maestro.health.checks(), "repaired": done})


async def show_config(request: Request) -> Response:
    """Show every setting and where it came from; secrets are masked."""
    return document({"settings": describe(request.maestro.settings)})


async def cleanup(request: Request) -> Response:
    """Remove outputs and dry runs of sessions ended long ago, and old logs."""
    return document(await request.maestro.archive.cleanup(**request.fields))


async def sweep(request: Request) -> Response:
    """Checkpoint, finalize and recover all sessions once."""
    return document(await request.maestro.sweep(thorough=request.body.thorough))
