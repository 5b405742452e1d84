"""Importing a history of Claude Code, beside the least any program could do with it: read each line, copy each file."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.row import Row, row
from maestro_state import Maestro
from maestro_state.fs.kernel import sync_filesystem

CONVERSATIONS, TURNS, STEPS = 60, 12, 6
ROUNDS = 3
#: Megabytes a second that a history is to be imported at.
WANTED = 50.0

_WORDS = ("the", "login", "cookie", "fails", "because", "of", "a", "stale", "token", "and", "its", "handler", "returns")


class _Writer:
    """A conversation of about 700 KB, as Claude Code writes it: answers of two lines, results twice in theirs."""

    def __init__(self, number: int, cwd: str, chance: random.Random) -> None:
        self.id = f"{number:08d}-0000-4000-8000-000000000000"
        self._cwd, self._chance = cwd, chance
        self.lines: list[str] = []

    def _text(self, size: int) -> str:
        return " ".join(self._chance.choice(_WORDS) for _ in range(size // 6))

    def _add(self, kind: str, **more: Any) -> None:
        number = len(self.lines)
        moment = f"2026-11-02T10:{number // 60:02d}:{number % 60:02d}.5Z"
        common = {"parentUuid": f"{self.id[:8]}-{number - 1:04d}", "isSidechain": False, "type": kind,
                  "uuid": f"{self.id[:8]}-{number:04d}", "timestamp": moment,
                  "userType": "external", "cwd": self._cwd, "sessionId": self.id, "version": "2.1.0",
                  "gitBranch": "main"}  # fmt: skip
        self.lines.append(json.dumps({**common, **more}, separators=(",", ":")))

    def write(self, folder: Path) -> int:
        usage = {"input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 50_000,
                 "output_tokens": 700}  # fmt: skip

        def answer(key: str, block: dict[str, Any]) -> None:
            message = {"id": key, "role": "assistant", "model": "claude-x", "content": [block], "usage": usage}
            self._add("assistant", message=message)

        for turn in range(TURNS):
            self._add("user", message={"role": "user", "content": self._text(300)})
            for step in range(STEPS):
                key, call = f"msg-{turn}-{step}", f"call-{turn}-{step}"
                answer(key, {"type": "text", "text": self._text(500)})
                answer(key, {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "src/login.py"}})
                text = self._text(self._chance.choice([800, 2_000, 9_000]))
                block = {"tool_use_id": call, "type": "tool_result", "content": text}
                told = {"type": "text", "file": {"filePath": "src/login.py", "content": text}}
                self._add("user", message={"role": "user", "content": [block]}, toolUseResult=told)
            answer(f"msg-{turn}", {"type": "text", "text": self._text(900)})
        content = "\n".join(self.lines) + "\n"
        (folder / f"{self.id}.jsonl").write_text(content)
        return len(content)


def measure() -> Iterator[Row]:
    """Yield the figures."""
    with tempfile.TemporaryDirectory(prefix="maestro-bench-") as name:
        base = Path(name)
        folder = base / "claude" / "projects" / "shop"
        folder.mkdir(parents=True)
        chance = random.Random(1)
        size = sum(_Writer(number, str(base / "p0"), chance).write(folder) for number in range(CONVERSATIONS))
        least = "json.loads of every line, cp -r and syncfs"
        figures: dict[str, list[float]] = {"import": [], "again": [], least: [], "os.stat of every file": []}
        for number in range(ROUNDS):
            (base / f"p{number}" / ".maestro").mkdir(parents=True)
            environment = {"HOME": name, "CLAUDE_CONFIG_DIR": str(base / "claude")}
            with Maestro(base / f"p{number}", environment=environment) as maestro:
                figures["import"].append(_took(lambda: _imported(maestro, "new")))
                figures[least].append(_took(lambda: _least(folder, base / f"copy{number}")))  # noqa: B023 - called at once
                figures["again"].append(_took(lambda: _imported(maestro, "unchanged")))
                figures["os.stat of every file"].append(_took(lambda: _stats(folder)))
        megabytes = size / 1e6
        speed = megabytes / statistics.median(figures["import"]) * 1000
        yield Row("import a Claude history", f"{WANTED:g} MB/s", speed, WANTED, "MB/s", least=1.0)
        yield row(f"import {megabytes:.0f} MB of it", figures, "import", least, unit="ms")
        yield row("import it again, unchanged", figures, "again", "os.stat of every file", unit="ms")


def _took(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1_000_000


def _imported(maestro: Maestro, status: str) -> None:
    report = maestro.histories.import_("claude", any_project=True)
    assert {one.status for one in report.imported} == {status}
    assert len(report.imported) == CONVERSATIONS


def _least(folder: Path, target: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
    shutil.copytree(folder, target)
    descriptor = os.open(target, os.O_RDONLY)
    sync_filesystem(descriptor)
    os.close(descriptor)


def _stats(folder: Path) -> None:
    for path in folder.iterdir():
        path.stat()
