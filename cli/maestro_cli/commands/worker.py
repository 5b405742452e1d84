"""`maestro worker`: carry out runs."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, pass_app
from maestro_state.errors import UsageError


@click.command()
@click.option("--count", type=click.IntRange(1, 256), default=1, metavar="N", help="How many runs at once.")
@click.option("--burst", is_flag=True, help="Exit when nothing waits any more.")
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Also take runs that ask for this label.")
@click.option(
    "--tools", metavar="TOOL,…", help="Take runs of these tools only; without it, of all that are found on PATH."
)
@pass_app
def worker(app: App, count: int, burst: bool, labels: tuple[str, ...], tools: str | None) -> int:
    """Carry out runs until told to stop.

    The embedded server brings its own workers; this is for a server that a team shares. Runs asked for on this machine,
    by this user, see the asking terminal's environment. Ctrl-C, or SIGTERM, lets the runs that are under way end within
    MAESTRO_STOP_GRACE_SECONDS; a second one ends them. A run goes to a worker that has its tool, its folder and its
    labels (maestro workers lists them); MAESTRO_PATHS says where this machine has the folders of others.

    \b
    Example:
      maestro worker --count 4
      maestro worker --label gpu --tools claude,codex
    """
    from maestro_workers.profile import Profile
    from maestro_workers.rq_adapter.client import check_rights
    from maestro_workers.team import work_together

    from maestro_state.local.secrets_file import read_secrets

    maestro = app.maestro
    named = _named(tools)
    if maestro.address.is_embedded and (labels or named is not None):
        raise UsageError(
            "workers of a project's own server all have the same: --label and --tools are for a team's server",
            hint="set MAESTRO_REDIS_URL, or leave them out",
        )
    root = str(maestro.project.root)
    maestro.sessions.newest(1)  # the server is there, or this says why not
    check_rights(root, maestro.settings)
    read_secrets(maestro.settings.secrets_file)  # better told now than by the first run
    profile = Profile.of(maestro, labels, named)
    has = "" if maestro.address.is_embedded else f" with {', '.join([*profile.tools, *profile.labels])}"
    output.note(f"{count} worker{'s' if count > 1 else ''} for '{maestro.settings.namespace}'{has} (Ctrl-C stops)")
    return work_together(root, count, burst=burst, labels=labels, tools=named)


def _named(tools: str | None) -> list[str] | None:
    if tools is None:
        return None
    named = [name.strip() for name in tools.split(",")]
    if not all(named):
        raise UsageError("--tools names tools, with a comma between two", hint="--tools claude,codex")
    return named
