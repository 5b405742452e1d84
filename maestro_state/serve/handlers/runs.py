"""Runs: start, follow, wait for, cancel, list and read them."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import Response

from maestro_state.models.run import OPEN
from maestro_state.net.threads import in_thread
from maestro_state.serve.pagination import page
from maestro_state.serve.request import check_command, document
from maestro_state.serve.schemas.contents import EventDocument

if TYPE_CHECKING:
    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.models.run import Run
    from maestro_state.serve.request import Request


async def list_runs(request: Request) -> Response:
    """List runs."""
    runs = await request.maestro.runs.list(request.ref)
    shown, more = page(runs, request.query, lambda run: (run.id.rjust(24),))
    return document({"runs": shown, **more})


async def start_run(request: Request) -> Response:
    """Ask a tool; the answer comes as events, and as the run's output."""
    said, maestro = request.body, request.maestro
    check_command(request, said.tool, said.arguments)
    session_id = await maestro.sessions.resolve(request.ref)
    if said.refresh:
        await maestro.context.refresh(ref=session_id)
    if said.cookie:
        await maestro.work.read(said.cookie)  # one that nobody knows fails now, not when the tool has done its work
    await in_thread(_call_worker, maestro)
    run = await maestro.runs.start(
        said.prompt,
        session_id,
        **_how(said),
        timeout_s=said.timeout_s,
        retries=said.retries,
        cookie=said.cookie,
        dry=said.dry,
        priority=said.priority,
        labels=said.labels,
        terminal="http",
        traceparent=request.headers.get("traceparent", ""),
        idempotency_key=request.key(),
    )
    if run.status in OPEN and said.wait_s:
        run = await _waited(request, run, session_id)
    return document(run, 201, {"location": f"/v1/sessions/{quote(session_id)}/runs/{run.id}"})


def _how(said: Any) -> dict[str, Any]:
    """Return how a tool is asked, whether it is or only would be."""
    how = {name: getattr(said, name) for name in ("tool", "model", "mode", "arguments", "continues", "history")}
    return how | {"piped": None if said.piped is None else said.piped.encode()}


def _call_worker(maestro: AsyncMaestro) -> None:
    maestro.blocking.runs.handover.awaits_stack = maestro.settings.redis_url is None


async def _waited(request: Request, run: Run, session_id: str) -> Run:
    runs = request.maestro.runs
    try:
        async with request.app.waits.at_most(request.body.wait_s):
            return await runs.wait(run, session_id)
    except TimeoutError:
        return await runs.read(run.id, session_id)


async def preview_run(request: Request) -> Response:
    """Show what a run started now would execute and be sent; nothing is recorded."""
    said = request.body
    check_command(request, said.tool, said.arguments)
    preview = await request.maestro.runs.preview(said.prompt, request.ref, **_how(said))
    return document({"argv": preview.argv, "stdin": preview.stdin.decode(errors="replace")})


async def show_run(request: Request) -> Response:
    """Show how a run goes, or went."""
    return document({"run": await request.maestro.runs.read(request.path["run"], request.ref)})


async def show_output(request: Request) -> Response:
    """Show what a run printed; to who accepts only text/plain, exactly its bytes."""
    run = await request.maestro.runs.read(request.path["run"], request.ref)
    removed = run.removed_at or (run.output_ref.removed_at if run.output_ref else None)
    output = None if removed else await request.maestro.runs.output(run.id, request.ref)
    if request.headers.get("accept", "").startswith("text/plain"):
        told = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(output or b"", 200, told, "text/plain; charset=utf-8")
    return document({"run": run, "output": None if output is None else output.decode(errors="replace")})


async def show_prompt(request: Request) -> Response:
    """Show what a run was asked."""
    run = await request.maestro.runs.read(request.path["run"], request.ref)
    prompt = await request.maestro.runs.prompt(run, request.ref)
    return document({"run": run, "prompt": prompt.decode(errors="replace")})


async def show_sent(request: Request) -> Response:
    """Show what a run was sent of the context."""
    run = await request.maestro.runs.read(request.path["run"], request.ref)
    return document({"run": run, "context": await request.maestro.runs.sent(run.id, request.ref)})


async def show_activity(request: Request) -> Response:
    """Show what a run's agent did so far: calls of its tools, files it changed, tries, refusals."""
    run = await request.maestro.runs.read(request.path["run"], request.ref)
    found = await request.maestro.runs.activity(run.id, request.ref)
    return document({"run": run, "activity": [EventDocument.of(event) for event in found]})


async def cancel_run(request: Request) -> Response:
    """Cancel a run; `last` is the newest open one."""
    return document(await request.maestro.runs.cancel(request.path["run"], request.ref))


async def wait_for_runs(request: Request) -> Response:
    """Answer when runs are over, or the time is: those that are over, and the numbers of those that are not."""
    room = request.maestro.runs
    session_id = await request.maestro.sessions.resolve(request.ref)
    await request.maestro.sessions.read(session_id)
    if request.query.runs:
        waited = [(await room.read(name.strip(), session_id)).id for name in request.query.runs.split(",")]
    else:
        waited = [run.id for run in await room.list(session_id) if run.status in OPEN]
    ended: list[Run] = []
    if waited:
        found: Any = room.wait_each(waited, session_id)
        try:
            async with request.app.waits.at_most(max(0.01, request.query.timeout_s)), aclosing(found) as ending:
                async for run in ending:
                    ended.append(run)
        except TimeoutError:
            pass  # those that are open are said to be
    over = {run.id for run in ended}
    return document({"runs": ended, "open": [number for number in dict.fromkeys(waited) if number not in over]})
