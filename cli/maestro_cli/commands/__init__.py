"""The commands, one file for each noun, and the table that says which file has which. A new one is added here."""

from __future__ import annotations

#: Command → its file here, where the function has the command's name; from daily use to upkeep.
COMMANDS = {
    "session": "session",
    "run": "run",
    "status": "session",
    "runs": "runs",
    "show": "runs",
    "wait": "runs",
    "cancel": "runs",
    "context": "context",
    "use": "tool",
    "tool": "tool",
    "watch": "watch",
    "message": "message",
    "messages": "message",
    "search": "search",
    "usage": "usage",
    "worker": "worker",
    "discuss": "discuss",
    "wsession": "wsession",
    "work": "breadcrumbs",
    "export": "archive",
    "pull": "archive",
    "verify": "archive",
    "cleanup": "archive",
    "sweep": "archive",
    "stack": "stack",
    "config": "config",
    "trust": "config",
    "doctor": "doctor",
    "scheduler": "scheduler",
    "acl": "acl",
    "completion": "completion",
}
