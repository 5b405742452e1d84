"""What a worker has: tools with their versions, labels, folders. Found when it starts and now and then, never per run.

Tools are searched for on PATH, which costs a few calls of the system; for its version a tool is started, once, in a
process of its own. Workers with the same profile wait on the same list.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from maestro_state import Maestro
from maestro_state.errors import MaestroError, NotFound, ToolNotFound, WorkFailed
from maestro_state.models.folders import FolderMap, is_below, mapped, parse_folders
from maestro_state.models.worker import Needs, Worker, WorkerTool, check_labels
from maestro_state.tools import Tool, names, resolve
from maestro_state.tools.tools_file import trusted_paths
from maestro_state.tools.worker_matching import folder_hint, program_of

#: Things that a worker remembers not to have, at most.
LACKS_MAX = 64
#: What tells that a program is another one than before.
_Mark = tuple[str, int, int]


@dataclass(slots=True)
class Profile:
    """What the workers of one process have; kept up to date by the process they are forked from."""

    project: str
    labels: tuple[str, ...] = ()
    #: Tools it was told to have, and no others; None: what it finds.
    only: tuple[str, ...] | None = None
    paths: FolderMap = field(default_factory=dict)
    #: Runs of one user, and of one session, that may be open at once; 0: it says nothing of that.
    runs_per_user: int = 0
    runs_per_session: int = 0
    #: Programs that a trusted tools.json names, by tool.
    programs: Mapping[str, str] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    #: Folders and programs that runs asked for in vain, the oldest first.
    lacks: list[str] = field(default_factory=list)
    _marks: dict[str, _Mark | None] = field(default_factory=dict)

    @classmethod
    def of(cls, maestro: Maestro, labels: Sequence[str] = (), tools: Sequence[str] | None = None) -> Profile:
        """Find out what there is; NotFound for a tool it is told to have and has not."""
        only = None if tools is None else tuple(dict.fromkeys(tools))
        paths, programs = maestro.settings.paths, trusted_paths(maestro.project)
        folders = parse_folders(paths) if paths else {}
        found = cls(str(maestro.project.root), check_labels(labels), only, folders, programs=programs)
        found.runs_per_user, found.runs_per_session = maestro.settings.runs_per_user, maestro.settings.runs_per_session
        for name in only or ():
            if "/" in name or resolve(name).name != name:
                raise ToolNotFound(name)
            if found.program(name) is None:
                raise NotFound(f"'{name}' is not installed here", hint="install it, or leave it out of --tools")
        found.find_tools()
        return found

    def find_tools(self) -> None:
        """Find out which tools are there."""
        self.tools = {name: resolve(name) for name in (self.only or names()) if self.program(name)}
        self.versions = {name: text for name, text in self.versions.items() if name in self.tools}

    def take_fresh(self) -> list[Tool]:
        """Return the tools to be asked for their version: those that are new, or changed since they were returned."""
        before = self._marks
        self._marks = {name: _mark(self.program(name)) for name, tool in self.tools.items() if tool.version}
        return [self.tools[name] for name, mark in self._marks.items() if mark != before.get(name)]

    def check_again(self) -> None:
        """Forget what it lacked and has by now."""
        for one in list(self.lacks):
            if self.program(one) or self._has(one):
                self.lacks.remove(one)

    def note_lack(self, what: str) -> None:
        """Remember that something is not here; of so many that a row in a list can hold."""
        self.lacks = [*(one for one in self.lacks if one != what), what][-LACKS_MAX:]

    def program(self, name: str) -> str | None:
        """Return where the program of a tool is; None when it is not here."""
        try:
            return self.programs.get(name) or resolve(name).program()
        except MaestroError:
            return None

    def _has(self, folder: str) -> bool:
        try:
            self.place(folder)
        except WorkFailed:
            return False
        return True

    @property
    def queue(self) -> str:
        """Return the name of the list that workers with this profile wait on."""
        has = (sorted(self.tools), self.only is not None, sorted(self.labels), sorted(self.paths.items()), self.project)
        return sha256(msgspec.json.encode(has)).hexdigest()[:8]

    def described(self, worker_id: str, since: str, runs_at_once: int) -> Worker:
        """Return it as the list of workers has it."""
        return Worker(
            id=worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=since,
            runs_at_once=runs_at_once,
            tools=[WorkerTool(name, self.versions.get(name)) for name in self.tools],
            labels=list(self.labels),
            project=self.project,
            paths=self.paths,
            only_tools=self.only is not None,
            runs_per_user=self.runs_per_user,
            runs_per_session=self.runs_per_session,
            lacks=self.lacks,
            queue=self.queue,
        )

    def place(self, folder: str) -> str:
        """Return where a run that works in a folder of whoever asked for it works here; WorkFailed when nowhere."""
        found, where = mapped(self.paths, folder), f"on {socket.gethostname()}, where the worker runs"
        if found is None:
            if os.path.isdir(folder):
                return _entered(folder, where)
            raise WorkFailed(f"the working directory {folder} is not there {where} ({folder_hint(folder)})")
        root, here = found
        if not os.path.isdir(here):
            remedy = "put the checkout there, or correct the worker's MAESTRO_PATHS"
            raise WorkFailed(f"the working directory {folder} is {here} {where}, which is not there ({remedy})")
        # A link in the checkout must not lead a tool out of what was mapped.
        if not is_below(os.path.realpath(here), os.path.realpath(root)):
            raise WorkFailed(f"the working directory {folder} is {here} {where}, a link that leads out of {root}")
        return _entered(here, where)

    def missing(self, needs: Needs) -> str | None:
        """Return what a run needs and is not here: LABEL or TOOL, else the name of a folder or program; None: nothing.

        LABEL and TOOL are what the list of workers tells too: such a run is for others, now or later.
        """
        if not set(needs.labels) <= set(self.labels):
            return LABEL
        program, is_told = program_of(needs.tool), self.only is not None or needs.tool in names()
        if is_told and (program not in self.tools or self.program(program) is None):
            return TOOL
        try:
            folder = self.place(needs.folder)
            if not is_told:
                resolve(needs.tool, folder=folder)  # a program named by a relative path counts from there
        except ToolNotFound:
            return program
        except WorkFailed:
            return needs.folder
        return None


#: What is missing where the list of workers tells it.
LABEL, TOOL = "label", "tool"


def _entered(folder: str, where: str) -> str:
    """Return a folder that this user may enter; else it would look as if the tool could not be started."""
    if os.access(folder, os.X_OK):
        return folder
    remedy = f"let user id {os.geteuid()} enter it, or maestro session set working_directory DIR"
    raise WorkFailed(f"the working directory {folder} may not be entered {where} ({remedy})")


def _mark(program: str | None) -> _Mark | None:
    try:
        found = os.stat(program) if program else None
    except OSError:
        return None
    return None if found is None or program is None else (program, found.st_mtime_ns, found.st_size)
