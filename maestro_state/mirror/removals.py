"""What a cleanup removed from an archive, told with the runs it belonged to. Pure.

A manifest lists what went and when. Another program's archive has none: there the record says that a cleanup was.
"""

from __future__ import annotations

import msgspec

from maestro_state.mirror.layouts import session as layout
from maestro_state.models.run import Flags, OutputRef, Run


def removed_at(path: str, manifest: layout.Manifest | None, cleanup_at: str) -> str | None:
    """Return when a file that is not there was removed; None when it is missed."""
    if manifest is None:
        return cleanup_at
    if path in manifest.removed:
        return manifest.removed[path].removed_at
    return None if path in manifest.files else cleanup_at


def told(runs: list[Run], manifest: layout.Manifest | None, cleanup_at: str, present: set[str]) -> list[Run]:
    """Return the runs with what was removed said: outputs at their reference, whole runs as rows of their own."""
    known = {run.id for run in runs}
    gone = [_gone(run_id, manifest) for run_id in _ids(manifest) - known] if manifest else []
    found = [_with_output_told(run, manifest, cleanup_at) if run.id not in present else run for run in runs]
    return sorted([*found, *gone], key=lambda run: int(run.id))


def _with_output_told(run: Run, manifest: layout.Manifest | None, cleanup_at: str) -> Run:
    path = layout.run_path(run.id, "output.txt")
    ref = run.output_ref or _output_of(path, manifest)
    when = removed_at(path, manifest, cleanup_at)
    if ref is None or ref.size == 0 or when is None:
        return run
    return msgspec.structs.replace(run, output_ref=msgspec.structs.replace(ref, removed_at=when))


def _output_of(path: str, manifest: layout.Manifest | None) -> OutputRef | None:
    """Return what a removed output was, where its run does not say it."""
    removal = manifest.removed.get(path) if manifest else None
    return OutputRef("output.txt", removal.size, removal.sha256, removal.removed_at) if removal else None


def _ids(manifest: layout.Manifest) -> set[str]:
    """Return the runs that something was removed of."""
    found = {path.split("/")[1] for path in manifest.removed if path.startswith("runs/") and path.count("/") == 2}
    return set(filter(layout.RUN_ID.fullmatch, found))


def _gone(run_id: str, manifest: layout.Manifest) -> Run:
    """Return a run of which nothing is left: a dry one, or one of which there never was more than an output."""
    output = _output_of(layout.run_path(run_id, "output.txt"), manifest)
    when = next(one.removed_at for path, one in manifest.removed.items() if path.startswith(f"runs/{run_id}/"))
    return Run(
        id=run_id,
        tool="",
        prompt_source="cli",
        flags=Flags(dry_run=output is None, confirm=False),
        status="success" if output else "dry",
        created_at=when,
        context_refs=[],
        context_version=[],
        output_ref=output,
        removed_at=when,
    )
