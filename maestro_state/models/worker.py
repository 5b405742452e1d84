"""Workers as they say what they have, and what a run needs of one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from maestro_state.errors import InvalidValue

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


def check_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels, each once; refuse what is none."""
    found = tuple(dict.fromkeys(labels))
    for label in found:
        if not _LABEL.fullmatch(label):
            raise InvalidValue(
                f"{label!r:.60} is not a label",
                hint="up to 63 letters, digits, '.', '_' and '-', a letter or digit first: --label gpu",
            )
    return found


class WorkerTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that a worker has."""

    name: str
    version: str | None = None  #: as the tool tells it; none while it was not asked


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One `maestro worker`, or the workers of a stack: a row of `maestro workers`."""

    id: str  #: runs asked for on its machine name it
    host: str
    pid: int
    since: str
    runs_at_once: int
    runs_now: int = 0
    runs_done: int = 0
    tools: list[WorkerTool] = []
    labels: list[str] = []
    project: str  #: the root of its own project
    paths: dict[str, str] = {}  #: folder of whoever asks → where it has that: MAESTRO_PATHS
    only_tools: bool = False  #: it was told which tools it has, and takes runs of no others
    runs_per_user: int = 0  #: runs of one user that may be open at once, as its settings say; 0: it says none
    runs_per_session: int = 0  #: and of one session
    lacks: list[str] = []  #: folders and programs it was asked for just now and does not have
    queue: str = ""  #: where its jobs wait; empty: where those of every worker do

    @property
    def projects(self) -> list[str]:
        """Return the folders it says it has, as whoever asks calls them."""
        return [self.project, *self.paths]


class ToolOnWorkers(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a tool is found among the workers: a row of `maestro tool check --workers`."""

    name: str
    status: str  #: ok, or missing
    workers: list[dict[str, str | None]] = []  #: `host` and `version` of each that has it


def on_workers(names: list[str], present: list[Worker]) -> list[ToolOnWorkers]:
    """Tell of each tool which workers have it."""
    rows = []
    for name in names:
        found: list[dict[str, str | None]] = [
            {"host": worker.host, "version": tool.version}
            for worker in present
            for tool in worker.tools
            if tool.name == name
        ]
        rows.append(ToolOnWorkers(name, "ok" if found else "missing", found))
    return rows


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of its worker."""

    tool: str  #: as the run names it
    folder: str  #: where it works, as whoever asked calls it
    labels: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()  #: who was handed its environment: only they carry it out, while they live


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for a worker."""

    session_id: str
    run_id: str
    fence: int
    turn_ms: int  #: those with an earlier one are taken first
    needs: Needs
