"""Histories: what was said in the AI tools themselves, as archived sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from maestro_state.clock import iso
from maestro_state.errors import MaestroError, PathNotFound, ServerUnavailable, SessionNotFound
from maestro_state.fs.private import user_home
from maestro_state.histories.deduplication import Followed
from maestro_state.histories.facts import Facts
from maestro_state.histories.followed_conversations import FollowedConversations
from maestro_state.histories.ownership import Start
from maestro_state.histories.readers import Reader, reader_of
from maestro_state.histories.run_conversations import RunConversations
from maestro_state.histories.values import Conversation
from maestro_state.mirror.places import Places
from maestro_state.models.imports import ImportReport
from maestro_state.models.names import slug_of
from maestro_state.models.run import Run
from maestro_state.models.work_names import moment_ms
from maestro_state.upkeep.history_follower import POLL_S, HistoryFollower, asked_by, keys_in, newest, turns_in
from maestro_state.upkeep.import_exports import take_back
from maestro_state.upkeep.import_histories import Import, Progress
from maestro_state.upkeep.tool_follower import LeftBehind, StartFollower
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state._sync.follow import Follow
    from maestro_state.api.sessions import Sessions
    from maestro_state.models.session import Terminal


class Histories:
    """Takes over the histories that tools keep of themselves."""

    def __init__(
        self,
        places: Places,
        *,
        user: str,
        ttl_seconds: int,
        environment: Mapping[str, str],
        now_ms: Callable[[], int],
        follower: Callable[[], HistoryFollower],
        sessions: Callable[[], Sessions],
        room: Callable[[], Follow],
    ) -> None:
        """Take where archives go, what no history tells of a session, and who brings one into a live session."""
        self._follower, self._sessions, self._room = follower, sessions, room
        self._opened, self._ran = FollowedConversations(places.project), RunConversations(places.project)
        self._runs: dict[str, list[Run]] = {}  #: of sessions, as an import has read them
        self._away: ServerUnavailable | None = None  #: why it could not ask
        self._places = places
        self._user, self._ttl_seconds = user, ttl_seconds
        self._environment = environment
        self._now_ms = now_ms

    def import_(
        self,
        tool: str,
        paths: Sequence[str | os.PathLike[str]] = (),
        *,
        any_project: bool = False,
        since: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Make archived sessions of a tool's conversations: of this project, unless `any_project`; those of a file that
        is named are always taken. Without paths, from where the tool keeps them. What was imported before is only
        added to. Tool files are never written.
        """
        reader = reader_of(tool)
        if not dry_run:
            self.catch_up(tool)
        now_ms = self._now_ms()
        since_ms = None if since is None else moment_ms(since, now_ms)
        project = self._places.project.path
        facts = Facts(project=project, user=self._user, ttl_seconds=self._ttl_seconds, now=iso(now_ms))
        work = Import(
            self._places,
            reader,
            facts,
            any_project=any_project,
            since_ms=since_ms,
            dry_run=dry_run,
            followed=self._followed,
            is_followed=self._is_in_a_session,
        )
        self._runs, self._away = {}, None
        return work.do([os.fspath(path) for path in paths], self._roots(reader), progress)

    def _roots(self, reader: Reader) -> list[str]:
        return reader.roots(self._environment, self._home())

    def follow(
        self,
        tool: str,
        path: str | os.PathLike[str] | None = None,
        ref: str | None = None,
        *,
        is_over: Callable[[], object] = lambda: False,
    ) -> int:
        """Bring a conversation into a live session as it goes on: a tool's newest of this project, or that of a file.

        What is said there is here within two seconds: messages, what the agent does, each turn as a run with tokens.
        What the session has already is told by the tool's ids. Returns, when `is_over` says so, how many messages were
        added; waits for a conversation where there is none yet.
        """
        reader = reader_of(tool)
        places = [os.path.abspath(path)] if path is not None else self._roots(reader)
        if path is not None and not os.path.exists(path):
            raise PathNotFound(f"{os.fspath(path)} is not there", hint="give a history's file, or none for the newest")
        project = self._places.project
        roots = None if path is not None else [project.path, project.checkout]
        while (one := newest(reader, places, roots)) is None:
            if is_over():
                return 0
            time.sleep(POLL_S)
        return self._follower().follow(reader, one, ref, is_over)

    def follow_start(
        self,
        start: Start,
        ref: str | None = None,
        *,
        terminal: Terminal | None = None,
        is_over: Callable[[], object] = lambda: False,
        told: Callable[[str], object] = lambda _: None,
        doubted: Callable[[str], object] = lambda _: None,
    ) -> int:
        """Bring what is said in one start of a tool into a live session, whichever conversations are held in it, until
        `is_over` says that the tool has ended. What an earlier one left unsaid is said first.

        Where the session ends or expires meanwhile it goes on in a fork, of whose id `told` hears; `doubted` hears the
        ids of conversations that may be of this start or of another, and are left to an import. Returns how many
        messages were added.
        """
        session_id = self._sessions().resolve(ref)
        self.catch_up()

        def fork(before: str) -> str:
            made = self._fork(before)
            told(made)
            return made

        follower = StartFollower(self._sessions(), self._room(), self._opened, self._follower, fork)
        said = follower.follow(start, session_id, terminal, self._environment, self._home(), is_over)
        for one in follower.in_doubt:
            doubted(one)
        return said

    def catch_up(self, tool: str | None = None) -> int:
        """Say what was said in tools that were being followed by processes which were killed; return how many messages
        were added.
        """
        project = self._places.project
        left = LeftBehind(self._opened, self._follower, self._fork, self._roots)
        return left.catch_up(tool, [project.path, project.checkout])

    def _is_in_a_session(self, one: Conversation) -> bool:
        is_followed = self._opened.get(one.tool, one.external_id) is not None
        return is_followed or bool(self._ran.sessions(one.tool, one.external_id))

    def _followed(self, one: Conversation) -> Followed | None:
        """Return what sessions have of a conversation that was followed, or held by runs; of sessions that are gone,
        nothing.
        """
        opened = self._opened.get(one.tool, one.external_id)
        followed = opened.sessions if opened else []
        ran = [each for each in self._ran.sessions(one.tool, one.external_id) if each not in followed]
        known: Followed | None = None
        for session_id in (*ran, *followed):
            try:
                runs, keys = self._said_in(session_id, one, has_keys=session_id in followed)
            except ServerUnavailable as error:
                self._away = error
                raise  # nobody knows what it has: imported now, it would be there twice
            except MaestroError:
                continue
            known = known or Followed(session_id=session_id, turns=set(), keys=set())
            known.session_id = session_id
            known.turns |= set(turns_in(runs, one.tool, one.external_id))
            known.keys |= keys
            known.asked += asked_by(runs, one.external_id, self._now_ms())
        return known

    def _said_in(self, session_id: str, one: Conversation, *, has_keys: bool) -> tuple[list[Run], set[str]]:
        """Return the runs of a session, and the ids of what was followed into it. A session may have held hundreds of
        conversations by runs alone: those are read once for all of them that they name.
        """
        if self._away is not None:
            raise self._away  # waited for once, not for each
        known = self._runs.get(session_id, [])
        if not has_keys and asked_by(known, one.external_id, self._now_ms()):
            return known, set()
        source = self._sessions().source(session_id)
        runs = self._runs[session_id] = source.runs()
        return runs, set(keys_in(source.messages())) if has_keys else set()

    def _fork(self, before: str) -> str:
        return self._sessions().fork(before, slug_of(before), activate=False).id

    def _home(self) -> str:
        return user_home(self._environment) or os.path.expanduser("~")

    def import_files(self, paths: Sequence[str | os.PathLike[str]], *, dry_run: bool = False) -> ImportReport:
        """Make archived sessions of what `maestro export` wrote (`.json` whole, `.md` its conversation), and of zips of
        an archive's folder. A session that is here already stays as it is.
        """
        named = [os.fspath(path) for path in paths]
        return take_back(self._places, named, now=iso(self._now_ms()), is_live=self._is_live, dry_run=dry_run)

    def _is_live(self, session_id: str) -> bool:
        """Tell whether a session of this project is on the server, and may not be on the disk yet. Asked only of one
        that was begun here and is not known to be over: else no server is needed.
        """
        known = [row.state for row in self._places.project.index() if row.id == session_id]
        if not known or known[0] in FROZEN:
            return False
        try:
            self._sessions().read(session_id)
        except SessionNotFound:
            return False
        return True
