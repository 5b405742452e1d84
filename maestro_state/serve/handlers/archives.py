"""Sessions on disk: written now, verified, pulled, exported as a file to keep."""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

import msgspec
from starlette.responses import Response, StreamingResponse

from maestro_state.net.threads import in_thread
from maestro_state.serve.request import document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from maestro_state.mirror.leaks import Leak
    from maestro_state.mirror.verify import Report
    from maestro_state.serve.request import Request

_TYPES = {"md": "text/markdown; charset=utf-8", "json": "application/json"}
#: Bytes of a download that are read at a time.
_PIECE = 256 * 1024


async def sync_session(request: Request) -> Response:
    """Write a session to disk now."""
    return document(await request.maestro.archive.checkpoint(request.ref))


async def verify_session(request: Request) -> Response:
    """Check every digest of a session's archive; one that is not on disk yet is written first."""
    room = request.maestro.archive
    report = await room.verify(request.ref)
    return _verified(report, await room.secrets(request.ref) if request.body.secrets else None)


async def verify_all(request: Request) -> Response:
    """Check every archive of the project."""
    room = request.maestro.archive
    report = await room.verify_all()
    return _verified(report, await room.secrets_all() if request.body.secrets else None)


def _verified(report: Report, leaks: list[Leak] | None) -> Response:
    shown: dict[str, Any] = msgspec.structs.asdict(report)
    return document(shown if leaks is None else shown | {"secrets": leaks})


async def pull_session(request: Request) -> Response:
    """Bring an archived session from the team's disk into the project that is served."""
    return document(await request.maestro.archive.pull(request.ref))


async def export_session(request: Request) -> Response:
    """Download a session's whole history as one file; nothing is left on the server."""
    form, redact = request.query.format, request.query.redact
    session_id = await request.maestro.sessions.resolve(request.ref)
    file = cast(BinaryIO, await in_thread(tempfile.TemporaryFile))
    try:
        await request.maestro.archive.write_export(file, session_id, form=form, redact=redact)
        size = await in_thread(file.tell)
        await in_thread(file.seek, 0)
    except BaseException:
        file.close()
        raise
    # What is in the file is nobody's page: it is saved, never shown.
    headers = {
        "content-disposition": _saved_as(f"{session_id}.{form}"),
        "content-length": str(size),
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return StreamingResponse(_pieces(file), 200, headers, _TYPES[form])


def _saved_as(name: str) -> str:
    """Return under which name a browser saves it. An id has letters, digits and dashes, but of any script."""
    if name.isascii():
        return f'attachment; filename="{name}"'
    plain = "".join(char if char.isascii() else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while piece := await in_thread(file.read, _PIECE):
            yield piece
    finally:
        file.close()
