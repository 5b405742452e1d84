"""Who a message is of, besides its role: its text could claim to be anybody's."""

from __future__ import annotations

from typing import Any

from maestro_cli import output

#: Longest that is shown of what somebody calls themselves.
_MOST = 80


def author(user: object, metadata: object, role: object) -> str:
    """Return in brackets who wrote a message and by what: nothing where that is the session's owner by hand.

    The tool of a run wrote its answer; the question is somebody's who asked it.
    """
    known: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    by = known.get("client") or (known.get("tool") if role != "user" else None)
    said = [output.safe(" ".join(one.split()))[:_MOST] for one in (user, by) if isinstance(one, str) and one]
    return f" ({', '.join(said)})" if said else ""
