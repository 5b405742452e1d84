"""The private server a project runs on when no other one is configured.

Everything about its processes, files and locks ends here; callers get a socket to connect to. Names are
imported when first used: a command that finds the server running pays only for its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maestro_state.local.embedded.control import (
        Status,
        cut_off,
        is_running,
        repair_log,
        settle,
        status,
        stop,
        vouch_for_data,
    )
    from maestro_state.local.embedded.paths import socket_address, socket_path
    from maestro_state.local.embedded.server import ensure
    from maestro_state.local.embedded.supervision import (
        await_supervisor,
        ensure_supervisor,
        heal,
        is_starting,
        supervisor_alive,
    )

__all__ = [
    "Status",
    "await_supervisor",
    "cut_off",
    "ensure",
    "ensure_supervisor",
    "heal",
    "is_running",
    "is_starting",
    "repair_log",
    "settle",
    "socket_address",
    "socket_path",
    "status",
    "stop",
    "supervisor_alive",
    "vouch_for_data",
]

_HOMES = {
    "socket_address": "paths",
    "socket_path": "paths",
    "ensure": "server",
    "await_supervisor": "supervision",
    "ensure_supervisor": "supervision",
    "heal": "supervision",
    "is_starting": "supervision",
    "supervisor_alive": "supervision",
    "vouch_for_data": "control",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'control')}"), name)
    globals()[name] = value
    return value
