"""Commands that hand words on to a tool: everything behind `--`, as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from maestro_cli import complete as offers

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorated = Callable[..., Any]


class HandsOn(click.Command):
    """A command whose words behind `--` are no options or arguments of its own; its function gets them as such."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`: click alone would take what follows for further arguments."""
        at = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:at])
        ctx.params["arguments"] = tuple(args[at + 1 :])
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show in the usage line that words may follow."""
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
