"""`maestro config`, `maestro trust`: what is set, by whom, and whom to believe."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app


@click.command()
@json_option
@pass_app
def config(app: App, as_json: bool) -> None:
    """Show every setting and where it came from.

    \b
    Example:
      maestro config --json
    """
    from maestro_state.local.settings import PERSON, RULES, describe

    settings = app.maestro.settings
    rows = describe(settings)
    if as_json:
        output.document({"settings": rows})
        return
    output.table(
        ("setting", "value", "source"),
        [(row["name"], "" if row["value"] is None else str(row["value"]), row["source"]) for row in rows],
        flexible=2,
    )
    for name in settings.ignored:
        why = "it is a person's own" if RULES[name].scope == PERSON else "until you run: maestro trust"
        output.note(f"{name} in the project's settings file is ignored, {why}")


@click.command()
@click.option("--revoke", is_flag=True, help="Stop trusting them.")
@json_option
@pass_app
def trust(app: App, revoke: bool, as_json: bool) -> None:
    """Let this project's files name servers and programs.

    A cloned repository may bring settings of its own. Those that decide what is kept, under whose name, or which
    server, program or folder is used count only after you have read and trusted them; one changed byte ends
    that trust. Server data that was copied here is accepted with them.

    \b
    Example:
      maestro trust
    """
    from maestro_state.local import trust as trusting
    from maestro_state.local.embedded import vouch_for_data
    from maestro_state.local.project import Project

    root = Project.at(app.folder).root
    files = trusting.untrust(root) if revoke else trusting.trust(root)
    if not revoke and vouch_for_data(root):
        files.append(".maestro/server")
    if as_json:
        output.document({"project": str(root), "trusted": [] if revoke else files, "revoked": files if revoke else []})
        return
    for name in files:
        output.line(f"{'no longer trusted' if revoke else 'trusted'}: {name}")
    if not files:
        output.line("there is nothing to trust in this project")
