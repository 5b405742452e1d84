"""Importing what `maestro export` wrote, and archives in zips: each file by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from maestro_state.errors import FileCorrupt, InvalidValue, MaestroError, PathNotFound
from maestro_state.histories.lines import open_history
from maestro_state.local.project import IndexRow
from maestro_state.mirror.exported import DOCUMENT_MAX, Document, read_json, read_page, write_document
from maestro_state.mirror.places import Places
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.zipped import read_zip
from maestro_state.models.imports import Imported, ImportedTokens, ImportFailure, ImportReport
from maestro_state.models.run import Run
from maestro_state.upkeep.archive_lock import once_unlocked

#: Ending of a file → what it is.
KINDS = {".json": "export", ".md": "page", ".zip": "archive"}


def is_exported(path: str) -> bool:
    """Tell whether a path is of a file that is taken back."""
    return os.path.splitext(path)[1].lower() in KINDS


def take_back(
    places: Places, paths: Sequence[str], *, now: str, is_live: Callable[[str], bool], dry_run: bool = False
) -> ImportReport:
    """Make archived sessions of exported documents and zipped archives. One that is here already stays as it is, on
    disk or on the server: `is_live` tells of one that is not over in this project.
    """
    for path in paths:
        if not is_exported(path):
            raise InvalidValue(f"{path} is no export", hint="a file that ends with .json, .md or .zip")
        if not os.path.exists(path):
            raise PathNotFound(f"{path} is not there", hint="maestro export writes such files")
    rows, errors = [], []
    for path in paths:
        try:
            rows.append(_taken(places, os.path.abspath(path), now, is_live, dry_run=dry_run))
        except (MaestroError, OSError) as error:
            errors.append(ImportFailure.of(path, error))
    return ImportReport(imported=rows, errors=errors, dry_run=dry_run)


def _taken(places: Places, path: str, now: str, is_live: Callable[[str], bool], *, dry_run: bool) -> Imported:
    kind = KINDS[os.path.splitext(path)[1].lower()]
    home = places.own
    if kind == "archive":
        with open_history(path) as zipped:
            session_id, status = once_unlocked(lambda: read_zip(home, zipped, path, dry_run=dry_run))
        if dry_run and status == "new":
            return _row(kind, session_id, status, 0, [])
        one = ArchivedSession(home, session_id)
        if status != "unchanged" and not dry_run:
            places.project.index_refresh(IndexRow.of(one.record()))
        return _row(kind, session_id, status, len(one.messages()), one.runs())
    with open_history(path) as file:
        content = file.read(DOCUMENT_MAX + 1)
    if len(content) > DOCUMENT_MAX:
        raise FileCorrupt(f"{path} is larger than what is read whole")
    document = read_json(content, path) if kind == "export" else read_page(content, path)
    is_here = document.session.id in home.ids() or is_live(document.session.id)
    if not is_here and not dry_run:
        _write(places, document, {"source": kind, "external_id": document.session.id, "path": path}, now)
    runs = [run for run, _, _, _ in document.runs]
    return _row(kind, document.session.id, "unchanged" if is_here else "new", len(document.messages), runs)


def _write(places: Places, document: Document, origin: dict[str, str], now: str) -> None:
    project = places.project
    record = once_unlocked(lambda: write_document(places.own, document, origin, project=project.path, now=now))
    project.index_refresh(IndexRow.of(record))


def _row(kind: str, session_id: str, status: str, messages: int, runs: list[Run]) -> Imported:
    used = [run.usage for run in runs if run.usage]
    costs = [one.cost for one in used if one.cost is not None]
    sent, said = sum(one.tokens_input or 0 for one in used), sum(one.tokens_output or 0 for one in used)
    read = sum(one.tokens_cache_read or 0 for one in used)
    written = sum(one.tokens_cache_write or 0 for one in used)
    tokens = ImportedTokens(
        input=max(0, sent - read - written),  # a run's has what was cached in it
        cache_read=read,
        cache_write=written,
        output=said,
        reasoning=sum(one.tokens_reasoning or 0 for one in used),
    )
    row = Imported(
        source=kind,
        external_id=session_id,
        session_id=session_id,
        status=status,
        messages=messages,
        runs=len(runs),
        tokens=tokens,
        children=[],
    )
    return msgspec.structs.replace(row, cost=round(sum(costs), 9)) if costs else row
