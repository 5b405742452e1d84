"""Maestro: one live session for all your AI command-line tools.

    from maestro_state import Maestro

    with Maestro() as maestro:
        session = maestro.sessions.start("fix-login")
        maestro.messages.add("user", "why does the login fail?")

`AsyncMaestro` has the same rooms and verbs, awaited. Names are imported when first used: a command that only lists
sessions does not pay for asyncio.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes longer to import than a whole command that is handed over
if TYPE_CHECKING:
    from typing import Any

    from maestro_state._async.maestro import AsyncMaestro
    from maestro_state._sync.maestro import Maestro
    from maestro_state.contents import Added, ContextItem, ListedItem
    from maestro_state.errors import MaestroError
    from maestro_state.models import Event, Field, Message, Session, SessionStatus, SessionSummary, Terminal
    from maestro_state.states import Liveness, SessionState

__version__ = "0.1.0"

__all__ = [
    "Added",
    "AsyncMaestro",
    "ContextItem",
    "Event",
    "Field",
    "ListedItem",
    "Liveness",
    "Maestro",
    "MaestroError",
    "Message",
    "Session",
    "SessionState",
    "SessionStatus",
    "SessionSummary",
    "Terminal",
    "__version__",
]

_HOMES = {
    "Added": "maestro_state.contents",
    "ContextItem": "maestro_state.contents",
    "ListedItem": "maestro_state.contents",
    "AsyncMaestro": "maestro_state._async.maestro",
    "Maestro": "maestro_state._sync.maestro",
    "MaestroError": "maestro_state.errors",
    "Liveness": "maestro_state.states",
    "SessionState": "maestro_state.states",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "maestro_state.models")), name)
    globals()[name] = value
    return value
