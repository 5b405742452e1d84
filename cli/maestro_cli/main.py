"""The `maestro` command: finds subcommands without importing them, and is the one place where an error becomes a line
on stderr and an exit code.

Start-up is most of what a command costs, so each subcommand's module is imported only when it is called; the table
below finds them, with the line each says of itself; a test compares.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from maestro_cli import complete as offers
from maestro_cli.app import App
from maestro_state import __version__
from maestro_state.errors import MaestroError

#: Command → module, attribute, what it says of itself.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "session": ("maestro_cli.commands.session", "session", "Start, list, switch, end and look at sessions."),
    "run": ("maestro_cli.commands.run", "run", "Run the session's tool on a prompt and the session's context."),
    "status": ("maestro_cli.commands.session", "status", "Show where a session stands and who is looking at it."),
    "runs": ("maestro_cli.commands.runs", "runs", "List the runs of a session."),
    "show": ("maestro_cli.commands.runs", "show", "Show what a run printed."),
    "wait": (
        "maestro_cli.commands.wait",
        "wait",
        "Return when runs are over: with 0 if all of them succeeded, else with 1.",
    ),
    "cancel": ("maestro_cli.commands.runs", "cancel", "Cancel a run."),
    "context": ("maestro_cli.commands.context", "context", "Add files, texts and outputs to what runs are sent along."),
    "use": ("maestro_cli.commands.tool", "use", "Choose the tool that runs of this session use, and how it is called."),
    "tool": ("maestro_cli.commands.tool", "tool", "List and check the AI tools."),
    "watch": ("maestro_cli.commands.watch", "watch", "Follow a session live."),
    "message": ("maestro_cli.commands.message", "message", "Add messages to a session."),
    "messages": ("maestro_cli.commands.message", "messages", "Read the messages of a session."),
    "usage": ("maestro_cli.commands.usage", "usage", "Add up runs, tokens and cost over live and archived sessions."),
    "worker": ("maestro_cli.commands.worker", "worker", "Carry out runs until told to stop."),
    "discuss": ("maestro_cli.commands.discuss", "discuss", "Discuss work with a tool, and replay what was decided."),
    "wsession": (
        "maestro_cli.commands.wsession",
        "wsession",
        "Start, end and look at work sessions and their breadcrumbs.",
    ),
    "work": ("maestro_cli.commands.work", "work", "Apply the breadcrumbs of a work session, each exactly once."),
    "export": ("maestro_cli.commands.archive", "export", "Write a session's whole history to one file."),
    "pull": (
        "maestro_cli.commands.archive",
        "pull",
        "Bring an archived session from the team's server into this checkout.",
    ),
    "verify": (
        "maestro_cli.commands.archive",
        "verify",
        "Check that an archive is what was written: every digest, file by file.",
    ),
    "cleanup": (
        "maestro_cli.commands.archive",
        "cleanup",
        "Remove outputs and dry runs of sessions ended long ago, and old logs.",
    ),
    "sweep": ("maestro_cli.commands.archive", "sweep", "Look after all sessions once."),
    "stack": ("maestro_cli.commands.stack", "stack", "Look after the embedded server."),
    "config": ("maestro_cli.commands.config", "config", "Show every setting and where it came from."),
    "trust": ("maestro_cli.commands.config", "trust", "Let this project's files name servers and programs."),
    "doctor": ("maestro_cli.commands.doctor", "doctor", "Check the server, the disk and the set-up."),
    "scheduler": (
        "maestro_cli.commands.scheduler",
        "scheduler",
        "Sweep often and clean up daily, once for the whole team.",
    ),
    "acl": ("maestro_cli.commands.acl", "acl", "Write the access list of a team's server."),
    "completion": ("maestro_cli.commands.completion", "completion", "Print the completion script for a shell."),
}


class Root(click.Group):
    """The top group, which knows its commands by name and imports them when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the table: from daily use to upkeep."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; a reader of our pipe who left is no failure (click would make it exit 1)."""
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
    """Run the command line and leave with its exit code."""
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
        hint = _belongs_before(error) or (f"{error.ctx.command_path} --help" if error.ctx else "maestro --help")
        # Click sets the choices of an argument that is missing apart with tabs.
        return _fail(arguments, 2, "usage", " ".join(error.format_message().split()), hint)
    except click.ClickException as error:
        return _fail(arguments, 2, "usage", error.format_message(), None)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # The reader of our pipe has left; python must not complain about it while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(arguments, 1, "os_error", f"{where}{error.strerror}", None)
    except Exception as error:  # noqa: BLE001 - the one line that keeps a bug from printing a traceback at a user
        message = f"unexpected {type(error).__name__}: {error}"
        return _fail(arguments, 1, "internal", message, "run it again with MAESTRO_DEBUG=1 and report what it prints")


def _belongs_before(error: click.UsageError) -> str | None:
    """Say where an option of `maestro` itself goes, if it was given to a command."""
    places = {"--session": "REF", "--project": "DIR"}
    if not isinstance(error, click.NoSuchOption) or error.option_name not in places or error.ctx is None:
        return None
    command = error.ctx.command_path.removeprefix("maestro ")
    option = error.option_name
    return f"{option} goes before the command: maestro {option} {places[option]} {command} …"


def _invoke(arguments: list[str]) -> int:
    result: Any = maestro.main(args=arguments, prog_name="maestro", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _is_debugging() -> bool:
    return os.environ.get("MAESTRO_DEBUG", "").lower() in ("1", "true", "yes", "on")


def _fail(arguments: list[str], exit_code: int, code: str, message: str, hint: str | None) -> int:
    """Tell what went wrong, as one line or as one JSON document."""
    from maestro_cli.output import error_line

    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    error_line(code, message, hint, as_json=as_json)
    return exit_code
