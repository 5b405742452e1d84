"""Every exception Maestro raises on purpose, and nothing else.

MaestroError                    code · hint · exit_code
├─ UsageError            2      bad input: refused before anything changed
│     InvalidName · InvalidValue · AmbiguousReference · ConfigError · ContentTooLarge · PathRefused ·
│     SecretFound
├─ NotFound              3
│     SessionNotFound · NoProject · NoActiveSession · ItemNotFound · PathNotFound · ToolNotFound · NoTool ·
│     RunNotFound · RemovedByCleanup · WorkSessionNotFound · DiscussionNotFound · NoOpenDiscussion
│     · NoFittingWorker
├─ Refused               4      not in this state, or somebody else was first
│     InvalidTransition · SessionExpired · SessionExists · Conflict · ContextChanged · RunIsOver · RunsOpen · LostClaim
│     · NewerFormat · NoConversation · WorkSessionClosed · OpenChildren · DiscussionClosed · DiscussionOpen ·
│     TooManyRuns · OverBudget
├─ ServerUnavailable     5      no server, or one that cannot take the write
│     ServerStorageError · NotReplicated
├─ WorkFailed            1      the work itself failed
│     RunFailed · OutputLost · FileCorrupt · DamagedRecord · CursorLost · ArchiveFailed · ArchiveBusy · ReplayFailed
└─ ScriptError           1      a script answered what nobody expects: a bug

The CLI turns `exit_code` into its exit status and `code`/message/`hint` into one line or one JSON document.
A message says what happened and the present state; the hint says what to do next.
"""

from __future__ import annotations

from maestro_state.errors.kinds import (
    ConfigError,
    Conflict,
    CursorLost,
    DamagedRecord,
    FileCorrupt,
    InvalidValue,
    MaestroError,
    NewerFormat,
    NotFound,
    NotReplicated,
    Refused,
    ScriptError,
    ServerStorageError,
    ServerUnavailable,
    UsageError,
    WorkFailed,
)
from maestro_state.errors.runs import (
    ContentTooLarge,
    ContextChanged,
    ItemNotFound,
    LostClaim,
    NoConversation,
    NoFittingWorker,
    NoTool,
    OutputLost,
    OverBudget,
    PathNotFound,
    PathRefused,
    RemovedByCleanup,
    RunFailed,
    RunIsOver,
    RunNotFound,
    RunsOpen,
    SecretFound,
    ToolNotFound,
    TooManyRuns,
)
from maestro_state.errors.sessions import (
    AmbiguousReference,
    ArchiveBusy,
    ArchiveElsewhere,
    ArchiveFailed,
    InvalidName,
    InvalidTransition,
    NoActiveSession,
    NoProject,
    NoWorker,
    SessionExists,
    SessionExpired,
    SessionNotFound,
)
from maestro_state.errors.work import (
    DiscussionClosed,
    DiscussionNotFound,
    DiscussionOpen,
    NoOpenDiscussion,
    OpenChildren,
    ReplayFailed,
    WorkSessionClosed,
    WorkSessionNotFound,
)

__all__ = [
    "AmbiguousReference",
    "ArchiveBusy",
    "ArchiveElsewhere",
    "ArchiveFailed",
    "ConfigError",
    "Conflict",
    "ContentTooLarge",
    "ContextChanged",
    "CursorLost",
    "DamagedRecord",
    "DiscussionClosed",
    "DiscussionNotFound",
    "DiscussionOpen",
    "FileCorrupt",
    "InvalidName",
    "InvalidTransition",
    "InvalidValue",
    "ItemNotFound",
    "LostClaim",
    "MaestroError",
    "NewerFormat",
    "NoActiveSession",
    "NoConversation",
    "NoFittingWorker",
    "NoOpenDiscussion",
    "NoProject",
    "NoTool",
    "NoWorker",
    "NotFound",
    "NotReplicated",
    "OpenChildren",
    "OutputLost",
    "OverBudget",
    "PathNotFound",
    "PathRefused",
    "Refused",
    "RemovedByCleanup",
    "ReplayFailed",
    "RunFailed",
    "RunIsOver",
    "RunNotFound",
    "RunsOpen",
    "ScriptError",
    "SecretFound",
    "ServerStorageError",
    "ServerUnavailable",
    "SessionExists",
    "SessionExpired",
    "SessionNotFound",
    "TooManyRuns",
    "ToolNotFound",
    "UsageError",
    "WorkFailed",
    "WorkSessionClosed",
    "WorkSessionNotFound",
]
