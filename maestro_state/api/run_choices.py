"""What a run uses: the tool, how it is called, and the conversation it goes on with."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from maestro_state._sync.server import Server
from maestro_state._sync.workers import Workers
from maestro_state.errors import InvalidTransition, NoTool
from maestro_state.local.checkouts import home_of
from maestro_state.local.project import Project
from maestro_state.local.settings import Settings
from maestro_state.models.run import OPEN, Run, ToolOptions
from maestro_state.models.session import Session
from maestro_state.state.calls import runs as ops
from maestro_state.state.calls import sessions as session_ops
from maestro_state.tools import (
    Tool,
    check_continues,
    check_no_secret,
    check_options,
    combined,
    resolve,
    stored,
)
from maestro_state.vocabulary import FROZEN

#: Runs read at a time when the newest conversation is searched for.
_PAGE_RUNS = 32


def offered_by_workers(server: Server) -> Callable[[str], bool]:
    """Return what tells whether a worker says that it has a program, which need not be here then."""
    return lambda program: any(tool.name == program for worker in Workers(server).list() for tool in worker.tools)


class Choice(msgspec.Struct, frozen=True):
    """What one run uses."""

    tool: Tool
    options: ToolOptions
    before: Run | None  #: the run whose conversation it goes on with

    @property
    def seen(self) -> tuple[str, ...]:
        """Return the digests of what the conversation was sent before."""
        return ops.seen_after(self.before) if self.before else ()

    def tell(self, session: Session, say: Callable[[str], None] | None) -> str | None:
        """Say what the tool may change, unless that was said in this session; return all that has been said then."""
        mode, entry = self.options.mode, self.tool.entry
        allows = self.tool.modes[mode].allows if mode else self.tool.may_edit
        if not allows or mode == "read" or say is None:
            return None
        told, word = (session.edits_told or "").split(), f"{entry}:{mode or 'default'}"
        if word in told:
            return None
        say(f"{entry} may {allows} ({session.working_directory})")
        return " ".join([*told, word])


class Choices:
    """Finds out what a run uses."""

    def __init__(self, server: Server, settings: Settings, project: Project) -> None:
        self._server = server
        self._settings = settings
        self._project = project

    def placed(self, session: Session) -> tuple[Session, str | None]:
        """Return the session as it is seen from this checkout: where nobody set the folder that its runs work in, they
        work in the worktree they are asked for in.
        """
        here, there = self._project.checkout, session.working_directory
        if here == there or home_of(there) != self._project.path:
            return session, None
        field = self._server.fetch(session_ops.get_field(self._server.terms, session.id, "working_directory"))
        if field.revision:
            return session, None
        return msgspec.structs.replace(session, working_directory=here), here

    def choose(
        self,
        session: Session,
        tool: str | None,
        said: ToolOptions,
        continues: str | None,
        path: str | None = None,
    ) -> Choice:
        """Return what a run asked for like this uses; refuses what the tool cannot do. `path` stands for PATH."""
        before: Run | None = None
        if continues and continues != "last":
            number = ops.check_run_id(continues)
            before = self._server.fetch(ops.read_run(self._server.terms, session.id, number))
            tool = tool or before.tool
        elif continues and not (tool or self._settings.tool or session.tool_active):
            # Nobody has chosen one: somebody sat in a tool, or named one for a run.
            before = self._newest(session)
            tool = before.tool if before else None
        chosen = self._tool(session, tool, path)
        if continues:
            before = before or self._newest(session, chosen)
            check_continues(session.id, chosen, before)
        options = combined(said, session.tool_options if chosen.name == session.tool_active else None)
        if chosen.arguments:
            options = msgspec.structs.replace(options, arguments=[*chosen.arguments, *options.arguments])
            chosen = msgspec.structs.replace(chosen, arguments=())
        check_options(chosen, options)
        if options.arguments:
            check_no_secret(*options.arguments)
        return Choice(chosen, options, before)

    def _tool(self, session: Session, tool: str | None, path: str | None) -> Tool:
        """Return the tool a run uses: one named now counts from the current folder, the session's from its own."""
        if tool := tool or self._settings.tool:
            elsewhere = offered_by_workers(self._server)
            return stored(tool, session.working_directory, self._project.checkout, path, elsewhere)
        chosen = session.tool_active
        if not chosen and session.state in FROZEN:
            raise InvalidTransition(session.id, session.state, "running a tool")
        if not chosen:
            raise NoTool(session.id)
        return resolve(chosen, path, folder=session.working_directory, elsewhere=offered_by_workers(self._server))

    def _newest(self, session: Session, chosen: Tool | None = None) -> Run | None:
        """Find the newest run of a tool, or of any, that had a conversation, a page at a time: a long session costs no
        more.
        """
        last = session.counters.run_seq
        while last > 0:
            first = max(1, last - _PAGE_RUNS + 1)
            page: list[Run] = self._server.fetch(ops.read_some(self._server.terms, session.id, first, last))
            for run in reversed(page):
                is_meant = chosen is None or run.tool == chosen.name
                if is_meant and run.status not in OPEN and run.usage and run.usage.tool_session:
                    return run
            last = first - 1
        return None
