"""The process beside an opened tool that brings what is said there into the session.

It is out of reach of the terminal: the tool may be suspended, this command killed, the terminal closed; it goes on
until the tool is gone, and everything is said.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from maestro_cli import output

if TYPE_CHECKING:
    from maestro_cli.app import App
    from maestro_cli.foreground import Foreground
    from maestro_state import Terminal

#: Seconds to wait for the last of it once the tool has ended.
_LAST_S = 10.0
#: How often one that was killed is started again.
_RESTARTS = 3
#: Bytes of what it tells at the end, and characters of the reason in that, each of which JSON may write as twelve.
_RESULT_MAX, _REASON_MAX = 4096, 300


class Follower:
    """Follows one start of a tool."""

    def __init__(
        self, app: App, session_id: str, terminal: Terminal, start: dict[str, Any], running: Foreground
    ) -> None:
        """Begin to follow the tool that runs; `start` is what is known of it besides."""
        self._app, self._session_id, self._terminal = app, session_id, terminal
        self._start, self._running = start, running
        self._restarts = 0
        self._command, self._is_hung_up = os.getpid(), False
        self._tool_fd = os.pidfd_open(running.pid)
        self._fork()

    def _fork(self) -> None:
        self._reading, writing = os.pipe()
        self._pid = self._running.fork(lambda: self._follow(writing))
        os.close(writing)

    def restart(self, pid: int) -> None:
        """Begin again if the process that follows was killed."""
        if pid != self._pid or self._restarts >= _RESTARTS:
            return
        self._restarts += 1
        os.close(self._reading)
        self._fork()

    def _follow(self, writing: int) -> None:
        """Follow until the tool is gone, in a process of our own; tell what came of it."""
        from maestro_state import Maestro
        from maestro_state.errors import MaestroError
        from maestro_state.histories.ownership import Start

        start = Start(pid=self._running.pid, **self._start)
        forks: list[str] = []
        doubted: list[str] = []
        result: dict[str, Any] = {"forks": forks}
        try:
            with Maestro(self._app.folder, session=self._app.session_ref) as maestro:
                result["said"] = maestro.histories.follow_start(
                    start,
                    self._session_id,
                    terminal=self._terminal,
                    is_over=self._is_gone,
                    told=forks.append,
                    doubted=doubted.append,
                )
                result["is_in_doubt"] = bool(doubted)
        except (MaestroError, OSError) as error:
            result["failed"] = str(error)[:_REASON_MAX]
        except Exception as error:  # noqa: BLE001 - whoever waits says it; a bug must not be silent
            result["failed"] = f"unexpected {type(error).__name__}: {error}"[:_REASON_MAX]
        del forks[:-1]  # only the last is told of, and all of it must fit into the pipe at once
        with suppress(OSError):
            os.write(writing, json.dumps(result).encode())
        if self._is_hung_up and self._is_gone():
            self._running.modes.restore_screen()
        if start.mark:  # the command may have been killed
            shutil.rmtree(os.path.dirname(start.mark), ignore_errors=True)

    def _is_gone(self) -> bool:
        from maestro_state.local.process_tree import tree_of

        is_gone = bool(select.select([self._tool_fd], [], [], 0)[0])
        if not is_gone and not self._is_hung_up and os.getppid() != self._command:
            # The command was killed, and the shell has the terminal: the tool can be reached by nobody any more, and
            # would go on drawing there. It is told what it is told when a terminal is closed.
            self._is_hung_up = True
            for pid in tree_of(self._running.pid):
                with suppress(OSError):
                    os.kill(pid, signal.SIGHUP)
        return is_gone

    def finish(self) -> None:
        """Wait for the last of it, and say what is to be known."""
        tool = self._start["tool"]
        told = b""
        with suppress(KeyboardInterrupt):
            if select.select([self._reading], [], [], _LAST_S)[0]:
                told = os.read(self._reading, _RESULT_MAX)
        result = json.loads(told) if told else None
        if result is None:
            output.warning(f"what was said last is not in the session yet: maestro import {tool} brings it")
        elif "failed" in result:
            output.warning(f"not all is in the session ({result['failed']}): maestro import {tool} brings the rest")
        else:
            self._say(result)

    def _say(self, result: dict[str, Any]) -> None:
        where = self._session_id
        if result["forks"]:
            where = result["forks"][-1]
            output.warning(f"{self._session_id} was over: what was said from then on is in its fork {where}")
        if result.get("is_in_doubt"):
            tool = self._start["tool"]
            anywhere = " --any-project" if tool == "llm" else ""  # it does not say where something was asked
            output.warning(
                f"another {tool} began a conversation at the same time, and nothing tells whose is whose: "
                f"what is not in the session is in {tool}'s history, and maestro import {tool}{anywhere} keeps it"
            )
        if result["said"]:
            count = output.counted(result["said"], "message")
            output.note(f"{count} in {where} (maestro messages, maestro open {self._start['tool']} --continue)")
