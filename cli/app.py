"""What a command needs from the command line: the project, the session it is pinned to, and an open Maestro."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import click

if TYPE_CHECKING:
    from maestro_state import Maestro, Terminal

#: The `--json` switch, the same on every command that prints data.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class App:
    """The state of one command."""

    #: The process that a person or a script started, where the command runs in another.
    caller: ClassVar[int | None] = None

    def __init__(self, project: str | None, session_ref: str | None) -> None:
        """Keep the global options; nothing is opened yet."""
        self.folder = project
        self.session_ref = session_ref
        self._maestro: Maestro | None = None

    @property
    def maestro(self) -> Maestro:
        """Open Maestro when a command first needs it."""
        if self._maestro is None:
            from maestro_state import Maestro

            self._maestro = Maestro(self.folder, session=self.session_ref)
            self._maestro.project.warn = _warn
        return self._maestro

    def terminal(self) -> Terminal:
        """Say who is looking, for those who look too."""
        import os

        from maestro_state import Terminal
        from maestro_state.clock import iso, now_ms

        name = self.terminal_name()
        return Terminal(user=self.maestro.settings.user, host=os.uname().nodename, terminal=name, since=iso(now_ms()))

    def terminal_name(self) -> str:
        """Return the name of this terminal; of a program without one, its process."""
        import os

        for stream in (0, 1, 2):  # what is piped in or out does not change where somebody sits
            try:
                return os.ttyname(stream).removeprefix("/dev/")
            except OSError:
                continue
        return f"pid {self.caller or os.getpid()}"

    def close(self) -> None:
        """Close what was opened."""
        if self._maestro is not None:
            self._maestro.close()


def _warn(text: str) -> None:
    from cli import output

    output.warning(text)


pass_app = click.make_pass_decorator(App)
