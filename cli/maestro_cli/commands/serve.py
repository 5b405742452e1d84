"""`maestro serve`: sessions over HTTP."""

from __future__ import annotations

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_state.errors import ConfigError, UsageError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option("--port", default=4175, show_default=True, type=click.IntRange(0, 65535), metavar="PORT", help="Port.")
@click.option("--require-auth", is_flag=True, help="Nobody gets in without a token (maestro token add).")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name it may be asked by.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front does TLS.")
@click.option("--tls-cert", metavar="FILE", help="Certificate to serve TLS with.")
@click.option("--tls-key", metavar="FILE", help="Its private key.")
@click.option("--read-only", is_flag=True, help="Nothing can be changed.")
@click.option("--no-web", is_flag=True, help="No page.")
@click.option("--no-mcp", is_flag=True, help="No MCP server at /mcp.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser, signed in.")
@json_option
@pass_app
def serve(
    app: App,
    host: str,
    port: int,
    require_auth: bool,
    hosts: tuple[str, ...],
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
    read_only: bool,
    no_web: bool,
    no_mcp: bool,
    opens: bool,
    as_json: bool,
) -> int:
    """Serve sessions over HTTP: an API, live events, and a page.

    Only this machine reaches it unless --host says otherwise, which takes tokens. Needs the extra serve.

    \b
    Example:
      maestro serve --open
      maestro serve --port 0 --json
    """
    from maestro_state.serve import build_app, check_packages
    from maestro_state.serve.options import Options

    try:
        check_packages()
    except ImportError as error:
        raise UsageError(str(error.msg)) from None
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key go together")
    options = Options(
        host=host,
        port=port,
        require_auth=require_auth,
        allow_hosts=hosts,
        read_only=read_only,
        web=not no_web,
        mcp=not no_mcp,
        behind_proxy=behind_proxy,
        tls=tls_cert is not None,
    )
    _check(options.is_loopback, options.require_auth, tls=options.tls or behind_proxy)
    from maestro_state.local.logs import configure_logs
    from maestro_state.serve.running import listen, serve

    configure_logs("info")  # who changed what is among it
    served = build_app(options, project=app.folder, session=app.session_ref)
    line = listen(host, port)
    named = f"[{host}]" if ":" in host else host
    url = f"{'https' if options.tls else 'http'}://{named}:{line.getsockname()[1]}"

    def ready() -> None:
        if as_json:
            output.json_line({"url": url})
        else:
            output.line(f"serving {url} (Ctrl-C stops)")
        if opens:
            click.launch(served.entrance(url))

    started = serve(served, line, ready, cert=tls_cert, key=tls_key)
    return 0 if started else 5


def _check(is_loopback: bool, require_auth: bool, *, tls: bool) -> None:
    if is_loopback:
        return
    if not require_auth:
        raise ConfigError(
            "others can reach this address, and nobody would be asked for a token",
            hint="add --require-auth, and give each user a token: maestro token add USER",
        )
    if not tls:
        raise ConfigError(
            "others can reach this address, and tokens would be sent in the clear",
            hint="add --tls-cert and --tls-key, or --behind-proxy where a proxy does TLS",
        )
