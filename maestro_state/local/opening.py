"""From a folder and an environment to everything a Maestro needs before its first call. Opens nothing itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from maestro_state.errors import ConfigError
from maestro_state.local.project import Project
from maestro_state.local.settings import Settings, load_settings
from maestro_state.net.url import Address, parse_url
from maestro_state.state.calls.terms import Terms, unwritten_ms
from maestro_state.state.keys import Keyspace

#: How far the clocks of a team's machines may differ, in milliseconds, before a living owner counts as gone.
SKEW_MS = 30_000


@dataclass(frozen=True, slots=True)
class Opening:
    """Where the project, its settings and its server are."""

    project: Project
    settings: Settings
    address: Address
    revive: Callable[[], None] | None  #: starts the embedded server; None for a server of somebody else's
    terms: Terms

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str] | None,
        environment: Mapping[str, str],
        overrides: dict[str, Any],
        client: Any = None,
    ) -> Opening:
        """Find the project and read its settings; the server is that of a redis-py `client`, if there is one."""
        if client is not None:
            if overrides.get("redis_url"):
                raise ConfigError("client= and redis_url= both say where the server is", hint="give one of them")
            from maestro_state.net.own_client import url_of

            overrides = overrides | {"redis_url": url_of(client)}
        project = Project.at(folder)
        root = project.path
        settings = load_settings(root, environment, overrides)
        terms = Terms(
            keys=Keyspace(settings.namespace),
            user=settings.user,
            ttl_ms=settings.ttl_seconds * 1000,
            grace_ms=unwritten_ms(settings.dirty_grace_seconds),
            idle_after_ms=settings.idle_after_seconds * 1000,
            max_value_bytes=settings.max_blob_bytes,
            # On a socket everybody is on one machine.
            skew_ms=0 if (settings.redis_url or "unix://").startswith("unix://") else SKEW_MS,
            wait_replicas=settings.wait_replicas,
        )
        if settings.redis_url:
            return cls(project, settings, parse_url(settings.redis_url), None, terms)

        def revive() -> None:
            from pathlib import Path

            from maestro_state.local.embedded import ensure

            project.check_begun()
            project.sessions(create=True).close()
            ensure(Path(root), binary=settings.server_binary)

        from maestro_state.local.embedded.paths import socket_address

        return cls(project, settings, Address(scheme="unix", path=socket_address(root)), revive, terms)
