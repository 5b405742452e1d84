"""Sessions as wholes: list, start, show, end, abort, fork, delete, and the tool and the fields they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import Response

from maestro_state.errors import Conflict, RunsOpen
from maestro_state.models.session import SETTABLE
from maestro_state.serve.request import Failure, check_command, document
from maestro_state.serve.schemas.common import PAGE_MAX

if TYPE_CHECKING:
    from maestro_state.models.session import Session
    from maestro_state.serve.request import Request


async def list_sessions(request: Request) -> Response:
    """List sessions, last active first."""
    query, sessions = request.query, request.maestro.sessions
    wanted: dict[str, Any] = {"state": query.state, "user": query.user, "everything": query.all}
    if query.limit or query.cursor:
        rows = await sessions.page(query.limit or PAGE_MAX, query.cursor, **wanted)
    else:
        rows = await sessions.list(**wanted)
    answer: dict[str, Any] = {"sessions": [row.document() for row in rows], "cursor": rows.cursor}
    answer |= {"older": rows.older} if rows.older else {}
    return document(answer | ({"next": rows.cursor} if rows.cursor else {}))


def _made(session: Session) -> Response:
    return document(session, 201, {"location": f"/v1/sessions/{quote(session.id)}"})


async def start_session(request: Request) -> Response:
    """Start a session; it does not become the active one of a checkout."""
    check_command(request, request.body.tool)
    return _made(await request.maestro.sessions.start(activate=False, **request.fields))


async def show_session(request: Request) -> Response:
    """Show where a session stands."""
    return document(await request.maestro.sessions.status(request.ref))


async def delete_session(request: Request) -> Response:
    """Remove a session from the server and the disk; those of others only as an admin."""
    session = await request.maestro.sessions.read(request.ref)
    if request.caller.role != "admin" and session.user_id != request.caller.user:
        raise Failure(403, "forbidden", f"{session.id} is {session.user_id}'s", "ask for a token with --admin")
    return document({"deleted": await request.maestro.sessions.delete(session.id, trash=request.query.trash)})


async def end_session(request: Request) -> Response:
    """Finish a session: frozen, archived; open runs are waited for, or canceled, first if that is said."""
    said = request.body
    if said.cancel and said.wait:
        raise Failure(400, "usage", "open runs are canceled or waited for, not both", "leave out wait, or cancel")
    session_id = await request.maestro.sessions.resolve(request.ref)
    while True:
        if said.cancel or said.wait:
            await request.maestro.runs.settle(session_id, cancel=said.cancel)
        try:
            return document(await request.maestro.sessions.end(session_id, archive=said.archive))
        except RunsOpen:
            if not (said.cancel or said.wait):
                raise


async def abort_session(request: Request) -> Response:
    """Give a session up."""
    return document(await request.maestro.sessions.abort(request.ref, **request.fields))


async def fork_session(request: Request) -> Response:
    """Start a new session from this one."""
    return _made(await request.maestro.sessions.fork(request.ref, request.body.name, activate=False))


async def use_tool(request: Request) -> Response:
    """Choose the tool that runs of a session use, and how it is called."""
    check_command(request, request.body.tool, request.body.arguments)
    return document(await request.maestro.tools.use(ref=request.ref, **request.fields))


async def get_field(request: Request) -> Response:
    """Read a field with its revision, which is its ETag."""
    found = await request.maestro.sessions.get(_field(request), request.ref)
    return document(found, 200, {"etag": f'"{found.revision}"'})


async def set_field(request: Request) -> Response:
    """Set a field; with If-Match only if nobody changed it since."""
    name, wanted = _field(request), request.headers.get("if-match")
    revision = None if wanted is None or wanted.strip() == "*" else _revision(wanted)
    value: Any = request.body.value
    try:
        found = await request.maestro.sessions.set(name, value, request.ref, if_revision=revision)
    except Conflict as error:
        raise Failure(412, error.code, str(error), "read it again, then set it with its ETag") from error
    return document(found, 200, {"etag": f'"{found.revision}"'})


def _field(request: Request) -> str:
    name = request.path["field"]
    if name not in SETTABLE:
        raise Failure(404, "not_found", f"there is no field '{name[:40]}'", f"one of {', '.join(SETTABLE)}")
    return name


def _revision(tag: str) -> int:
    number = tag.strip().removeprefix('"').removesuffix('"')
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise Failure(412, "conflict", "the ETag in If-Match is none that a field has", "read the field for its ETag")
    return int(number)
