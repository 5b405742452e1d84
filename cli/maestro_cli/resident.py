"""The resident process of a stack: runs the commands that terminals hand it (`python -m maestro_cli.resident`).

It has imported what they need; each one runs in a fork of it, with the caller's words, environment and terminal, and
ends when the caller does. Only its own user is answered. When the code on disk is no longer the code in memory it
exits, and is started anew. Agents are served by a process like it that has imported the SDK, where that is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import NoReturn

from maestro_cli import entry
from maestro_cli.app import App
from maestro_cli.main import maestro, run
from maestro_state import preload
from maestro_state.fs import private_socket
from maestro_state.local.embedded import paths
from maestro_state.local.process import keep_private

#: Largest request taken, in bytes: an environment and a command line are bounded by the kernel to less.
_MAX_REQUEST = 8 << 20
#: Seconds a caller may take to say what it wants.
_TIMEOUT_S = 5.0


def serve(root: str, name: str, words: frozenset[str]) -> None:
    """Answer these commands until told to stop, or until the code on disk is newer."""
    for first in {word.split()[0] for word in words}:
        maestro.get_command(None, first)  # type: ignore[arg-type]
    preload()
    if words is entry.SERVES:
        _load_serving(root)
    versions = _versions()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page it reads
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork ended: its caller was told
    with _listening(root, name) as listener:
        while True:
            line, _ = listener.accept()
            with line:
                if _versions() != versions:
                    return
                if os.fork() == 0:
                    listener.close()
                    _answer(line)


def _answer(line: socket.socket) -> NoReturn:
    """Run one command for the caller at the other end, and exit."""
    code = 1
    try:
        os.setpgid(0, 0)  # a command that is under way does not end with the resident process
        line.settimeout(_TIMEOUT_S)
        if private_socket.peer_uid(line) == os.geteuid():
            line.sendall(entry.installation() + os.getpid().to_bytes(4, "big"))
            request = _received(line)
            line.settimeout(None)
            App.caller = _caller(line)
            App.exit = partial(_exit, line)
            try:
                _follow_caller(line)
                code = _run(request) & 0xFF
            except KeyboardInterrupt:
                code = 130  # between the command and this
            line.sendall(bytes([code]))
    except (ConnectionError, TimeoutError):
        pass  # the caller is gone
    finally:
        os._exit(code)


def _received(line: socket.socket) -> list[bytes]:
    """Take the caller's streams for ours and return the parts of its request."""
    head, streams, _, _ = socket.recv_fds(line, 4, 3)
    size = int.from_bytes(head, "big")
    if len(streams) != 3 or size > _MAX_REQUEST:
        raise ConnectionError
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    request = line.recv(size, socket.MSG_WAITALL)
    if len(request) != size:
        raise ConnectionError
    return request.split(b"\0")


def _exit(line: socket.socket, code: int) -> NoReturn:
    """End at once; the caller is told with what."""
    with suppress(OSError):
        line.sendall(bytes([code]))
    os._exit(code)


def _caller(line: socket.socket) -> int:
    """Return the process at the other end, as the kernel knows it."""
    return int.from_bytes(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def _follow_caller(line: socket.socket) -> None:
    """Be interrupted when the caller is, and end when it is gone: both make the line readable, and the kernel tells."""
    pending = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        del number, frame
        with suppress(BlockingIOError):
            interrupts = line.recv(64, socket.MSG_DONTWAIT)
            if not interrupts:
                os._exit(130)  # killed, as the caller was: there is nobody to ask, or to tell
            pending += len(interrupts)
        if pending:
            pending -= 1
            if pending:  # two of them may come as one signal
                os.kill(os.getpid(), signal.SIGIO)
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # only a caller that does not ignore it passes it on
    signal.signal(signal.SIGIO, interrupt)
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
    interrupt(signal.SIGIO, None)  # of what came before that nobody tells


def _run(request: list[bytes]) -> int:
    """Become the caller as far as a command can tell, and run what it asked for."""
    coding = [os.fsdecode(part) for part in request[:6]]
    folder, umask, count = *request[6:8], int(request[8])
    words, environment = request[9 : 9 + count], request[9 + count :]
    os.environb.clear()
    for variable in environment:
        name, _, value = variable.partition(b"=")
        if name:  # a variable without a name can be handed down, not set
            os.environb[name] = value
    time.tzset()
    os.umask(int(umask, 8))
    os.chdir(folder)
    sys.stdin = open(0, encoding=coding[0], errors=coding[1], closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", encoding=coding[2], errors=coding[3], closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=coding[4], errors=coding[5], closefd=False, buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = run([os.fsdecode(word) for word in words])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more, or its disk is full: of that the command told
            stream.flush()
    return code


def _load_serving(root: str) -> None:
    """Import what an agent's first requests need: a server that was made has all of it."""
    from maestro_state.mcp import build_server, warm_up

    warm_up(build_server(project=root))


def _listening(root: str, name: str) -> socket.socket:
    with paths.open_data_folder(root) as folder:
        return private_socket.listen(folder, name)


def _versions() -> list[int]:
    """Return when each module in memory was last written on disk; 0 for one that is gone."""
    return [_written(path) for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))]


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def main() -> None:
    """Serve the project named on the command line."""
    _serve_project("maestro_cli.resident", entry.SOCKET_NAME, entry.READS | entry.CHANGES)


def serve_agents() -> None:
    """Serve the agents of the project named on the command line."""
    _serve_project("maestro_cli.resident:serve_agents", entry.SERVING_NAME, entry.SERVES)


def _serve_project(program: str, name: str, words: frozenset[str]) -> None:
    parser = argparse.ArgumentParser(prog=program, description="Run the commands of a project that are handed over.")
    parser.add_argument("--project", required=True, help="root folder of the project")
    keep_private()  # commands bring the environments of their terminals
    serve(os.path.realpath(parser.parse_args().project), name, words)


if __name__ == "__main__":
    main()
