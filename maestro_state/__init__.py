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
    from maestro_state.api.preload import preload
    from maestro_state.discuss.replay import ReplayOutcome
    from maestro_state.errors import MaestroError, NotFound, Refused, ServerUnavailable, UsageError, WorkFailed
    from maestro_state.local.stack import StackStatus, StackStopped
    from maestro_state.mirror.leaks import Leak
    from maestro_state.mirror.retention import CleanupReport
    from maestro_state.models.context import Added, ContextItem, ListedItem
    from maestro_state.models.discussion import Discussion, Meta, TranscriptEvent
    from maestro_state.models.imports import Imported, ImportFailure, ImportReport
    from maestro_state.models.message import Event, Message
    from maestro_state.models.run import Activity, Run, ToolOptions, Usage
    from maestro_state.models.search import Found, Hit
    from maestro_state.models.session import Field, Session, SessionList, SessionStatus, SessionSummary, Terminal
    from maestro_state.models.usage import UsageReport
    from maestro_state.models.work import Accepted, Breadcrumb, WorkSession, WorkView
    from maestro_state.recording.recorder import Recorder, record
    from maestro_state.state.access import Account, access_list
    from maestro_state.tools.tools_file import ToolRow
    from maestro_state.upkeep.sweep import SweepReport
    from maestro_state.vocabulary import Liveness, SessionState
    from maestro_state.work.stats import WorkStats
    from maestro_state.work.timeline import Happening
    from maestro_state.work.tree import Filters, Node

__version__ = "0.1.0"

__all__ = [
    "Accepted", "Account", "Activity", "Added", "AsyncMaestro", "Breadcrumb", "CleanupReport", "ContextItem",
    "Discussion", "Event", "Field", "Filters", "Found", "Happening", "Hit", "ImportFailure", "ImportReport", "Imported",
    "Leak", "ListedItem", "Liveness", "Maestro",
    "MaestroError", "Message", "Meta", "Node", "NotFound", "Recorder", "Refused", "ReplayOutcome", "Run",
    "ServerUnavailable", "Session", "SessionList", "SessionState", "SessionStatus", "SessionSummary", "StackStatus",
    "StackStopped", "SweepReport", "Terminal", "ToolOptions", "ToolRow", "TranscriptEvent", "Usage", "UsageError",
    "UsageReport", "WorkFailed", "WorkSession", "WorkStats", "WorkView", "__version__", "access_list", "preload",
    "record",
]  # fmt: skip

#: Where public names live; what is in none of these modules is nobody's to rely on. All errors are in `errors`.
_HOMES = {
    "aio.maestro": "AsyncMaestro",
    "api.maestro": "Maestro",
    "api.preload": "preload",
    "errors": "MaestroError NotFound Refused ServerUnavailable UsageError WorkFailed",
    "vocabulary": "Liveness SessionState",
    "models.session": "Field Session SessionList SessionStatus SessionSummary Terminal",
    "models.context": "Added ContextItem ListedItem",
    "models.imports": "ImportFailure ImportReport Imported",
    "models.message": "Event Message",
    "models.run": "Activity Run ToolOptions Usage",
    "models.search": "Found Hit",
    "models.usage": "UsageReport",
    "models.work": "Accepted Breadcrumb WorkSession WorkView",
    "work.tree": "Filters Node",
    "work.stats": "WorkStats",
    "work.timeline": "Happening",
    "models.discussion": "Discussion Meta TranscriptEvent",
    "discuss.replay": "ReplayOutcome",
    "tools.tools_file": "ToolRow",
    "local.stack": "StackStatus StackStopped",
    "mirror.leaks": "Leak",
    "mirror.retention": "CleanupReport",
    "recording.recorder": "Recorder record",
    "upkeep.sweep": "SweepReport",
    "state.access": "Account access_list",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = next((home for home, names in _HOMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"maestro_state.{home}"), name)
    globals()[name] = value
    return value
