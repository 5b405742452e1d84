"""What a command needs from the command line: the project, the session it is pinned to, and an open Maestro."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import click

from maestro_cli import complete as offers

if TYPE_CHECKING:
    from collections.abc import Callable

    from maestro_state import Maestro, Terminal

    Decorated = Callable[..., Any]

#: The `--json` switch, the same on every command that prints data.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class HandsOn(click.Command):
    """A command whose words behind `--` are no options or arguments of its own; its function gets them as such."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`: click alone would take what follows for further arguments."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["arguments"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARG...]"]


def tool_options(command: Decorated) -> Decorated:
    """Add the options that say how a tool is called."""
    mode = click.option(
        "--mode",
        metavar="MODE",
        shell_complete=offers.modes,
        help="What it may do: read, edit or full; else what it does by itself.",
    )
    return click.option("--model", metavar="MODEL", help="Model to use, by the tool's own name for it.")(mode(command))


#: The name of connections that do not keep the embedded stack running; its own begin so too.
ONLOOKER = "maestro-stack-watch"


class App:
    """The state of one command."""

    #: The process that a person or a script started, where the command runs in another.
    caller: ClassVar[int | None] = None
    #: Whether a killed supervisor is started again; not by those who stop the stack or only ask for its status.
    heals = True

    def __init__(self, project: str | None, session_ref: str | None) -> None:
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
            if self.heals and self._maestro.settings.redis_url is None:
                self._heal(self._maestro)
        return self._maestro

    def _heal(self, maestro: Maestro) -> None:
        """Start a killed supervisor again: whatever the command is, runs must not wait for the next one."""
        from maestro_state.errors import ServerUnavailable
        from maestro_state.local.embedded.supervision import heal

        try:
            heal(maestro.project.path)
        except ServerUnavailable:
            return  # whoever needs the server will say it

    def only_watch(self) -> None:
        """Go on without keeping the embedded stack running, and without starting it again."""
        from maestro_state import Maestro

        opened = self.maestro
        if opened.settings.redis_url is not None:
            return
        # Named outright: then nobody starts it.
        url = f"unix://{opened.address.path}"
        self._maestro = Maestro(self.folder, session=self.session_ref, redis_url=url, client_name=ONLOOKER)
        self._maestro.server.connection.retry_s = 0.5  # one that is gone is said to be
        self._maestro.project.warn = _warn
        opened.close()

    def terminal(self) -> Terminal:
        """Say who is attached, for others who are."""

        from maestro_state import Terminal
        from maestro_state.clock import iso, now_ms

        name = self.terminal_name()
        return Terminal(user=self.maestro.settings.user, host=os.uname().nodename, terminal=name, since=iso(now_ms()))

    def terminal_name(self) -> str:
        """Return the name of this terminal; of a program without one, its process."""
        for stream in (0, 1, 2):  # what is piped in or out does not change where somebody sits
            try:
                return os.ttyname(stream).removeprefix("/dev/")
            except OSError:
                continue
        return f"pid {self.caller or os.getpid()}"

    def close(self) -> None:
        if self._maestro is not None:
            self._maestro.close()


def _warn(text: str) -> None:
    from maestro_cli import output

    output.warning(text)


pass_app = click.make_pass_decorator(App)
