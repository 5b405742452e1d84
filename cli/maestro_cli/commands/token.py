"""`maestro token …`: who may ask `maestro serve`."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app


@click.group()
def token() -> None:
    """Give, list and revoke the tokens that maestro serve lets people in by.

    \b
    Example:
      maestro token add ana --days 90
    """


@token.command()
@click.argument("user")
@click.option("--read-only", is_flag=True, help="It changes nothing: the same as --role read.")
@click.option("--role", type=click.Choice(("read", "write", "admin")), help="What it may do (default: write).")
@click.option("--days", type=click.IntRange(1, 3650), metavar="N", help="How long it counts (default: until revoked).")
@json_option
@pass_app
def add(app: App, user: str, read_only: bool, role: str | None, days: int | None, as_json: bool) -> None:
    """Make a token for USER. It is shown once: only its digest is stored.

    \b
    Example:
      maestro token add ana --read-only
    """
    if read_only and role not in (None, "read"):
        raise click.UsageError(f"--read-only and --role {role} cannot be used together")
    made = app.maestro.tokens.add(user, role="read" if read_only else role or "write", days=days)
    if as_json:
        output.document({"id": made.id, "token": made.token, "user": made.user, "role": made.role})
        return
    output.line(made.token)
    output.note(f"{made.id}: {made.user} may {made.role}; it is not shown again")


@token.command("list")
@json_option
@pass_app
def list_tokens(app: App, as_json: bool) -> None:
    """List tokens: whose they are, what they may, and when they were last used.

    \b
    Example:
      maestro token list
    """
    found = app.maestro.tokens.list()
    if as_json:
        output.document({"tokens": found})
        return
    if not found:
        output.note("no tokens yet: maestro token add USER")
        return
    rows = [
        (one.id, output.safe(one.user), one.role, one.created_at, one.expires_at or "", one.last_used_at or "never")
        for one in found
    ]
    output.table(("token", "user", "may", "made", "until", "last used"), rows)


@token.command()
@click.argument("token_id", metavar="ID")
@json_option
@pass_app
def revoke(app: App, token_id: str, as_json: bool) -> None:
    """Revoke a token: whoever has it is let in no more.

    \b
    Example:
      maestro token revoke k3v9x2ab
    """
    revoked = app.maestro.tokens.revoke(token_id)
    output.result({"revoked": revoked}, f"{revoked} revoked", as_json=as_json)
