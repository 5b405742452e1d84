"""The address of a state server: from text, to text, and to text that may be shown.

Pure: opens nothing. A refusal never repeats any part of the text that could be a piece of a password, even
when the text is so malformed that the password ended up where a host or a port is expected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maestro_state.errors import ConfigError

#: What connections call themselves unless told otherwise.
CLIENT_NAME = "maestro"

_PORT = 6379
_SENTINEL_PORT = 26379
_FORMS = "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"})
_OPTIONS = {
    "redis": frozenset({"db", "timeout"}),
    "rediss": frozenset({"db", "timeout"}) | _TLS_OPTIONS,
    "unix": frozenset({"db", "timeout"}),
    "redis+sentinel": _TLS_OPTIONS | {"db", "timeout", "ssl", "sentinel_username", "sentinel_password"},
    "redis+cluster": frozenset({"timeout", "ssl"}) | _TLS_OPTIONS,
}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to be let in."""

    #: redis, rediss, unix, redis+sentinel or redis+cluster.
    scheme: str
    #: One for redis and rediss; all that were named for Sentinel and Cluster; none for unix.
    hosts: tuple[tuple[str, int], ...] = ()
    #: Socket file of a unix address.
    path: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    #: Name of the master that Sentinel watches.
    service: str | None = None
    #: Seconds to wait for a connection or an answer; None takes the caller's.
    timeout_s: float | None = None
    tls: bool = False
    ssl_ca_certs: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_check_hostname: bool = True
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    #: What connections are called in CLIENT LIST.
    client_name: str = CLIENT_NAME
    #: What to correct when nobody is there.
    setting: str = "MAESTRO_REDIS_URL"

    @property
    def is_embedded(self) -> bool:
        """Tell whether the path is one at which only a project's own server listens, whoever named it."""
        if self.scheme != "unix" or not self.path:
            return False
        *_, outer, inner, name = ("", "", *self.path.split("/"))
        return name == "s.sock" and ((outer, inner) == (".maestro", "server") or outer.startswith("maestro-"))

    def __str__(self) -> str:
        """Return it as errors name the server, fit to be shown."""
        return masked(self)


def parse_url(text: str) -> Address:
    """Read an address; raise ConfigError when it is not one."""
    scheme, separator, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _OPTIONS:
        shown = f" '{scheme}'" if separator and scheme.replace("+", "").isalnum() else ""
        raise ConfigError(f"the server address has an unknown scheme{shown}", hint=f"use {_FORMS}")
    if "#" in rest and scheme != "unix":
        raise ConfigError(f"a {scheme}:// address has no # in it", hint="in a password, write it as %23")
    rest, _, query = rest.partition("?")
    options = _read_options(scheme, query)
    username, password, rest = _split_credentials(scheme, rest)
    where, slash, tail = rest.partition("/")
    path: str | None = None
    service: str | None = None
    hosts: tuple[tuple[str, int], ...] = ()
    db_text = options.pop("db", "")
    if scheme == "unix":
        path = _decode(slash + tail)
        if where or len(path) < 2:
            raise ConfigError("a unix:// address needs the absolute path of a socket", hint="unix:///run/maestro.sock")
    else:
        hosts = _read_hosts(scheme, where)
        if scheme == "redis+sentinel":
            service, _, tail = tail.partition("/")
            service = _decode(service)
            if not service:
                raise ConfigError(
                    "a redis+sentinel:// address needs the name of the master",
                    hint="redis+sentinel://host:26379/mymaster",
                )
        if tail and scheme == "redis+cluster":
            raise ConfigError("a redis+cluster:// address has no database", hint="end it after the hosts")
        db_text = tail or db_text
    secure = options.pop("ssl", "false")
    return Address(
        scheme=scheme,
        hosts=hosts,
        path=path,
        username=username,
        password=password,
        db=_read_db(db_text),
        service=service,
        timeout_s=_read_timeout(options.pop("timeout", None)),
        tls=scheme == "rediss" or _read_truth("ssl", secure),
        ssl_check_hostname=_read_truth("ssl_check_hostname", options.pop("ssl_check_hostname", "true")),
        **options,  # only text options are left, each named as its field
    )


def masked(address: Address | str) -> str:
    """Write an address for people to see: without its password and options."""
    if isinstance(address, str):
        text = address
        try:
            address = parse_url(text)
        except ConfigError:
            return _masked_text(text)
    if address.scheme == "unix":
        where = address.path or ""
    else:
        where = ",".join(_host_text(host, port) for host, port in address.hosts)
    if address.password is not None:
        where = f"{address.username or ''}:***@{where}"
    elif address.username:
        where = f"{address.username}@{where}"
    if address.service:
        where = f"{where}/{address.service}"
    if address.db:
        where = f"{where}?db={address.db}" if address.scheme == "unix" else f"{where}/{address.db}"
    return f"{address.scheme}://{where}"


def _masked_text(text: str) -> str:
    """Mask what could not be read: nothing before the last @ nor after ? is safe to show."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        return "***"
    _, at, where = rest.rpartition("@")
    return f"{scheme}://***@{where.partition('?')[0]}" if at else f"{scheme}://***"


def _decode(text: str) -> str:
    """Undo percent-encoding."""
    if "%" not in text:
        return text
    # Rarely needed, and importing it costs more than everything else here.
    from urllib.parse import unquote

    return unquote(text)


def _split_credentials(scheme: str, rest: str) -> tuple[str | None, str | None, str]:
    """Take user and password off the front, and return them decoded with what is left."""
    if scheme == "unix" and rest.startswith("/"):
        return None, None, rest
    # The last @, so that a password with a bare @ or / in it still stays on this side.
    credentials, at, where = rest.rpartition("@")
    if not at:
        return None, None, rest
    username, colon, password = credentials.partition(":")
    return _decode(username) or None, _decode(password) if colon and password else None, where


def _read_hosts(scheme: str, text: str) -> tuple[tuple[str, int], ...]:
    """Read host:port, or a list of them where the scheme allows one."""
    several = scheme in ("redis+sentinel", "redis+cluster")
    pieces = text.split(",") if several else [text]
    default = _SENTINEL_PORT if scheme == "redis+sentinel" else _PORT
    return tuple(_read_host(scheme, piece, default) for piece in pieces)


def _read_host(scheme: str, text: str, default: int) -> tuple[str, int]:
    """Read one host with its port; brackets around IPv6."""
    if text.startswith("["):
        host, bracket, port_text = text[1:].partition("]")
        if not bracket or (port_text and not port_text.startswith(":")):
            raise ConfigError(
                f"the IPv6 host of the {scheme}:// address is malformed", hint=f"{scheme}://[::1]:{default}"
            )
        port_text = port_text[1:]
    else:
        host, _, port_text = text.partition(":")
    if not host:
        raise ConfigError(f"the {scheme}:// address has no host", hint=f"{scheme}://localhost:{default}")
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else 0 if port_text else default
    if not 1 <= port <= 65535:
        # The value is not repeated: with a bare / in a password it is a piece of that password.
        raise ConfigError(
            f"the port of the {scheme}:// address must be a number from 1 to 65535",
            hint="a password with / : @ ? or # in it has to be percent-encoded",
        )
    name = _decode(host)
    # What no resolver takes is refused here: sockets answer to it with an error about codecs.
    if not name.isprintable() or not all(0 < len(label) < 64 for label in name.removesuffix(".").split(".")):
        raise ConfigError(f"the host of the {scheme}:// address is malformed", hint=f"{scheme}://localhost:{default}")
    return name, port


def _read_options(scheme: str, query: str) -> dict[str, str]:
    """Read ?name=value&…; refuse names that mean nothing for this scheme."""
    options: dict[str, str] = {}
    for piece in query.split("&") if query else []:
        name, _, value = piece.partition("=")
        if name not in _OPTIONS[scheme]:
            # With an @ behind it, the query may be the rest of a password with a bare ? in it.
            shown = f" '{name}'" if "@" not in query and name.isidentifier() else ""
            raise ConfigError(
                f"the {scheme}:// address has an unknown option{shown}",
                hint=f"known: {', '.join(sorted(_OPTIONS[scheme]))}",
            )
        options[name] = _decode(value)
    return options


def _read_db(text: str) -> int:
    """Read a database number."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("the database of the server address must be a number", hint="redis://localhost:6379/0")
    return int(text)


def _read_timeout(text: str | None) -> float | None:
    """Read seconds, more than none."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 86400.0:
        raise ConfigError("the timeout of the server address must be a number of seconds", hint="?timeout=5")
    return seconds


def _read_truth(name: str, text: str) -> bool:
    """Read yes or no."""
    if text.lower() not in _TRUTH:
        raise ConfigError(f"the option '{name}' of the server address must be true or false")
    return _TRUTH[text.lower()]


def _host_text(host: str, port: int) -> str:
    """Write host:port, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
