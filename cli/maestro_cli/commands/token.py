"""`maestro token …`: who may ask `maestro serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_cli.app import App, Noun, json_option, pass_app

if TYPE_CHECKING:
    from maestro_state.models.token import Token


@click.group(cls=Noun)
def token() -> None:
    """Give, list and revoke the tokens that maestro serve lets people in by.

    \b
    Example:
      maestro token add ana --days 90
    """


@token.command()
@click.argument("user")
@click.option("--read-only", is_flag=True, help="It may only read.")
@click.option("--admin", is_flag=True, help="It may also do upkeep, make tokens, and delete what others made.")
@click.option("--days", type=click.IntRange(1, 3650), metavar="N", help="How long it counts (default: until revoked).")
@json_option
@pass_app
def add(app: App, user: str, read_only: bool, admin: bool, days: int | None, as_json: bool) -> None:
    """Make a token for USER. It is shown once: only its digest is stored.

    \b
    Example:
      maestro token add ana --read-only
    """
    if read_only and admin:
        raise click.UsageError("--read-only and --admin cannot be used together")
    made = app.maestro.tokens.add(user, role="read" if read_only else "admin" if admin else "write", days=days)
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
    output.table(("token", "user", "may", "made", "until", "last used"), map(_row, found))


def _row(one: Token) -> tuple[str, ...]:
    times = (_when(one.created_at), _when(one.expires_at), _when(one.last_used_at) or "never")
    return (one.id, output.safe(one.user), one.role, *times)


def _when(timestamp: str | None) -> str:
    """Show a time as the clock on the wall does; a pipe gets it as it is kept."""
    if not timestamp or not output.is_terminal():
        return timestamp or ""
    return output.local_time(timestamp, "%Y-%m-%d %H:%M")


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
