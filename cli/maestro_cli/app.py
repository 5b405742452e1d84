"""What a command needs from the command line: the project, the session it is pinned to, and an open Maestro."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import click

from maestro_cli import complete as offers

if TYPE_CHECKING:
    from collections.abc import Callable

    from maestro_state import Maestro, Terminal

    Decorated = Callable[..., Any]

#: The `--json` switch, the same on every command that prints data.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

#: Longer than any first sentence of a command's help.
_SUMMARY = 1000


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


class Noun(click.Group):
    """A group of commands, whose help says whole what each of them does: click cuts it where a row ends."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a row for each command, or a few."""
        del ctx
        seen = ((name, one) for name, one in self.commands.items() if not one.hidden)
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(limit=_SUMMARY)) for name, one in seen])


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
    #: Ends this process at once with an exit code, which the caller gets: where a thread would keep it waiting.
    exit: ClassVar[Callable[[int], NoReturn]] = os._exit
    #: Whether a killed supervisor is started again; not by those who stop the stack or only ask for its status.
    heals = True

    def __init__(self, project: str | None, session_ref: str | None) -> None:
        self.folder = project
        self.session_ref = session_ref

    @cached_property
    def maestro(self) -> Maestro:
        """Open Maestro when a command first needs it."""
        from maestro_state import Maestro
        from maestro_state.errors import ServerUnavailable

        opened = Maestro(self.folder, session=self.session_ref)
        opened.project.warn = _warn
        if self.heals and opened.settings.redis_url is None:
            from maestro_state.local.embedded.supervision import heal

            # Whatever the command is: runs must not wait for the next one.
            with suppress(ServerUnavailable):  # whoever needs the server will say it
                heal(opened.project.path)
        return opened

    def only_watch(self) -> None:
        """Go on without keeping the embedded stack running, and without starting it again."""
        from maestro_state import Maestro

        opened = self.maestro
        if opened.settings.redis_url is not None:
            return
        # Named outright: then nobody starts it.
        url = f"unix://{opened.address.path}"
        self.maestro = Maestro(self.folder, session=self.session_ref, redis_url=url, client_name=ONLOOKER)
        self.maestro.server.connection.retry_s = 0.5  # one that is gone is said to be
        self.maestro.project.warn = _warn
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
        if "maestro" in self.__dict__:
            self.maestro.close()


def _warn(text: str) -> None:
    from maestro_cli import output

    output.warning(text)


pass_app = click.make_pass_decorator(App)
