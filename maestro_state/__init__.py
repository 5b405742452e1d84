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

    from maestro_state.aio.maestro import AsyncMaestro
    from maestro_state.api.maestro import Maestro
    from maestro_state.errors import MaestroError
    from maestro_state.models.context import Added, ContextItem, ListedItem
    from maestro_state.models.message import Event, Message
    from maestro_state.models.session import Field, Session, SessionStatus, SessionSummary, Terminal
    from maestro_state.vocabulary import Liveness, SessionState

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
    "Added": "maestro_state.models.context",
    "ContextItem": "maestro_state.models.context",
    "ListedItem": "maestro_state.models.context",
    "AsyncMaestro": "maestro_state.aio.maestro",
    "Maestro": "maestro_state.api.maestro",
    "Event": "maestro_state.models.message",
    "Message": "maestro_state.models.message",
    "MaestroError": "maestro_state.errors",
    "Liveness": "maestro_state.vocabulary",
    "SessionState": "maestro_state.vocabulary",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "maestro_state.models.session")), name)
    globals()[name] = value
    return value
