"""Documents: what commands print with `--json`, asked for over HTTP. Each verb is one call of a room."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from maestro_state import __version__
from maestro_state.errors import Conflict, InvalidValue, MaestroError, RunsOpen
from maestro_state.models.session import SETTABLE
from maestro_state.serve.asked import Failure, document

if TYPE_CHECKING:
    from maestro_state.models.session import Session, SessionSummary
    from maestro_state.serve.asked import Asked


async def health(asked: Asked) -> Response:
    """Whether it serves, and its server answers."""
    try:
        await asked.maestro.server.connection.call("PING")
    except MaestroError:
        return document({"status": "unavailable", "version": __version__}, 503)
    return document({"status": "ok", "version": __version__})


async def openapi(asked: Asked) -> Response:
    """This document."""
    return document(asked.app.openapi)


async def list_sessions(asked: Asked) -> Response:
    """List sessions, last active first."""
    query = asked.query
    rows = await asked.maestro.sessions.list(state=query.state, user=query.user, everything=query.all)
    after = _place(query.cursor) if query.cursor else None
    found = [row for row in rows if after is None or _key(row) < after]
    shown = found[: query.limit] if query.limit else found
    answer: dict[str, Any] = {"sessions": [row.document() for row in shown]}
    if rows.older:
        answer["older"] = rows.older
    if len(shown) < len(found):
        answer["next"] = urlsafe_b64encode("\n".join(_key(shown[-1])).encode()).decode().rstrip("=")
    return document(answer)


def _key(row: SessionSummary) -> tuple[str, str]:
    return row.updated_at, row.id


def _place(cursor: str) -> tuple[str, str]:
    try:
        text = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)).decode()
        updated_at, session_id = text.split("\n")
    except ValueError:
        raise InvalidValue("the cursor is none that a list answered", hint="begin without one") from None
    return updated_at, session_id


def _made(session: Session) -> Response:
    return document(session, 201, {"location": f"/v1/sessions/{session.id}"})


async def start_session(asked: Asked) -> Response:
    """Start a session."""
    said = asked.body
    return _made(
        await asked.maestro.sessions.start(
            said.name,
            note=said.note,
            ttl_seconds=said.ttl_seconds,
            tool=said.tool,
            task_id=said.task_id,
            working_directory=said.working_directory,
            activate=False,
        )
    )


async def show_session(asked: Asked) -> Response:
    """Show where a session stands."""
    return document(await asked.maestro.sessions.status(asked.ref))


async def delete_session(asked: Asked) -> Response:
    """Remove a session from the server and the disk; those of others only as an admin."""
    session = await asked.maestro.sessions.read(asked.ref)
    if asked.caller.role != "admin" and session.user_id != asked.caller.user:
        raise Failure(403, "forbidden", f"{session.id} is {session.user_id}'s", "ask for a token with --role admin")
    return document({"deleted": await asked.maestro.sessions.delete(session.id, trash=asked.query.trash)})


async def end_session(asked: Asked) -> Response:
    """Finish a session: frozen, archived; with `cancel` its open runs are canceled first."""
    session_id = await asked.maestro.sessions.resolve(asked.ref)
    while True:
        if asked.body.cancel:
            await asked.maestro.runs.settle(session_id, cancel=True)
        try:
            return document(await asked.maestro.sessions.end(session_id, archive=asked.body.archive))
        except RunsOpen:
            if not asked.body.cancel:
                raise


async def abort_session(asked: Asked) -> Response:
    """Give a session up."""
    said = asked.body
    return document(await asked.maestro.sessions.abort(asked.ref, reason=said.reason, archive=said.archive))


async def fork_session(asked: Asked) -> Response:
    """Start a new session from this one."""
    return _made(await asked.maestro.sessions.fork(asked.ref, asked.body.name, activate=False))


async def read_messages(asked: Asked) -> Response:
    """Read messages: the last 20, the last N, or those after one."""
    query, room = asked.query, asked.maestro.messages
    if query.for_model:
        found = await room.for_model(asked.ref)
    elif query.since is not None:
        found = await room.since(query.since, asked.ref)
        found = found[-query.last :] if query.last else found
    else:
        found = await room.last(query.last or 20, asked.ref)
    return document({"messages": [one.document() for one in found]})


async def add_message(asked: Asked) -> Response:
    """Add a message."""
    said = asked.body
    added = await asked.maestro.messages.add(
        said.role,
        said.content,
        asked.ref,
        metadata=said.metadata,
        tool_calls=said.tool_calls,
        tool_results=said.tool_results,
        parent_id=said.parent_id,
        idempotency_key=asked.once(),
    )
    by = {"user": asked.caller.user} if asked.caller.user else {}
    return document(added.document() | by, 201)


async def list_context(asked: Asked) -> Response:
    """List what runs are sent along."""
    return document({"items": await asked.maestro.context.list(asked.ref, everything=asked.query.all)})


async def add_context(asked: Asked) -> Response:
    """Add files of the project, or a text."""
    said = asked.body
    paths = [*([said.path] if said.path is not None else []), *(said.paths or [])]
    if bool(paths) == (said.text is not None):
        raise InvalidValue("context is a path or a text", hint='send {"path": …} or {"text": …}')
    kind, things = ("file", paths) if paths else ("text", [said.text])
    added = await asked.maestro.context.add(
        *things, ref=asked.ref, kind=kind, labels=said.labels, note=said.note, folder=asked.maestro.project.checkout
    )
    return document(added, 201)


async def show_item(asked: Asked) -> Response:
    """Show an item of context with its content."""
    item, content = await asked.maestro.context.show(asked.path["item"], asked.ref)
    try:
        return document({"item": item, "content": content.decode()})
    except UnicodeDecodeError:
        return document({"item": item, "content_base64": b64encode(content).decode()})


async def remove_item(asked: Asked) -> Response:
    """Take an item out of what runs are sent along."""
    return document({"items": await asked.maestro.context.remove(asked.path["item"], ref=asked.ref)})


async def list_runs(asked: Asked) -> Response:
    """List runs."""
    return document({"runs": await asked.maestro.runs.list(asked.ref)})


async def start_run(asked: Asked) -> Response:
    """Ask a tool; the answer comes as events, and as the run's output."""
    said = asked.body
    session_id = await asked.maestro.sessions.resolve(asked.ref)
    run = await asked.maestro.runs.start(
        said.prompt,
        session_id,
        tool=said.tool,
        model=said.model,
        mode=said.mode,
        continues=said.continues,
        history=said.history,
        timeout_s=said.timeout_s,
        dry=said.dry,
        terminal="http",
        idempotency_key=asked.once(),
    )
    return document(run, 201, {"location": f"/v1/sessions/{session_id}/runs/{run.id}"})


async def show_run(asked: Asked) -> Response:
    """Show how a run goes, or went."""
    return document({"run": await asked.maestro.runs.read(asked.path["run"], asked.ref)})


async def show_output(asked: Asked) -> Response:
    """Show what a run printed; to who accepts only text/plain, exactly its bytes."""
    run = await asked.maestro.runs.read(asked.path["run"], asked.ref)
    removed = run.removed_at or (run.output_ref.removed_at if run.output_ref else None)
    output = None if removed else await asked.maestro.runs.output(run.id, asked.ref)
    if asked.headers.get("accept", "").startswith("text/plain"):
        told = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return Response(output or b"", 200, told, "text/plain; charset=utf-8")
    return document({"run": run, "output": None if output is None else output.decode(errors="replace")})


async def cancel_run(asked: Asked) -> Response:
    """Cancel a run."""
    return document(await asked.maestro.runs.cancel(asked.path["run"], asked.ref))


async def get_field(asked: Asked) -> Response:
    """Read a field with its revision, which is its ETag."""
    found = await asked.maestro.sessions.get(_field(asked), asked.ref)
    return document(found, 200, {"etag": f'"{found.revision}"'})


async def set_field(asked: Asked) -> Response:
    """Set a field; with If-Match only if nobody changed it since."""
    name, wanted = _field(asked), asked.headers.get("if-match")
    revision = None if wanted is None or wanted.strip() == "*" else _revision(wanted)
    try:
        found = await asked.maestro.sessions.set(name, asked.body.value, asked.ref, if_revision=revision)
    except Conflict as error:
        raise Failure(412, error.code, str(error), "read it again, then set it with its ETag") from error
    return document(found, 200, {"etag": f'"{found.revision}"'})


def _field(asked: Asked) -> str:
    name = asked.path["field"]
    if name not in SETTABLE:
        raise Failure(404, "not_found", f"there is no field '{name[:40]}'", f"one of {', '.join(SETTABLE)}")
    return name


def _revision(tag: str) -> int:
    number = tag.strip().removeprefix('"').removesuffix('"')
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise Failure(412, "conflict", "the ETag in If-Match is none that a field has", "read the field for its ETag")
    return int(number)


async def search(asked: Asked) -> Response:
    """Find what was said, asked and answered, in all sessions."""
    room: Any = getattr(asked.maestro, "search", None)
    if room is None:
        raise Failure(503, "unavailable", "this Maestro has no search", "update it")
    return document(await room.find(asked.query.q, limit=asked.query.limit, live=asked.query.live))


async def usage(asked: Asked) -> Response:
    """Add up what runs consumed."""
    return document(await asked.maestro.usage(by=asked.query.by, since=asked.query.since))


async def list_tools(asked: Asked) -> Response:
    """List the AI tools."""
    return document({"tools": await asked.maestro.tools.list()})
