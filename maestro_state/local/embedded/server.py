"""Start the project's server: exactly one, however many ask at once and whatever was killed before.

The lock is inherited by the server process, so the kernel holds it exactly as long as a server lives. Whoever
gets it starts one; everybody else waits for that one to answer.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from maestro_state.errors import ServerStorageError, ServerUnavailable
from maestro_state.fs import locks
from maestro_state.fs.opening import open_own_file
from maestro_state.local.embedded import paths
from maestro_state.local.embedded.probe import Answer, ping

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

#: How the server is set up, beside its paths. One pair per line, each with its reason.
SERVER_ARGUMENTS = (
    ("port", "0"),  # no TCP at all: the socket's folder is the access control
    ("unixsocketperm", "700"),  # only this user may connect
    ("daemonize", "yes"),  # the starter is not its parent: no zombie in long-lived callers
    ("appendonly", "yes"),  # an acknowledged write is in the kernel's hands and survives kill -9
    # Under no other policy does a server whose log cannot be written stop before it has answered. It never waits for
    # the disk, see `fail_stop`: the supervisor syncs, so that a power cut costs seconds at most.
    ("appendfsync", "always"),
    # Written anew in the middle of a large output it would double the work. The supervisor has it done at 64 MB when
    # nothing else is going on; this is for a server that is never quiet.
    ("auto-aof-rewrite-min-size", "512mb"),
    ("aof-load-truncated", "no"),  # a cut end is set aside by `log_repair`, not thrown away
    ("save", ""),  # snapshots beside the append-only file would double the disk work
    ("maxmemory-policy", "noeviction"),  # a session is never dropped to make room
    ("loglevel", "notice"),
    ("stream-node-max-bytes", "1400"),  # a stream of one entry takes 1.5 KB, not 4; four messages share a node
    ("hash-max-listpack-value", "1024"),  # session fields stay in the compact form: 2-3 x less memory
    ("hash-max-listpack-entries", "128"),
)

#: Where the kernel has no filters: a write without a disk wait counts more than the last moment before a full disk. Not
#: "everysec": while it syncs it answers before it writes, and kill -9 took 18 of 400 acknowledged writes.
_UNGUARDED = (("appendfsync", "no"),)

#: Told to its allocator: keep up to 32 MB that were freed. Given back to the kernel after every large write and asked
#: for again, page by page, they cost a third of the server's time while a run prints fast. Other allocators ignore it.
_KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(32 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TOP_PAD_": str(1 << 20),
}

#: Time for a server to start answering, in seconds; a disk that many write to holds it up before it listens.
START_S = 30.0
#: Time for a server that says it is reading its data; a large one takes long and is not broken.
LOAD_S = 120.0
#: How often one call starts a server that is gone before it answers: somebody may have killed it, or stopped it
#: for idling, but one that dies each time is broken.
MAX_LAUNCHES = 3
#: Log size in bytes above which a start begins a new one, keeping one old.
MAX_LOG_BYTES = 1_000_000

_HINT = "see .maestro/server/server.log, or set MAESTRO_REDIS_URL to a server of your own"


def ensure(root: Path, *, binary: str | os.PathLike[str] | None = None, supervise: bool = True) -> Path:
    """Return the socket of a server that answers, starting it if none does. Repeatable.

    Raises ServerUnavailable with the reason when none can be started.
    """
    if ping(paths.socket_address(root)) is not Answer.READY:
        with paths.open_data_folder(root) as folder:
            _start_or_wait(root, folder, binary)
    if supervise:
        from maestro_state.local.embedded.supervision import ensure_supervisor

        ensure_supervisor(root)
    return paths.socket_path(root)


def _start_or_wait(root: Path, folder: int, binary: str | os.PathLike[str] | None) -> None:
    """Come back when the server answers."""
    begun = time.monotonic()
    logged_before = launches = 0
    is_looked_through = False
    while True:
        answer = ping(paths.socket_address(root))
        if answer is Answer.READY:
            return
        if answer is Answer.DOWN:
            lock = locks.try_lock(folder, paths.SERVER_LOCK)
            if lock is not None:
                try:
                    # Only now is it certain that nobody is starting one; a server whose lock file was deleted
                    # by hand still answers, and must never get a second one beside it on the same data.
                    if ping(paths.socket_address(root)) is Answer.DOWN:
                        if launches and not is_looked_through:
                            is_looked_through = True
                            mend_log(folder)
                        if launches == MAX_LAUNCHES:
                            raise _failed(folder, logged_before)
                        logged_before = _turn_log(folder)
                        launches += 1
                        _launch(root, folder, lock, binary, logged_before)
                finally:
                    os.close(lock)
                continue
        waited_s = time.monotonic() - begun
        if waited_s > (LOAD_S if answer is Answer.LOADING else START_S):
            raise _too_late(answer, waited_s)
        time.sleep(0.002 if waited_s < 0.3 else 0.02)


def mend_log(folder: int, *, also_in_the_middle: bool = False) -> str | None:
    """Cut off a damaged end of the log, kept aside; say what was done, None when there was nothing to do.

    Raises ServerUnavailable for damage with whole commands after it, unless these may be set aside too.
    """
    from maestro_state.local.embedded import log_repair
    from maestro_state.local.logs import get_logger

    is_listed_anew = log_repair.rebuild_manifest(folder)
    damage = log_repair.find_damage(folder)
    if damage is None:
        return "the list of the server's log files was damaged and is written anew" if is_listed_anew else None
    if not (damage.is_end or also_in_the_middle):
        raise ServerUnavailable(
            f"the server's log is damaged at byte {damage.whole} of {damage.whole + damage.rest}, not only at its end",
            hint="maestro doctor --repair starts from what is before it and keeps the rest aside",
        )
    aside = log_repair.cut(folder, damage)
    cut = f"{damage.rest} bytes after its first {damage.whole} were set aside in .maestro/server/{aside}"
    done = f"the server's log was damaged: {cut}"
    get_logger("maestro.embedded").warning(done)
    return done


def _launch(root: Path, folder: int, lock: int, binary: str | os.PathLike[str] | None, logged_before: int) -> None:
    """Start the server with the lock in its hands; it is not yet ready when this returns."""
    import subprocess

    from maestro_state.local.embedded.binary import find_binary
    from maestro_state.local.embedded.disk_space import REFUSE_WRITES, storage_trouble
    from maestro_state.local.embedded.fail_stop import run_fail_stop
    from maestro_state.local.embedded.foreign import refuse_foreign
    from maestro_state.local.embedded.origin import check_origin, data_name

    program = find_binary(binary)
    data, socket = paths.data_path(root), paths.socket_address(root)
    try:
        refuse_foreign(folder)
        check_origin(folder, root)
        with paths.open_socket_folder(root) as socket_folder, suppress(FileNotFoundError):
            os.unlink(paths.SOCKET, dir_fd=socket_folder)
        if os.path.dirname(socket) != data:
            paths.note_socket(folder, socket)
    except OSError as error:
        raise ServerUnavailable(f"cannot prepare {socket}: {error.strerror}", hint=_HINT) from error
    own = (
        ("dir", data),
        ("appenddirname", data_name(folder)),
        ("unixsocket", socket),
        ("logfile", os.path.join(data, paths.SERVER_LOG)),
        ("pidfile", os.path.join(data, paths.SERVER_PID)),
        (REFUSE_WRITES, "1" if storage_trouble(folder) else "0"),
    )

    def start(is_guarded: bool) -> subprocess.CompletedProcess[bytes]:
        pairs = (*SERVER_ARGUMENTS, *own, *(() if is_guarded else _UNGUARDED))
        return _run_program(program, [word for name, value in pairs for word in (f"--{name}", value)], data, lock)

    try:
        done = run_fail_stop(start)
    except subprocess.TimeoutExpired as error:
        raise ServerUnavailable(f"{program} did not start within {START_S:.0f} s", hint=_HINT) from error
    except OSError as error:
        raise ServerUnavailable(f"cannot start {program}: {error.strerror}", hint=_HINT) from error
    # Negative: killed by a signal, which says nothing about the next attempt.
    if done.returncode > 0:
        raise _failed(folder, logged_before, done.stdout)


def _run_program(program: Path, arguments: list[str], data: str, lock: int) -> subprocess.CompletedProcess[bytes]:
    import subprocess

    return subprocess.run(
        [str(program), *arguments],
        cwd=data,
        env={"PATH": os.defpath, "LC_ALL": "C", **_KEEP_MEMORY},
        stdin=subprocess.DEVNULL,
        # Going into the background it turns these to /dev/null; before, they say what its log cannot.
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
        start_new_session=True,
        # Files of the server are this user's alone even before it sets their permissions.
        umask=0o077,
        timeout=START_S,
        check=False,
    )


def _turn_log(folder: int) -> int:
    """Begin a new log when the old one has grown large; return where the next line will be."""
    try:
        size = os.stat(paths.SERVER_LOG, dir_fd=folder, follow_symlinks=False).st_size
        if size <= MAX_LOG_BYTES:
            return size
        os.rename(paths.SERVER_LOG, paths.SERVER_LOG + ".1", src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ServerUnavailable(f"cannot use .maestro/server: {error.strerror}", hint=_HINT) from error
    return 0


def _failed(folder: int, logged_before: int, printed: bytes = b"") -> ServerUnavailable:
    from maestro_state.local.embedded.disk_space import storage_trouble

    full = storage_trouble(folder)
    if full:
        return ServerStorageError(
            f"the embedded server cannot write to .maestro/server: {full}",
            hint="free disk space, then try again",
        )
    reason = last_reason(printed) or last_reason(_log_since(folder, logged_before)) or "it gave no reason"
    return ServerUnavailable(f"the embedded server stopped while starting: {reason}", hint=_HINT)


def _too_late(answer: Answer, waited_s: float) -> ServerUnavailable:
    if answer is Answer.LOADING:
        return ServerUnavailable(
            f"the embedded server is still reading its data after {waited_s:.0f} s",
            hint="try again in a while",
        )
    state = "listens but does not answer" if answer is Answer.SILENT else "has its data open but no socket"
    return ServerUnavailable(f"the embedded server {state}", hint="maestro stack stop, then try again")


def _log_since(folder: int, offset: int) -> bytes:
    try:
        handle, _ = open_own_file(folder, paths.SERVER_LOG, os.O_RDONLY)
    except OSError:
        return b""
    with os.fdopen(handle, "rb") as log:
        end = log.seek(0, os.SEEK_END)
        log.seek(max(offset, end - 8192))
        return log.read()


def last_reason(log: bytes) -> str:
    """Return the last warning of a server log, else its last line, as one clean short text."""
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return ""
    # A log line is `pid:role date time level text`; level # is what needs attention. Advice about the system and
    # the good-bye have it too, and are not the reason.
    warned = [line.split(" # ", 1)[1] for line in lines if " # " in line]
    reasons = [line for line in warned if not line.startswith("WARNING") and "bye bye" not in line]
    line = reasons[-1] if reasons else lines[-1]
    return "".join(char for char in line if char.isprintable()).strip()[:300]
