"""The `maestro` command: finds subcommands without importing them, and is the one place where an error becomes a line
on stderr and an exit code.

Start-up is most of what a command costs, so each subcommand's module is imported only when it is called.
"""

from __future__ import annotations

import io
import os
import re
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from maestro_cli import complete as offers
from maestro_cli.app import App
from maestro_cli.command_table import COMMANDS
from maestro_state import __version__
from maestro_state.errors import MaestroError


class Root(click.Group):
    """The top group, which knows its commands by name and imports them when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if cmd_name in ("import", "open") else cmd_name  # Python has these words
        command: click.Command = getattr(import_module(f"maestro_cli.commands.{COMMANDS[cmd_name]}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a word that is none, name what may be meant, which click knows of groups only."""
        word = args[0]
        if word in COMMANDS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = self._near(ctx, word)
        meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise click.UsageError(f"No such command '{word}'.{meant}", ctx)

    def _near(self, ctx: click.Context, word: str) -> list[str]:
        """Return the commands that read like a word, or else those that have it as their second word."""
        from difflib import get_close_matches

        if word in ("help", "version"):
            return [f"maestro --{word}"]
        groups = ((name, self.get_command(ctx, name)) for name in COMMANDS)
        inside = [f"{name} {word}" for name, one in groups if isinstance(one, click.Group) and word in one.commands]
        return (inside or get_close_matches(word, COMMANDS))[:3]

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; a closed pipe is no failure (click would make it exit 1)."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first screen, importing no command."""
        del ctx
        from maestro_cli.screen.first_screen import lines

        formatter.write("\n".join(lines(COMMANDS)) + "\n")


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maestro", message="%(prog)s %(version)s")
@click.option(
    "--project",
    metavar="DIR",
    shell_complete=offers.folders,
    help="A folder of the project (default: the current one).",
)
@click.option(
    "--session",
    "session_ref",
    metavar="REF",
    shell_complete=offers.sessions,
    help="Work in this session, whichever is active.",
)
@click.pass_context
def maestro(ctx: click.Context, project: str | None, session_ref: str | None) -> None:
    """One live session for all your AI command-line tools.

    Sessions live on a server that all terminals of this project share. Nothing needs to be configured.
    """
    ctx.obj = App(project=project, session_ref=session_ref)
    ctx.call_on_close(ctx.obj.close)


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; return its exit code."""
    if sys.stderr is None:  # closed by whoever started us
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        return _fail(arguments, 1, "output_closed", "standard output is closed", "send it to /dev/null instead")
    if _is_debugging():
        return _invoke(arguments)
    try:
        return _invoke(arguments)
    except MaestroError as error:
        return _fail(arguments, error.exit_code, error.code, str(error), error.hint)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2 if error.ctx and error.ctx.parent else 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _command_path(arguments)
        said = _in_our_words(error)
        return _fail(arguments, 2, "usage", said, _belongs_before(error) or _wants_quotes(said, command))
    except click.ClickException as error:
        return _fail(arguments, 2, "usage", error.format_message(), None)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except BrokenPipeError:
        # Nobody reads our pipe any more; python must not complain about it while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(arguments, 1, "os_error", f"{where}{error.strerror}", None)
    except Exception as error:  # noqa: BLE001 - the one line that keeps a bug from printing a traceback at a user
        message = f"unexpected {type(error).__name__}: {error}"
        return _fail(arguments, 1, "internal", message, "run it again with MAESTRO_DEBUG=1 and report what it prints")


def _interrupted() -> int:
    """End the line on which the terminal shows ^C: the shell's prompt is not to follow it."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return 130


def _command_path(arguments: list[str]) -> str:
    """Return the command that a command line names: click does not say where an option lacks its value."""
    path = "maestro"
    found: click.Command = maestro
    context = click.Context(maestro, info_name=path)
    for word in arguments:
        one = found.get_command(context, word) if isinstance(found, click.Group) else None
        if one is not None:
            path, found = f"{path} {word}", one
    return path


#: How click names several things that may be meant.
_SEVERAL = re.compile(r"\(Did you mean one of: (.+)\?\)")


def _in_our_words(error: click.UsageError) -> str:
    """Say what click says on one line, and what may be meant as it is said of commands."""
    # The choices of an argument that is missing are set apart with tabs.
    text = " ".join(error.format_message().split())
    return _SEVERAL.sub(lambda several: f"Did you mean {several[1].replace(', ', ' or ')}?", text)


def _wants_quotes(said: str, command: str) -> str:
    """Say where more is read; before it, of words more than a command takes, that a shell takes them apart."""
    apart = "a text of several words goes in quotes; " if said.startswith("Got unexpected extra argument") else ""
    return f"{apart}{command} --help"


def _belongs_before(error: click.UsageError) -> str | None:
    """Say where an option of `maestro` itself goes, if it was given to a command."""
    places = {"--session": "REF", "--project": "DIR"}
    if not isinstance(error, click.NoSuchOption) or error.option_name not in places or error.ctx is None:
        return None
    command = error.ctx.command_path.removeprefix("maestro ")
    option = error.option_name
    return f"{option} goes before the command: maestro {option} {places[option]} {command} …"


def _invoke(arguments: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper) and _may_fail(sys.stdout):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: not every terminal speaks UTF-8
    result: Any = maestro.main(args=arguments, prog_name="maestro", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _may_fail(stream: io.TextIOWrapper) -> bool:
    """Tell whether there is text that a stream cannot carry: in the POSIX locale it is lenient to file names only."""
    lenient = stream.errors == "surrogateescape" and stream.encoding.lower() in ("utf-8", "utf8")
    return stream.errors in ("strict", "surrogateescape") and not lenient


def _is_debugging() -> bool:
    return os.environ.get("MAESTRO_DEBUG", "").lower() in ("1", "true", "yes", "on")


def _fail(arguments: list[str], exit_code: int, code: str, message: str, hint: str | None) -> int:
    """Tell what went wrong, as one line or as one JSON document."""
    from maestro_cli.output import error_line

    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    error_line(code, message, hint, as_json=as_json)
    return exit_code
