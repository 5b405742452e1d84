"""Histories: what was said in the AI tools themselves, as archived sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from maestro_state.clock import iso
from maestro_state.errors import PathNotFound
from maestro_state.fs.private import user_home
from maestro_state.histories.facts import Facts
from maestro_state.histories.readers import Reader, reader_of
from maestro_state.mirror.places import Places
from maestro_state.models.imports import ImportReport
from maestro_state.models.work_names import moment_ms
from maestro_state.upkeep.following import POLL_S, HistoryFollower, newest
from maestro_state.upkeep.importing import Import, Progress
from maestro_state.upkeep.taking_back import take_back


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
    ) -> None:
        """Take where archives go, what no history tells of a session, and who brings one into a live session."""
        self._follower = follower
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
        now_ms = self._now_ms()
        since_ms = None if since is None else moment_ms(since, now_ms)
        project = self._places.project.path
        facts = Facts(project=project, user=self._user, ttl_seconds=self._ttl_seconds, now=iso(now_ms))
        work = Import(self._places, reader, facts, any_project=any_project, since_ms=since_ms, dry_run=dry_run)
        return work.do([os.fspath(path) for path in paths], self._roots(reader), progress)

    def _roots(self, reader: Reader) -> list[str]:
        return reader.roots(self._environment, user_home(self._environment) or os.path.expanduser("~"))

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

    def import_files(self, paths: Sequence[str | os.PathLike[str]], *, dry_run: bool = False) -> ImportReport:
        """Make archived sessions of what `maestro export` wrote (`.json` whole, `.md` its conversation), and of zips of
        an archive's folder. A session that is here already stays as it is.
        """
        named = [os.fspath(path) for path in paths]
        return take_back(self._places, named, now=iso(self._now_ms()), dry_run=dry_run)
