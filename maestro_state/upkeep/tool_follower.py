"""Following one start of a tool: every conversation that is held in it comes into the live session, as it goes on.

A tool may begin another conversation at any time; the server may be away for a while; the session may end or expire
while somebody still sits in the tool. Then what is said goes on in a fork, and nothing is lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from maestro_state._sync.follow import Follow
from maestro_state._sync.records import Records
from maestro_state.errors import InvalidTransition, MaestroError, ServerUnavailable, SessionExpired, SessionNotFound
from maestro_state.histories.followed_conversations import FollowedConversation, FollowedConversations
from maestro_state.histories.ownership import OwnedConversations, Start, by_ids
from maestro_state.histories.readers import Reader, reader_of
from maestro_state.histories.values import Conversation
from maestro_state.local.process_tree import identity
from maestro_state.models.session import Terminal
from maestro_state.state.calls.terminals import BEAT_MS
from maestro_state.upkeep.history_follower import POLL_S, HistoryFollower

#: Seconds between two searches for conversations, while there is none and when there is one.
_SEARCH_S, _SEARCH_AGAIN_S = 0.4, 2.0
#: Seconds between two attempts to reach a server that is away; and attempts once the tool has ended.
_RETRY_S, _LAST_TRIES = 1.0, 5

#: What is said to whoever writes into a session that is over.
_OVER = (InvalidTransition, SessionExpired)


class StartFollower:
    """Follows what is said in one start of a tool."""

    def __init__(
        self,
        sessions: Records,
        follow: Follow,
        opened: FollowedConversations,
        follower: Callable[[], HistoryFollower],
        fork: Callable[[str], str],
    ) -> None:
        """Take the rooms it needs, what brings one conversation into a session, and what forks a session."""
        self._sessions, self._room, self._opened = sessions, follow, opened
        self._make, self._fork = follower, fork
        self._followed: dict[str, HistoryFollower] = {}
        self._known: dict[str, Conversation] = {}
        self._searched_s = self._shown_s = -1e9
        self.session_ids: list[str] = []  #: where it was said; the last one is where it goes on
        self.said = 0
        self.in_doubt: list[str] = []  #: conversations that may be of this start, and that nobody followed

    def follow(
        self,
        start: Start,
        session_id: str,
        terminal: Terminal | None,
        environment: Mapping[str, str],
        home: str,
        is_over: Callable[[], object],
    ) -> int:
        """Follow until the tool is gone and everything is said; return how many messages were added."""
        self.session_ids = [session_id]
        reader, owned = reader_of(start.tool), OwnedConversations(start, environment, home)
        tries = _LAST_TRIES
        try:
            while tries:
                is_last = bool(is_over())  # asked first: what is written until then is taken
                try:
                    self._show(terminal)
                    self._search(reader, owned, start, at_once=is_last)
                    for one in self._followed.values():
                        one.poll()
                except _OVER:
                    self._go_on_in_a_fork(reader, start)
                    continue
                except SessionNotFound:
                    self._followed.clear()
                    break  # deleted on purpose: the tool's own history has it
                except ServerUnavailable:
                    self._forget()
                    tries -= is_last
                    time.sleep(_RETRY_S)
                    continue
                if is_last:
                    self._end(start)
                    self.in_doubt = [one for one in owned.in_doubt() if self._opened.get(start.tool, one) is None]
                    break
                time.sleep(POLL_S)
        finally:
            self._detach(terminal)
        return self.said

    def _show(self, terminal: Terminal | None) -> None:
        """Show where the tool is as attached."""
        if terminal is None or time.monotonic() - self._shown_s < BEAT_MS / 1000:
            return
        if self._shown_s < 0:
            self._room.attach(terminal, self.session_ids[-1])
        else:
            self._room.keep(terminal, self.session_ids[-1])
        self._shown_s = time.monotonic()

    def _detach(self, terminal: Terminal | None) -> None:
        if terminal is not None:
            with suppress(MaestroError):
                self._room.detach(terminal, self.session_ids[-1])

    def _search(self, reader: Reader, owned: OwnedConversations, start: Start, *, at_once: bool) -> None:
        """Begin with conversations that are new, or that the server's absence made us let go of."""
        for key in self._known.keys() - self._followed.keys():
            self._begin(reader, self._known[key], start)
        wait_s = _SEARCH_AGAIN_S if self._known else _SEARCH_S
        if not at_once and time.monotonic() - self._searched_s < wait_s:
            return
        self._searched_s = time.monotonic()
        for one in owned.find({one.external_id for one in self._known.values()}):
            self._known[_key(one)] = one
            self._begin(reader, one, start)

    def _begin(self, reader: Reader, one: Conversation, start: Start) -> None:
        before = self._opened.get(one.tool, one.external_id)
        sessions, since_ms = self._with_earlier(before), start.started_ms
        if before and not before.is_over and before.sessions[-1:] == self.session_ids[:1]:
            since_ms = min(before.since_ms, since_ms)
        follower = self._make()
        follower.begin(reader, one, sessions, since_ms)
        self._followed[_key(one)] = follower
        self._keep(one, sessions, since_ms)

    def _with_earlier(self, before: FollowedConversation | None) -> list[str]:
        """Return where a conversation was said, earlier sessions first: an import must find their part, too."""
        earlier = before.sessions if before else []
        return [*(one for one in earlier if one not in self.session_ids), *self.session_ids]

    def _keep(self, one: Conversation, sessions: list[str], since_ms: int, *, is_over: bool = False) -> None:
        me = None if is_over else identity(os.getpid())
        self._opened.put(
            FollowedConversation(
                tool=one.tool,
                external_id=one.external_id,
                sessions=sessions,
                since_ms=since_ms,
                is_over=is_over,
                follower=me,
            )
        )

    def _go_on_in_a_fork(self, reader: Reader, start: Start) -> None:
        before = self.session_ids[-1]
        self.session_ids.append(self._fork(before))
        self._shown_s = -1e9
        followed, self._followed = self._followed, {}
        self.said += sum(one.said for one in followed.values())
        for key in followed:
            self._begin(reader, self._known[key], start)

    def _forget(self) -> None:
        """Let go of what was being said: it is begun again from what the server has."""
        self.said += sum(one.said for one in self._followed.values())
        self._followed.clear()
        self._shown_s = -1e9

    def _end(self, start: Start) -> None:
        for key, one in self._followed.items():
            one.end()
            self.said += one.said
            conversation = self._known[key]
            before = self._opened.get(conversation.tool, conversation.external_id)
            self._keep(conversation, self._with_earlier(before), start.started_ms, is_over=True)


def _key(one: Conversation) -> str:
    """Return what tells histories apart: a conversation that is gone on with may have more than one."""
    return f"{one.external_id} {one.path}"


class LeftBehind:
    """What followers that were killed left unsaid."""

    def __init__(
        self,
        opened: FollowedConversations,
        follower: Callable[[], HistoryFollower],
        fork: Callable[[str], str],
        roots: Callable[[Reader], list[str]],
    ) -> None:
        """Take what is known of them, what brings a conversation into a session, and where histories are."""
        self._opened, self._make, self._fork, self._roots = opened, follower, fork, roots

    def catch_up(self, tool: str | None, projects: list[str]) -> int:
        """Say it; return how many messages were added."""
        return sum(self._catch_up(one, projects) for one in self._opened.unfinished(tool))

    def _catch_up(self, left: FollowedConversation, projects: list[str]) -> int:
        pid = (left.follower or "").partition(":")[0]
        if pid.isdigit() and identity(int(pid)) == left.follower:
            return 0  # it is being followed
        try:
            reader = reader_of(left.tool)
            found = by_ids(reader, self._roots(reader), [left.external_id])
            # What lies below .maestro may come from elsewhere: it must not bring in another project's conversations.
            held = [one for one in found if one.cwd is None or any(one.is_of(root) for root in projects)]
            said = sum(self._say(reader, one, left) for one in held)
        except ServerUnavailable:
            return 0
        except (MaestroError, OSError):
            said = 0  # the session or the history is gone
        left.is_over, left.follower = True, None
        self._opened.put(left)
        return said

    def _say(self, reader: Reader, one: Conversation, left: FollowedConversation) -> int:
        said = 0
        for _ in range(2):
            follower = self._make()
            try:
                follower.begin(reader, one, left.sessions, left.since_ms)
                follower.poll()
                follower.end()
                return said + follower.said
            except _OVER:
                said += follower.said
                left.sessions.append(self._fork(left.sessions[-1]))
        return said
