"""Tools: choose one for a session, list them, check which are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from maestro_state._sync.records import Records
from maestro_state._sync.server import Server
from maestro_state._sync.workers import Workers
from maestro_state.api.run_choices import offered_by_workers
from maestro_state.clock import iso, new_suffix
from maestro_state.errors import ToolNotFound
from maestro_state.local.project import Project
from maestro_state.models.run import ToolOptions
from maestro_state.models.worker import ToolOnWorkers, on_workers
from maestro_state.state.calls import context as ops
from maestro_state.tools import Tool, check_no_secret, check_options, names, resolve, stored
from maestro_state.tools.tools_file import MISSING, ToolRow, read_rows, trusted_paths, write_rows

#: What `list` returns; inside the class, `list` is the verb.
Rows = list[ToolRow]
WorkerRows = list[ToolOnWorkers]


class Used(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session's runs use from now on."""

    tool_active: str
    model: str | None = None
    mode: str | None = None
    arguments: list[str] = []
    allows: str | None = None  #: what the tool may do then, in plain words


class Tools:
    """The AI tools there are."""

    def __init__(self, server: Server, sessions: Records, project: Project, environment: Mapping[str, str]) -> None:
        self._server = server
        self._sessions = sessions
        self._project = project
        self._environment = environment

    def use(
        self,
        tool: str,
        ref: str | None = None,
        *,
        model: str | None = None,
        mode: str | None = None,
        arguments: Sequence[str] = (),
    ) -> Used:
        """Choose the tool that runs of a session use, a name of the catalogue or a whole command line, and how.

        A program named by a relative path counts from the current folder; it is stored as it is seen from the session's
        working directory, where runs use it.
        """
        check_no_secret(tool, *arguments)
        session_id = self._sessions.resolve(ref)
        chosen = resolve(tool) if tool.strip() in names() else self._stored(tool, session_id)
        options = ToolOptions(model=model, mode=mode, arguments=[*chosen.arguments, *arguments])
        check_options(chosen, options)
        self._server.change(
            session_id, ops.set_tool(self._server.terms, self._server.stamp(), session_id, chosen.name, options)
        )
        allows = chosen.modes[mode].allows if mode else chosen.may_edit or None
        return Used(chosen.name, options.model, options.mode, options.arguments, allows)

    def _stored(self, tool: str, session_id: str) -> Tool:
        record = self._sessions.read(session_id)
        path, elsewhere = self._environment.get("PATH"), offered_by_workers(self._server)
        return stored(tool, record.working_directory, self._project.checkout, path, elsewhere)

    def is_installed(self, tool: str) -> bool:
        """Tell whether a tool's program is found here; runs need it where their worker is."""
        try:
            found = resolve(tool, self._environment.get("PATH"))
        except ToolNotFound:
            return False
        known = found.program(self._environment.get("PATH"))
        return known is not None or found.name in trusted_paths(self._project, self._environment)

    def list(self) -> Rows:
        """List the catalogue with what the last check found, and whatever else tools.json names."""
        rows, _ = read_rows(self._project, self._environment)
        found = {row.name: row for row in rows}
        return [*(found.pop(name, ToolRow(name)) for name in names()), *found.values()]

    def check_workers(self, tool: str | None = None) -> WorkerRows:
        """Tell which workers have one tool, or each of the catalogue that one of them has; nothing is started."""
        present = Workers(self._server).list()
        there = dict.fromkeys(found.name for worker in present for found in worker.tools)
        return on_workers([tool] if tool else list(there), present)

    def check(self, tool: str | None = None, *, told: Callable[[int, int], None] | None = None) -> Rows:
        """Ask one tool, or every one of the catalogue, for its version; write down what was found.

        Takes a few seconds, more where a tool hangs; `told` hears how many have answered, and of how many. A program
        that an untrusted tools.json names is not started.
        """
        from maestro_state.tools.check import check_tools

        when = iso(self._server.now_ms())
        try:
            tools = [resolve(name, self._environment.get("PATH")) for name in ([tool] if tool else names())]
        except ToolNotFound as error:
            return [ToolRow(error.tool, None, when, MISSING, "neither in the catalogue nor on PATH")]
        check_no_secret(tools[0].name)
        paths = trusted_paths(self._project, self._environment)
        findings = check_tools(tools, self._environment, when, programs=paths, told=told)
        rows = [finding.row for finding in findings]
        write_rows(self._project, rows, self._environment)
        stamp = "".join(char for char in when[:19] if char.isdigit())
        with self._project.folder("logs", create=True) as folder:
            log = f"{when}\n" + "".join(finding.log for finding in findings)
            folder.replace(f"tool-check-{stamp}-{new_suffix()}.log", log.encode("utf-8", "replace"))
        return rows
