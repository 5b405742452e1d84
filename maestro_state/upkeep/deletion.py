"""Removing a session from the server, the disk and the index, with nothing lost that was to go to the trash.

The private server's log is asked to be written anew: it has the text of what is deleted. A team's server is its
operator's.
"""

from __future__ import annotations

from maestro_state._sync.server import Server
from maestro_state.errors import Conflict
from maestro_state.local.embedded import erasure
from maestro_state.local.logs import get_logger
from maestro_state.mirror.places import Places
from maestro_state.search.removal import forget
from maestro_state.state.calls import sessions
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.upkeep.checkpoint import Checkpoints

#: How often a session that changes is written again before its removal is given up.
TRIES = 100

_log = get_logger("maestro.deletion")


def delete(server: Server, places: Places, session_id: str, *, is_live: bool, trash: bool) -> None:
    """Remove a session for good; or with its archive in the trash, written to disk first."""
    erasure.ask(places.project.path)
    for _ in range(TRIES):
        if trash and is_live:
            Checkpoints(server, places).checkpoint(session_id)
        # What was added after the checkpoint would be lost: then there is another one.
        if server.run(sessions.delete_session(server.terms, session_id, only_archived=trash)) != "MOVED":
            break
    else:
        raise Conflict(f"session {session_id} keeps changing", hint=f"maestro session end {session_id} first")
    server.unindex(session_id)
    home = places.own
    once_unlocked(lambda: home.move_to_trash(session_id) if trash else home.remove(session_id))
    places.project.index_drop(session_id)
    forget(places.project, [session_id])
    if not erasure.ask(places.project.path):
        _log.warning("log_not_written_anew", session=session_id, reason="it cannot be asked for in .maestro/server")
