"""`maestro completion`: the script a shell sources."""

from __future__ import annotations

import click

from maestro_cli import output


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), metavar="SHELL")
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example:
      maestro completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    from maestro_cli.main import maestro

    generator = get_completion_class(shell)
    if generator is None:  # click knows all three; this is for the type checker
        raise click.UsageError(f"no completion for {shell}")
    output.line(generator(maestro, {}, "maestro", "_MAESTRO_COMPLETE").source())
