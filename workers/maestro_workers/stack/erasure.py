"""Have the private server forget what was deleted: its log is written anew soon after somebody asked for it.

What asks is a mark on disk, see `maestro_state.local.embedded.erasure`. It is removed only when the server has said
that the log is new: whoever is killed before that, it is simply done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.local.embedded import erasure, paths
from maestro_state.local.embedded.disk_space import is_full
from maestro_state.local.embedded.probe import ReplyError, open_server, read_info
from maestro_workers.stack.idleness import SERVICE_CLIENT

if TYPE_CHECKING:
    from maestro_state.local.embedded.probe import Link

#: Seconds between two polls of the mark.
POLL_S = 5.0
#: Seconds for which further deletions are waited for, and how many times what the last one took that is at least:
#: who deletes all day must not have a large server write its log all day.
GATHER_S, GATHER_SHARE = 5.0, 10
#: Seconds between two polls of a log that is being written.
_WATCH_S = 0.5
#: Seconds after which it is tried again when it did not work, or there was no room.
RETRY_S = 60.0


class Erasure:
    """Follows the mark of one project; a part of its stack."""

    name = "erasure"

    def __init__(self, root: Path, log: Callable[[str], None]) -> None:
        """Take the project; nothing is connected to yet."""
        self._root = root
        self._log = log
        self._folder = paths.open_folder(root, paths.SERVER_FOLDER, create=True)
        self._link: Link | None = None
        self._connects = False
        self._is_begun = False
        self._trouble = ""
        self._due_s: float | None = None
        self._gather_s = GATHER_S

    def tend(self, now_s: float) -> float:
        """Begin when it is time, or see whether it is done; return in how many seconds to come back at the latest."""
        if not self._is_begun and not erasure.is_asked(self._at):
            self._due_s = None
            return POLL_S
        if self._due_s is None:
            self._due_s = now_s + self._gather_s
        if now_s >= self._due_s:
            is_well = self._go_on()
            # Done, it gathers what is deleted from then on.
            self._due_s = now_s + ((_WATCH_S if self._is_begun else self._gather_s) if is_well else RETRY_S)
        return self._due_s - now_s

    def before_stop(self, *, asked: bool) -> bool:
        """Do it now; False while it is under way. What cannot be done is done when the stack runs again."""
        del asked
        if not self._is_begun and not erasure.is_asked(self._at):
            return True
        return not self._go_on() or not (self._is_begun or erasure.is_asked(self._at))

    def _go_on(self) -> bool:
        """Take the next step; False when there is trouble, which is logged once."""
        try:
            trouble = self._step()
        except TimeoutError:
            self._hang_up()  # a late answer would be taken for the next one
            trouble = "the server does not answer"
        except (ReplyError, OSError, ValueError) as error:
            self._hang_up()  # of another server it is not known what it has done
            trouble = str(error)[:200]
        if trouble and trouble != self._trouble:
            self._log(f"log_not_written_anew reason={trouble!r}")
        self._trouble = trouble
        return not trouble

    def _step(self) -> str:
        """Begin, or see whether it is done; return what is in the way."""
        link = self._connected()
        found = read_info(link.call("INFO", "persistence"))
        if "1" in (found.get("aof_rewrite_in_progress"), found.get("aof_rewrite_scheduled")):
            return ""  # ours, or one that was begun before we were asked
        if self._is_begun:
            self._is_begun = False
            if found.get("aof_last_bgrewrite_status") != "ok":
                return "the server could not write it, see .maestro/server/server.log"
            erasure.finish(self._at)
            took_s = float(found.get("aof_last_rewrite_time_sec", "0"))
            self._gather_s = max(GATHER_S, GATHER_SHARE * took_s)
            self._log("log_written_anew what_was_deleted=gone")
            return ""
        if is_full(self._at, beside_bytes=int(found.get("aof_current_size", "0"))):
            return "there is no room for a second one"
        erasure.begin(self._at)
        link.call("BGREWRITEAOF")
        self._is_begun = True
        return ""

    def _connected(self) -> Link:
        if self._link is None:
            self._link = open_server(paths.socket_address(self._root), name=SERVICE_CLIENT)
            self._connects = True
        return self._link

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link, self._is_begun = None, False

    @property
    def _at(self) -> int:
        assert self._folder is not None  # noqa: S101  # made if it was not there, and ours until `close`
        return self._folder

    def connects(self) -> bool:
        """Tell whether a connection was made since this was last asked: it is not use."""
        connects, self._connects = self._connects, False
        return connects

    def stop(self, timeout_s: float) -> None:
        """Leave the server to itself: it stops by itself what it writes, and the mark is still there."""
        del timeout_s
        self._hang_up()

    def close(self) -> None:
        self._hang_up()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None
