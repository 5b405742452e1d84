"""`maestro acl`: who may do what on a team's server."""

from __future__ import annotations

import os

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, pass_app
from maestro_state.errors import ConfigError


@click.command()
@click.option("--terminal", "terminals", multiple=True, metavar="NAME", help="A user for terminals.")
@click.option("--worker", "workers", multiple=True, metavar="NAME", help="A user for workers.")
@click.option("--admin", "admins", multiple=True, metavar="NAME", help="A user who may do everything.")
@click.option(
    "--output",
    "path",
    metavar="FILE",
    shell_complete=offers.paths,
    help="Write it there, for its owner only, instead of printing it.",
)
@click.option("--shared", is_flag=True, help="Let everybody who can enter its folder read the file.")
@pass_app
def acl(
    app: App,
    terminals: tuple[str, ...],
    workers: tuple[str, ...],
    admins: tuple[str, ...],
    path: str | None,
    shared: bool,
) -> None:
    """Write the access list of a team's server.

    Terminals and workers get what they need in MAESTRO_NAMESPACE and nothing else; without a password nobody gets
    in. With no name given there is one user per role, named like it. The password of each
    is read from the environment, REDIS_<NAME>_PASSWORD, and written as a digest.

    \b
    Example:
      export REDIS_ANA_PASSWORD="$(openssl rand -hex 24)"
      maestro acl --terminal ana --output users.acl
    """
    from maestro_state import Account, access_list

    chosen = {"terminal": terminals, "worker": workers, "admin": admins}
    if not any(chosen.values()):
        chosen = {role: (role,) for role in chosen}
    accounts = [Account(name, role, _password(name)) for role, names in chosen.items() for name in names]
    text = access_list(app.maestro.settings.namespace, accounts)
    if path is None:
        output.line(text.rstrip("\n"))
        return
    _write(path, text, 0o644 if shared else 0o600)
    output.line(f"{output.safe(path)}: {', '.join(account.name for account in accounts)}")


def _password(name: str) -> str:
    variable = f"REDIS_{name.upper().replace('-', '_').replace('.', '_')}_PASSWORD"
    password = os.environ.get(variable)
    if not password:
        raise ConfigError(f"no password for {name}", hint=f'export {variable}="$(openssl rand -hex 24)"')
    return password


def _write(path: str, text: str, mode: int) -> None:
    """Replace the file at once: a server that reads it meanwhile gets the old one or the new one."""
    from contextlib import suppress

    beside = f"{path}.{os.getpid()}"
    done = False
    try:
        # Never through what somebody else put there.
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, path)
        done = True
    finally:
        if not done:
            with suppress(FileNotFoundError):
                os.unlink(beside)
