"""Breadcrumbs and foreign trees that several tests of work sessions need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maestro_state.models.work import Breadcrumb, TokenCount

STAMP = "20261116_093000_000001"


def crumb(name: str, **more: Any) -> Breadcrumb:
    """Return a small breadcrumb."""
    said = {"timestamp": STAMP, "prompt": f"ask {name}", "response": f"answer {name}", "model_used": "opus"}
    return Breadcrumb(breadcrumb_id=name, **{**said, "token_count": TokenCount(input=3, output=2), **more})


def post(root: Path, path: tuple[str, ...], name: str, content: bytes | dict[str, Any], depth: int = 0) -> Path:
    """Put a file into a work session's mailbox, the way another program would; an object is a whole breadcrumb."""
    folder = root.joinpath("docs", "sessions", *path, "breadcrumbs", str(depth))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    whole = {"prompt": "asked", "response": "answered"}
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(whole | content).encode())
    return file


def foreign(root: Path, path: tuple[str, ...], record: bytes | dict[str, Any]) -> None:
    """Write a session.json as another program would."""
    folder = root.joinpath("docs", "sessions", *path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "session.json").write_bytes(record if isinstance(record, bytes) else json.dumps(record).encode())


def age(file: Path) -> None:
    """Make a file look as if nobody had touched it for an hour."""
    import os
    import time

    then = time.time() - 3600
    os.utime(file, (then, then))
