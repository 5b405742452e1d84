"""Settings without the price of validating them again: what every program loads first.

Declared and validated in `settings`, whose imports cost more than most commands; here is the light record
they end in, and the user's private cache of validated results. A secret is never stored, only where it came
from. What could not be cached is slow, never wrong and never an error.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from maestro_state.errors import ConfigError
from maestro_state.fs.opening import replace_file
from maestro_state.fs.private import (
    cache_home,
    config_home,
    is_inside,
    login_name,
    open_private_folder,
    read_private,
    read_project_file,
    read_user_file,
)
from maestro_state.local.trust import SETTINGS_FILE, record_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from maestro_state.local.settings import Resolved

PREFIX = "MAESTRO_"
DEFAULT = "default"
COMMAND_LINE = "command line"

#: Never stored, shown masked.
SECRETS = frozenset({"redis_url", "queue_url"})
#: Of one terminal, not of a machine or a project: from the environment or the command line only.
ENV_ONLY = frozenset({"session", "cookie", "tool"})
#: Of one person: a project's file cannot set it, trusted or not.
USER_ONLY = frozenset({"notify"})
#: Not cached: each is read again where it came from, and `check` is all the validation it has.
_FRESH = SECRETS | ENV_ONLY

#: Results kept; one is under 4 kB.
_KEPT = 64
#: A file changed less than this before it was read may change again without a new timestamp.
_SETTLED_NS = 20_000_000


# No repr, which would show secrets; no eq, which takes a millisecond to generate in every program.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Settings:
    """All settings, validated; meanings and bounds are `settings.MaestroSettings`'s."""

    redis_url: str | None = None
    queue_url: str | None = None
    namespace: str = "maestro"
    user: str = field(default_factory=login_name)
    session: str | None = None
    cookie: str | None = None
    tool: str | None = None
    archive_root: str | None = None
    server_binary: str | None = None
    notify: str | None = None
    ttl_seconds: int = 604_800
    idle_after_seconds: int = 900
    checkpoint_seconds: int = 60
    dirty_grace_seconds: int = 2_592_000
    run_timeout_seconds: int = 3600
    workers: int = 8
    stop_grace_seconds: int = 60
    stack_idle_seconds: int = 1800
    retention_days: int = 30
    cleanup: str = "off"
    max_blob_bytes: int = 16_777_216
    max_output_bytes: int = 268_435_456
    history_bytes: int = 16_384
    wait_replicas: int = 0
    log_level: str = "warning"
    debug: bool = False
    #: Field → "default", "env MAESTRO_X", a file's path or "command line".
    sources: dict[str, str] = field(default_factory=dict)
    #: What the project's file sets but may not before it is trusted.
    ignored: list[str] = field(default_factory=list)


NAMES = tuple(entry.name for entry in fields(Settings) if entry.name not in ("sources", "ignored"))
VARIABLES = {PREFIX + name.upper(): name for name in NAMES}


def load_settings(
    project_root: str | os.PathLike[str] | None, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Gather, validate and return all settings; an override of None counts as not given.

    Raises ConfigError: one line that names the setting, its source and what is allowed.
    """
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    files = _Files(project_root, env)
    chosen = {name: f"env {variable}" for variable, name in VARIABLES.items() if env.get(variable)}
    chosen.update(dict.fromkeys(given, COMMAND_LINE))
    if not files.any and _FRESH.issuperset(chosen):
        loaded = _assemble({}, chosen, [], env, given, {})
        if loaded is not None:
            return loaded
    key = _key(files, env, given)
    loaded = _load(key, files, env, given)
    if loaded is not None:
        return loaded
    from pathlib import Path

    from maestro_state.local.settings import resolve

    result = resolve(Path(project_root) if project_root else None, env, given, files.user)
    # Unchanged since before it was read, so the key does speak of what was validated.
    if files.settled and _key(_Files(project_root, env), env, given) == key:
        _store(key, files, env, result)
    return Settings(**result.values, sources=result.sources, ignored=result.ignored)


def describe(settings: Settings) -> list[dict[str, Any]]:
    """List every setting with its value and source, fit to be shown: secrets are masked."""
    return [
        {"name": name, "value": _shown(name, getattr(settings, name)), "source": settings.sources[name]}
        for name in NAMES
    ]


def unknown_variables(env: Mapping[str, str]) -> list[str]:
    """List the MAESTRO_* variables that set nothing: most often a typing mistake."""
    return sorted(name for name in env if name.startswith(PREFIX) and name not in VARIABLES)


def check(name: str, value: object) -> str:
    """Return a text setting in its final form, without pydantic's help; raise ValueError with the reason."""
    if not isinstance(value, str):
        raise ValueError("must be text")
    if name not in SECRETS:
        if not value.isprintable() or not 0 < len(value) <= 128:
            raise ValueError("must be 1 to 128 printable characters")
        return value
    from maestro_state.net.url import parse_url

    try:
        address = parse_url(value)
    except ConfigError as error:
        raise ValueError(f"{error}; {error.hint}" if error.hint else str(error)) from None
    if name == "queue_url" and address.scheme == "redis+cluster":
        raise ValueError("the queue does not run on a cluster; use redis://, rediss://, unix:// or redis+sentinel://")
    return value.strip()


class _Files:
    """Where the settings files are, and which version of each is there now."""

    def __init__(self, project_root: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        home = config_home(env)
        self.root = None if project_root is None else os.path.abspath(project_root)
        self.user = None if home is None else os.path.join(home, "maestro", "settings.toml")
        self.project = None if self.root is None else os.path.join(self.root, SETTINGS_FILE)
        self.user_version = _version(self.user)
        self.project_version = _version(self.project)
        self.any = self.user_version is not None or self.project_version is not None
        # Trust matters only where there is something to trust.
        self.trust_version = None if self.project_version is None else _version(record_path(env))
        versions = [self.user_version, self.project_version, self.trust_version]
        newest_ns = max((version[-1] for version in versions if version), default=0)
        #: Any later change is sure to show in a version.
        self.settled = time.time_ns() - newest_ns > _SETTLED_NS

    def read(self, path: str) -> bytes | None:
        """Read one of the two, each in the way it may be read."""
        if path == self.user:
            return read_user_file(path)
        if self.root is None or path != self.project:
            return None
        return read_project_file(self.root, SETTINGS_FILE)


def _version(path: str | None) -> list[int] | None:
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        # A dangling link is there and yet cannot be read: let the validating side say so.
        return [0] * 5 if os.path.islink(path) else None
    # The change time cannot be set back, unlike the modification time.
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _key(files: _Files, env: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """Return the digest of all that a result depends on; of secrets, only that they are set."""
    from hashlib import sha256
    from json import dumps

    code = __file__
    parts = [
        [sys.version, os.geteuid()],
        [[path, _version(path)] for path in (code, os.path.join(os.path.dirname(code), "settings.py"))],
        [[v, n in _FRESH or env[v]] for v, n in VARIABLES.items() if env.get(v)],
        [[n, n in _FRESH or [type(value).__name__, str(value)]] for n, value in sorted(given.items())],
        [files.user, files.user_version],
        [files.project, files.project_version],
    ]
    if files.project_version is not None:
        parts.append([os.path.realpath(files.root or ""), files.trust_version])
    return sha256(dumps(parts).encode()).hexdigest()


def _load(key: str, files: _Files, env: Mapping[str, str], given: Mapping[str, Any]) -> Settings | None:
    """Return the stored result, or None when there is none that can be believed."""
    folder = _open_cache(files, env, create=False)
    if folder is None:
        return None
    try:
        content = read_private(folder, f"{key}.json")
    except OSError:
        return None
    finally:
        os.close(folder)
    body = _unseal(content or b"")
    if body is None:
        return None
    from json import loads

    stored = loads(body)
    contents: dict[str, dict[str, Any]] = {}
    for path, digest in stored["digests"].items():
        table = _reread(files, path, digest)
        if table is None:
            return None
        contents[path] = table
    return _assemble(stored["values"], stored["sources"], stored["ignored"], env, given, contents)


def _reread(files: _Files, path: str, digest: str) -> dict[str, Any] | None:
    """Read a file that holds a secret again, provided that it is the very content that was validated."""
    from hashlib import sha256
    from tomllib import loads

    try:
        content = files.read(path)
    except OSError:
        return None
    if content is None or sha256(content).hexdigest() != digest:
        return None
    return loads(content.decode())


def _assemble(
    values: dict[str, Any],
    sources: Mapping[str, str],
    ignored: list[str],
    env: Mapping[str, str],
    given: Mapping[str, Any],
    contents: Mapping[str, Mapping[str, Any]],
) -> Settings | None:
    """Add what is always read afresh; None when that is not valid (the validating side explains it best)."""
    values = dict(values)
    for name in _FRESH.intersection(sources):
        source = sources[name]
        if source == COMMAND_LINE:
            raw = given.get(name)
        elif source.startswith("env "):
            raw = env.get(source.removeprefix("env "))
        else:
            raw = contents.get(source, {}).get(name)
        try:
            values[name] = check(name, raw)
        except ValueError:
            return None
    return Settings(**values, sources={name: sources.get(name, DEFAULT) for name in NAMES}, ignored=ignored)


def _store(key: str, files: _Files, env: Mapping[str, str], result: Resolved) -> None:
    """Keep a validated result for the next program; give up without a word where that is not possible."""
    from json import dumps

    sources = {name: source for name, source in result.sources.items() if source != DEFAULT}
    secret_files = {sources[name] for name in SECRETS.intersection(sources)}.intersection(result.digests)
    body = dumps(
        {
            "values": {name: result.values[name] for name in sources if name not in _FRESH},
            "sources": sources,
            "ignored": result.ignored,
            "digests": {path: result.digests[path] for path in secret_files},
        }
    )
    folder = _open_cache(files, env, create=True)
    if folder is None:
        return
    try:
        replace_file(folder, f"{key}.json", _seal(body.encode()), durable=False)
        _prune(folder)
    except OSError:
        return
    finally:
        os.close(folder)


def _seal(body: bytes) -> bytes:
    from hashlib import sha256

    return sha256(body).hexdigest().encode() + b"\n" + body


def _unseal(content: bytes) -> bytes | None:
    """Return what was sealed, or None for a file that is cut short or damaged."""
    _, _, body = content.partition(b"\n")
    return body if body and _seal(body) == content else None


def _open_cache(files: _Files, env: Mapping[str, str], *, create: bool) -> int | None:
    home = cache_home(env)
    if home is None or is_inside(home, files.root):
        return None
    # Reading makes no folder, and writing makes none in the place of a home that is not there.
    if not os.path.isdir(os.path.dirname(home) if create else os.path.join(home, "maestro", "settings")):
        return None
    try:
        return open_private_folder(home, "maestro", "settings")
    except OSError:
        return None


def _prune(folder: int) -> None:
    names = os.listdir(folder)
    if len(names) <= _KEPT:
        return
    ages = sorted((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns, name) for name in names)
    for _, name in ages[: len(names) - _KEPT]:
        os.unlink(name, dir_fd=folder)


def _shown(name: str, value: Any) -> Any:
    if name not in SECRETS or value is None:
        return value
    from maestro_state.net.url import masked

    return masked(value)
