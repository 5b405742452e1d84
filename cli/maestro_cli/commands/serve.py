"""`maestro serve`: sessions over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app
from maestro_state.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from maestro_state.serve.options import Options


#: What means every address, and one of them by which it is reached from here: by its own name it is asked by nobody.
_EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound here


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option("--port", default=4175, show_default=True, type=click.IntRange(0, 65535), metavar="PORT", help="Port.")
@click.option("--require-auth", is_flag=True, help="Nobody gets in without a token (maestro token add).")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name it may be asked by.")
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may ask, with a token."
)
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
    origins: tuple[str, ...],
    behind_proxy: bool,
    tls_cert: str | None,
    tls_key: str | None,
    read_only: bool,
    no_web: bool,
    no_mcp: bool,
    opens: bool,
    as_json: bool,
) -> None:
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
        allow_origins=tuple(map(_origin, origins)),
        read_only=read_only,
        web=not no_web,
        mcp=not no_mcp,
        behind_proxy=behind_proxy,
        tls=tls_cert is not None,
    )
    _check(options)
    if tls_cert and tls_key:
        _check_certificate(tls_cert, tls_key)
    from maestro_state.local.listening import listen
    from maestro_state.local.logs import configure_logs
    from maestro_state.serve.server import serve

    configure_logs("info")  # who changed what is among it
    served = build_app(options, project=app.folder, session=app.session_ref)
    line = listen(host, port)
    reached = _EVERY.get(host, host)
    named = f"[{reached}]" if ":" in reached else reached
    url = f"{'https' if options.tls else 'http'}://{named}:{line.getsockname()[1]}"

    def ready() -> None:
        if as_json:
            output.json_line({"url": url})
        else:
            elsewhere = ", and at every address of this machine" if host in _EVERY else ""
            output.line(f"serving {url}{elsewhere} (Ctrl-C stops)")
        if opens:
            _open(served.entrance(url))

    serve(served, line, ready, cert=tls_cert, key=tls_key)
    output.note("\nstopped")


def _open(url: str) -> None:
    """Open a browser, without waiting for it: the page is served by who would wait."""
    import threading

    threading.Thread(target=_start_browser, args=(url,), daemon=True).start()


def _start_browser(url: str) -> None:
    """Start a browser; where there is none, say where to go: its code is for who reads the screen, not for a log."""
    import webbrowser

    if webbrowser.open(url):
        return
    if sys.stderr.isatty():
        output.note(f"no browser can be started here; open this in one:\n{url}")
    else:
        output.warning("no browser can be started here")


def _origin(url: str) -> str:
    """Return a site as browsers name it; refuse what is none, and what would be every site."""
    from urllib.parse import urlsplit

    try:
        found = urlsplit(url)
        is_site = found.scheme in ("http", "https") and bool(found.hostname) and not found.username
        is_site = is_site and found.path in ("", "/") and not found.query and not found.fragment and "*" not in url
    except ValueError:
        is_site = False
    if not is_site:
        raise UsageError(f"'{url[:80]}' is not a site", hint="--allow-origin https://dashboard.example")
    return f"{found.scheme}://{found.netloc}".lower()


def _check(options: Options) -> None:
    if options.allow_origins and not options.require_auth:
        raise ConfigError(
            "pages of another site could change anything here, and nobody would be asked for a token",
            hint="add --require-auth, and give each user a token: maestro token add USER",
        )
    if options.behind_proxy and not options.require_auth:
        raise ConfigError(
            "whoever reaches the proxy reaches this, and nobody would be asked for a token",
            hint="add --require-auth, and give each user a token: maestro token add USER",
        )
    if options.is_loopback:
        return
    if not options.require_auth:
        raise ConfigError(
            "others can reach this address, and nobody would be asked for a token",
            hint="add --require-auth, and give each user a token: maestro token add USER",
        )
    if not options.tls and not options.behind_proxy:
        raise ConfigError(
            "others can reach this address, and tokens would be sent in the clear",
            hint="add --tls-cert and --tls-key, or --behind-proxy where a proxy does TLS",
        )


def _check_certificate(cert: str, key: str) -> None:
    import ssl

    try:
        # The callback: a key behind a passphrase must not have anybody asked in the middle of the log.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"the certificate or its key cannot be used: {reason}", hint="PEM files, the key without a passphrase"
        ) from None
