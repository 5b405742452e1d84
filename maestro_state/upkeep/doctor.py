"""Checking a set-up: what `maestro doctor` checks and repairs."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import replace

from maestro_state._sync.quarantine import Quarantine
from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import (
    ConfigError,
    DamagedRecord,
    InvalidValue,
    MaestroError,
    NewerFormat,
    NoProject,
    ServerUnavailable,
)
from maestro_state.local.project import IndexRow, Project
from maestro_state.local.secrets_file import read_secrets
from maestro_state.local.settings import Settings, unknown_variables
from maestro_state.net import connect, is_forbidden, masked, parse_url
from maestro_state.state.calls import checkpoints as archiving
from maestro_state.state.calls import health as ops
from maestro_state.state.calls import index as index_ops
from maestro_state.state.calls import leases
from maestro_state.state.calls.health import Check

#: Sessions that are late with their archive, read one by one; more are as bad.
OVERDUE_MAX = 100
#: Where `maestro serve` listens unless told otherwise.
SERVE_PORT = 4175


class Health:
    """The checks, each with what to do about it."""

    def __init__(self, server: Server, queue: Queue, project: Project, settings: Settings) -> None:
        self._server = server
        self._queue = queue
        self._project = project
        self._settings = settings

    def checks(self, duty: str | None = None, port: int = SERVE_PORT) -> list[Check]:
        """Check everything, and with a duty (worker, scheduler, or serve on a port) that this machine does it; never
        raises for what it finds.
        """
        found = self._server_checks()
        found += [*self._log(), self._disk(), self._index_file(), self._tools(found), *self._settings_checks()]
        return [*found, self._duty(duty, found, port)] if duty is not None else found

    def _duty(self, duty: str, found: list[Check], port: int) -> Check:
        from maestro_state.upkeep.health_check import DUTIES

        if duty not in DUTIES:
            raise InvalidValue(f"'{duty}' is no duty", hint=f"one of {', '.join(DUTIES)}")
        return DUTIES[duty](self._queue, found, port)

    def repair(self) -> list[str]:
        """Set a damaged index.json aside and rebuild it from the live and the archived sessions, have a damaged
        log of the embedded server start from what is whole, and save what can be saved of damaged records; say what was
        done.
        """
        from maestro_state.mirror.places import Places
        from maestro_state.upkeep.repair import Repair

        places = Places(self._project, self._settings.archive_root)
        log, index = self._repair_log(), self._repair_index()
        return [*log, *index, *Repair(self._server, places).repair()]

    def _repair_log(self) -> list[str]:
        if self._settings.redis_url:
            return []
        from maestro_state.local.embedded import repair_log

        return repair_log(self._project.root)

    def _repair_index(self) -> list[str]:
        if self._index_file().status == "ok":
            return []
        from maestro_state.mirror.home import Home
        from maestro_state.mirror.reader import index_rows

        terms = self._server.terms
        view = index_ops.View(self._server.now_ms(), terms.idle_after_ms, None)
        listed = index_ops.list_sessions(self._server.fetch_all(index_ops.all_rows(terms)), view)
        rows = [IndexRow.of(row) for row in listed.rows]
        live = {row.id for row in rows}
        archived = index_rows(self._project, Home.of_project(self._project))
        rows += [row for row in archived if row.id not in live]
        self._project.index_rebuild(rows)
        return [f"sessions/index.json rebuilt with {len(rows)} sessions; the old one is index.json.damaged"]

    def _log(self) -> list[Check]:
        """Tell of what was cut off the embedded server's log."""
        if self._settings.redis_url:
            return []
        from maestro_state.local.embedded import cut_off

        try:
            found = cut_off(self._project.root)
        except ServerUnavailable as error:
            return [Check("server log", "fail", str(error), error.hint)]
        if not found:
            return []
        detail = f"{len(found)} damaged ends were set aside, the newest in {found[-1][0]} ({found[-1][1]} bytes)"
        return [Check("server log", "warn", detail, "keep what you need of it, then remove it")]

    def _server_checks(self) -> list[Check]:
        settings = self._settings
        where = masked(settings.redis_url) if settings.redis_url else "embedded server"
        try:
            # Something every user may ask: a server that only keeps quiet about itself is not one that is down.
            self._server.fetch(index_ops.count_sessions(self._server.terms))
            info = self._info()
        except NoProject as nothing:
            return [Check("server", "ok", f"not needed: {nothing}", nothing.hint)]
        except ServerUnavailable as error:
            return [Check("server", "fail", str(error), error.hint)]
        is_embedded, synced = not settings.redis_url, self._synced()
        judged = [ops.silent()]
        if info is not None:
            judged = ops.judge(info, settings.wait_replicas, synced, is_embedded=is_embedded)
        queue = ops.judge_queue(settings.redis_url, settings.queue_url)
        helpers = [] if queue else self._helpers()
        return [Check("server", "ok", where), *judged, *self._access(), *queue, *helpers]

    def _helpers(self) -> list[Check]:
        """Check those who work beside the server."""
        try:
            workers, present = self._queue.workers(), self._queue.present()
        except ServerUnavailable as error:
            return [Check("queue", "fail", str(error), error.hint)]
        now_ms = self._server.fetch(archiving.read_time())
        schedule = self._server.fetch(leases.read_lease(self._server.terms, leases.SCHEDULE))
        checks = []
        if not workers and not self._settings.redis_url and (failed := self._supervisor()):
            return [failed, *self._archives(now_ms)]
        # The embedded stack brings both by itself, a moment after its first command: only what is late is told.
        if workers or self._settings.redis_url:
            checks += [ops.judge_workers(workers, present), *ops.judge_worker_tools(present)]
        if self._settings.redis_url:
            checks.append(ops.judge_clock(self._server.now_ms(), now_ms))
        if schedule.swept_at or self._settings.redis_url:
            checks.append(ops.judge_sweeper(schedule.swept_at, now_ms, self._settings.checkpoint_seconds * 1000))
        return checks + self._archives(now_ms) + ops.judge_records(Quarantine(self._server).rows())

    def _supervisor(self) -> Check | None:
        """Start whoever looks after the embedded server; tell when that cannot be done."""
        from maestro_state.local.embedded import await_supervisor

        if await_supervisor(self._project.root):
            return None
        detail = "nothing looks after the server: its supervisor does not start, so no run is carried out"
        return Check("stack", "fail", detail, "see the end of .maestro/logs/stack.log")

    def _archives(self, now_ms: int) -> list[Check]:
        """Find sessions that should have been on disk several sweeps ago."""
        terms = self._server.terms
        before_ms = now_ms - ops.LATE_SWEEPS * self._settings.checkpoint_seconds * 1000
        shards = self._server.fetch_all(archiving.overdue_sessions(terms, before_ms, OVERDUE_MAX))
        found = [*dict.fromkeys(one for ids in shards for one in ids)][:OVERDUE_MAX]
        late = []
        for session_id in found:
            with suppress(DamagedRecord, NewerFormat):  # told of below
                progress = self._server.fetch(archiving.read_progress(terms, session_id))
                late += [] if progress.is_done else [progress]
        return ops.judge_archives(len(late), next((one.waits for one in late if one.waits), None))

    def _info(self) -> dict[str, str] | None:
        """Return what the server says of itself, or None when this user may not ask."""
        try:
            info: dict[str, str] = self._server.fetch(ops.read_info())
        except ServerUnavailable as error:
            if is_forbidden(error):
                return None
            raise
        return info

    def _synced(self) -> str | None:
        """Return when the server syncs its file, if it says so."""
        try:
            synced: str | None = self._server.fetch(ops.read_sync())
        except MaestroError:
            return None  # only an admin may ask, and some servers are without the command
        return synced

    def _access(self) -> list[Check]:
        """Try the server without credentials."""
        if not self._settings.redis_url or self._settings.redis_url.startswith("unix://"):
            return []
        address = parse_url(self._settings.redis_url)
        is_local = all(host in ("localhost", "::1") or host.startswith("127.") for host, _ in address.hosts)
        is_open: bool | None = None
        if address.scheme in ("redis", "rediss"):
            anonymous = connect(replace(address, username=None, password=None, db=0))
            try:
                anonymous.call(*index_ops.count_sessions(self._server.terms).command)
                is_open = True
            except MaestroError:
                is_open = False
            finally:
                anonymous.close()
        return ops.judge_access(is_open=is_open, is_local=is_local, is_encrypted=address.tls)

    def _disk(self) -> Check:
        """Tell whether archives can be written: below a team's root, which a machine without a project of its own has
        too, and in the project.
        """
        root = self._settings.archive_root
        in_root = None
        if root is not None:
            in_root = _probed(root, root, "free space, let its user write there, or mount it: MAESTRO_ARCHIVE_ROOT")
            if in_root.status != "ok":
                return in_root
        try:
            self._project.check_begun()
        except NoProject as nothing:
            return in_root or Check("disk", "ok", f"not needed: {nothing}", nothing.hint)
        try:
            with self._project.sessions(create=True) as folder:
                found = _probed(folder.path, ".maestro/", "free space, or chmod u+w")
        except OSError as error:
            return Check("disk", "fail", f".maestro/ cannot be written: {error.strerror}", "free space, or chmod u+w")
        except MaestroError as error:
            return Check("disk", "fail", str(error), error.hint)
        return (in_root or found) if found.status == "ok" else found

    def _index_file(self) -> Check:
        try:
            self._project.index()
            self._project.active()
        except MaestroError as error:
            return Check("index", "fail", str(error), error.hint)
        return Check("index", "ok", "sessions/index.json and sessions/active are readable")

    def _tools(self, others: list[Check]) -> Check:
        from maestro_state.tools import names, resolve

        found = [name for name in names() if name != "echo" and resolve(name).program()]
        if found:
            return Check("tools", "ok", f"{', '.join(found)} found")
        if any(one.name == "worker tools" and one.status == "ok" for one in others):
            return Check("tools", "ok", "none on PATH here; runs use those of the workers")
        detail = "no AI tool is on PATH; only the built-in echo can be used"
        return Check("tools", "warn", detail, 'install one, or maestro use "COMMAND LINE"')

    def _settings_checks(self) -> list[Check]:
        found = []
        if unknown := unknown_variables(os.environ):
            found.append(Check("settings", "warn", f"not a setting: {', '.join(unknown)}", "maestro config lists all"))
        if ignored := self._settings.ignored:
            detail = f"ignored in the project's settings file until trusted: {', '.join(ignored)}"
            found.append(Check("trust", "warn", detail, "look at the file, then maestro trust"))
        try:
            read_secrets(self._settings.secrets_file)
        except ConfigError as error:
            found.append(Check("secrets", "fail", str(error), error.hint))
        return found


def _probed(folder: str, called: str, fix: str) -> Check:
    """Tell whether a folder can be written, by writing; what was written has no name and leaves nothing."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
            free = os.statvfs(folder)
    except OSError as error:
        return Check("disk", "fail", f"{called} cannot be written: {error.strerror}", fix)
    return Check("disk", "ok", f"{called} is writable, {free.f_bavail * free.f_frsize / 2**30:.1f} GiB free")
