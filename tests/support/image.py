"""Read the Dockerfile: what each instruction of each stage says, and what its images start."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.support.compose import FILE

ROOT = FILE.parent


class Stage(NamedTuple):
    """One `FROM … AS …` and what follows it."""

    name: str
    base: str
    lines: list[tuple[str, str]]  #: each instruction as (word, rest), continued lines joined


def _lines() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    words = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in words]


def arguments() -> dict[str, str]:
    """Return the build arguments of all stages, and their defaults."""
    before = [rest.partition("=") for word, rest in itertools.takewhile(lambda line: line[0] != "FROM", _lines())]
    return {name: shlex.split(value)[0] for name, _, value in before}


def stages() -> dict[str, Stage]:
    """Return the stages by name."""
    found: dict[str, Stage] = {}
    for word, rest in _lines():
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(name, base, [])
        elif found:
            list(found.values())[-1].lines.append((word, rest))
    return found


def instructions(target: str) -> list[tuple[str, str]]:
    """Return all that makes an image, that of the stages it begins from first."""
    known = stages()
    own = known[target]
    return [*(instructions(own.base) if own.base in known else []), *own.lines]


def started(word: str, target: str) -> list[str]:
    """Return the command of ENTRYPOINT, CMD or HEALTHCHECK; each is a list, since no shell is in between."""
    rest = [rest for name, rest in instructions(target) if name == word][-1]
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words


def copied(stage: str | None = None) -> list[tuple[str, str]]:
    """Return what is copied from the checkout, by all stages or one: (name there, place in the image)."""
    chosen = stages().values() if stage is None else [stages()[stage]]
    rows = [
        rest.split() for one in chosen for word, rest in one.lines if word == "COPY" and not rest.startswith("--from")
    ]
    return [(name, f"{row[-1]}{name}" if row[-1].endswith("/") else row[-1]) for row in rows for name in row[:-1]]


def lay_out(folder: Path, stage: str) -> None:
    """Put what a stage copies into a folder, as the build sees it."""
    for name, place in copied(stage):
        source, target = ROOT / name, folder / place
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
