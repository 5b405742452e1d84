"""Read the Dockerfile: what each instruction says, and what its image starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.compose import FILE

ROOT = FILE.parent


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage as (word, rest), continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    found: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def started(word: str) -> list[str]:
    """Return the command of ENTRYPOINT, CMD or HEALTHCHECK; each is a list, since no shell is in between."""
    rest = next(rest for name, rest in stages()[-1] if name == word)
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words


def copied() -> list[tuple[str, str]]:
    """Return what is copied from the checkout: (name there, place in the image)."""
    rows = [rest.split() for stage in stages() for word, rest in stage if word == "COPY" and "--from" not in rest]
    return [(name, f"{row[-1]}{name}" if row[-1].endswith("/") else row[-1]) for row in rows for name in row[:-1]]


def lay_out(folder: Path) -> None:
    """Put what the image copies into a folder, as the build sees it."""
    import shutil

    for name, place in copied():
        source, target = ROOT / name, folder / place
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
