"""Where the `maestro` program starts: nearly every command is handed to the stack's resident process.

Most of a command is Python importing modules; the resident process has them already (`resident.py`). It gets the
words, the environment and the terminal itself, and answers with the exit code. Whenever anything about that is not
plain, the command runs here instead: slower, with the same answer. That is decided before anything has begun: a
command is handed over whole or not at all, and none is ever run twice. This module imports next to nothing.
"""

from __future__ import annotations

import os
import sys

from maestro_state.startup import own_modules_first

TYPE_CHECKING = False  # typing's own takes as long to import as all the rest here
if TYPE_CHECKING:
    from _socket import socket
    from typing import NoReturn

#: Commands that ask nothing, change nothing and soon end. A test holds these tables against the commands themselves.
READS = frozenset((
    "context list", "context show", "messages", "runs", "search", "session get", "session list", "session status",
    "show", "status", "usage", "wsession breadcrumbs", "wsession list", "wsession show", "wsession stats",
    "wsession timeline", "wsession tree",
))  # fmt: skip

#: Commands that change something, or follow what does.
CHANGES = frozenset((
    "cancel", "context add", "context clear", "context refresh", "context remove", "context use-output",
    "discuss done", "discuss list", "discuss say", "discuss show", "discuss start", "export", "message add", "run",
    "session abort", "session delete", "session end", "session fork", "session set", "session start",
    "session switch", "session sync", "tool list", "use", "wait", "wsession breadcrumb", "wsession end",
    "wsession pause", "wsession resume", "wsession start",
))  # fmt: skip
#: Commands that run here: they run for long, start or stop the stack itself, start programs or are rarely called.
HERE = frozenset((
    "acl", "budget list", "budget remove", "budget set", "cleanup", "completion", "config", "discuss migrate",
    "discuss replay", "doctor", "import", "mcp install", "open", "pull", "scheduler", "serve", "stack status",
    "stack stop", "sweep", "token add", "token list", "token revoke", "tool check", "trust", "verify", "watch",
    "work", "worker", "workers",
))  # fmt: skip

#: Commands that run beside AI tools, as the same user and with a password of the server's: nobody is to read that from
#: them, from as early on as they can see to it. An interpreter that its user may not read is closed before.
CLOSED = frozenset(("cleanup", "doctor", "scheduler", "serve", "sweep", "worker"))

#: Commands that serve an agent for as long as it is there. They have a resident process of their own: what they import
#: takes a second, and would make that of all others large.
SERVES = frozenset(("mcp",))

#: Where the resident process listens: the name in the folder of the server, which is below the project's top folder.
SOCKET_NAME = "r.sock"
#: Where the one listens that serves agents.
SERVING_NAME = "a.sock"
FOLDERS = (".maestro", "server")
SOCKET = os.path.join(*FOLDERS, SOCKET_NAME)

#: Seconds to wait for the resident process to take the command.
_TIMEOUT_S = 1.0


def main() -> NoReturn:
    """Run one command line and exit with its code."""
    own_modules_first()
    words = sys.argv[1:]
    try:
        if os.getpid() == 1:
            _hear_the_container_stop()
        if _is_closed(words):
            from maestro_state.local import process

            process.keep_private()
        code = _hand_over(words) if _may_be_handed_over(words) else None
        if code is None:
            from maestro_cli.main import run

            code = run(words)
    except KeyboardInterrupt:
        code = 130  # before there was anything to interrupt: Python was importing
    sys.exit(code)


def _hear_the_container_stop() -> None:
    """End when told to: the first process of a container hears no signal that it has no handler for.

    What runs for long has handlers of its own, a second or two later.
    """
    import _signal  # type: ignore[import-not-found]  # what `signal` is built on, without enum

    def end(number: int, frame: object) -> NoReturn:
        del frame
        sys.exit(128 + number)

    _signal.signal(_signal.SIGTERM, end)


def _is_closed(words: list[str]) -> bool:
    """Tell whether this is one of the commands in CLOSED, whatever is said before it."""
    while words and words[0].startswith("-"):
        words = words[1 if "=" in words[0] else 2 :]
    return bool(words) and words[0] in CLOSED


def _may_be_handed_over(words: list[str]) -> bool:
    # Which file such a name means depends on the process that opens it.
    if any(word.startswith(("/dev/", "/proc/")) for word in words):
        return False
    if _is_in(SERVES, words):
        return "--http" not in words and not _is_in(HERE, words)
    return _is_in(READS, words) or _is_in(CHANGES, words)


def _is_in(table: frozenset[str], words: list[str]) -> bool:
    if words[:1] == ["--session"]:
        words = words[2:]
    return " ".join(words[:1]) in table or " ".join(words[:2]) in table


def _hand_over(words: list[str]) -> int | None:
    """Have the resident process run a command; None when there is none, or it does not take it."""
    if os.environ.get("MAESTRO_DEBUG"):
        return None
    top = _top_folder()
    if top is None:
        return None
    # The module that `socket` is built on: enum and selectors, which it adds, take longer than the whole exchange.
    import _socket

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if line.fileno() <= 2:
            return None  # one of the streams is closed, and this took its place
        line.settimeout(_TIMEOUT_S)
        _connect(line, top, SERVING_NAME if _is_in(SERVES, words) else SOCKET_NAME)
        # It speaks first: handed to a process that is stopped, our streams would stay open for as long as it is.
        hello = line.recv(8, _socket.MSG_WAITALL)
        if hello[:4] != installation():
            return None  # another version, or on its way out
        streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        request = _request(words)
        line.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        # With the last byte it is handed over: one that did not get that far was not, and is never begun.
        line.sendall(request)
    except (OSError, AttributeError):
        line.close()
        return None  # nobody there, not taken in time, or a system that cannot tell who listens
    line.settimeout(None)
    _stop_together(int.from_bytes(hello[4:], "big"))
    try:
        return _await_end(line, words)
    finally:
        line.close()


def _connect(line: socket, top: str, name: str = SOCKET_NAME) -> None:
    """Connect to the resident process; OSError unless it is this user's, who alone gets an environment with secrets."""
    from maestro_state.fs import private_socket

    folder = private_socket.open_own_folder(top, *FOLDERS)
    try:
        private_socket.connect_line(line, folder, name)
    finally:
        os.close(folder)


def _stop_together(pid: int) -> None:
    """Have Ctrl-Z stop the process that runs the command too, and go on with this one."""
    import _signal  # what `signal` is built on, without enum

    def stop(number: int, frame: object) -> None:
        del number, frame
        try:
            os.kill(pid, _signal.SIGSTOP)
            os.kill(os.getpid(), _signal.SIGSTOP)
            os.kill(pid, _signal.SIGCONT)
        except ProcessLookupError:
            return  # it has just ended: the exit code is on its way

    if _signal.getsignal(_signal.SIGTSTP) == _signal.SIG_DFL:
        _signal.signal(_signal.SIGTSTP, stop)


def _await_end(line: socket, words: list[str]) -> int:
    """Wait for the exit code; what interrupts this process is passed on to the one that runs the command."""
    _pass_on_interrupts(line)
    _await_readable(line)
    try:
        code = line.recv(1)
    except OSError:
        code = b""
    if not code:
        advice = "run it again" if _is_in(READS, words) else "it may have been done: check before you run it again"
        _tell_cut_off(advice, as_json="--json" in words)
        return 1
    return code[0]


def _await_readable(line: socket) -> None:
    """Wait until there is something to read, and hear signals: one that comes just before the wait would be slept
    through, but for the descriptor that Python writes to when it takes one.
    """
    import _signal
    import select

    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ready = select.poll()
    ready.register(line, select.POLLIN)
    ready.register(woken, select.POLLIN)
    while line.fileno() not in dict(ready.poll()):
        os.read(woken, 64)  # the handlers run here
    _signal.set_wakeup_fd(-1)


def _tell_cut_off(advice: str, *, as_json: bool) -> None:
    what = "the process that ran this ended in the middle of it"
    if as_json:  # spelled out: both texts are plain, and json takes long to import
        sys.stderr.write(f'{{"error":{{"code":"cut_off","message":"{what}","hint":"{advice}"}}}}\n')
    else:
        sys.stderr.write(f"maestro: {what} \u2192 {advice}\n")


def _pass_on_interrupts(line: socket) -> None:
    """Have Ctrl-C interrupt the process that runs the command instead of this one, unless it is ignored here."""
    import _signal

    def pass_on(number: int, frame: object) -> None:
        del number, frame
        try:
            line.send(b"!")
        except OSError:
            return  # it has just ended: the exit code is on its way

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, pass_on)


def _top_folder() -> str | None:
    """Return the top folder of the project this folder belongs to."""
    try:
        folder = os.getcwd()
        while not os.path.lexists(os.path.join(folder, FOLDERS[0])):
            folder, below = os.path.dirname(folder), folder
            if folder == below:
                return None
    except OSError:
        return None
    return folder


def _request(words: list[str]) -> bytes:
    """Say all that the command would know here: where it is, what it was told, how its streams read and write."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    coding = [text or "" for stream in streams for text in (stream.encoding, stream.errors)]
    umask = os.umask(0o077)
    os.umask(umask)
    place = [os.getcwdb(), b"%o" % umask]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    # No part can hold a NUL: the kernel ends each of them with one.
    return b"\0".join([*map(os.fsencode, coding), *place, b"%d" % len(words), *map(os.fsencode, words), *environment])


def installation() -> bytes:
    """Return four bytes that both sides have in common when they are the same interpreter and the same package, and
    the same names mean the same files and processes to them: a container may share just the project's folder.
    """
    import binascii

    spaces = [os.stat(place).st_ino for place in ("/", "/proc/self/ns/mnt", "/proc/self/ns/pid")]
    same = f"{sys.version}\0{__file__}\0{sys.getfilesystemencoding()}\0{spaces}"
    return binascii.crc32(same.encode()).to_bytes(4, "big")
