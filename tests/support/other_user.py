"""A process of another user, for tests of what must not be believed. Needs root."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Nobody's number; no account is needed for it.
UID = 65_534


@contextmanager
def listening_as_another_user(serve: Callable[[socket.socket], None] | None = None) -> Iterator[Path]:
    """Give a socket at which another user's process listens; it never answers unless told how."""
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as name:
        os.chown(name, UID, UID)
        os.chmod(name, 0o755)
        path = Path(name, "trap.sock")
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                os.setgroups([])
                os.setresgid(UID, UID, UID)
                os.setresuid(UID, UID, UID)
                os.umask(0)
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))
                listener.listen(4096)
                os.write(writer, b"!")
                if serve is not None:
                    serve(listener)
                signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        try:
            assert os.read(reader, 1) == b"!"
            yield path
        finally:
            os.close(reader)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@contextmanager
def flickering(name: Path, own: Path, trap: Path) -> Iterator[None]:
    """Have a name change between a second name of one's own socket and a link to a trap, all the time."""
    over = threading.Event()

    def flicker() -> None:
        while not over.is_set():
            for make, target in ((os.symlink, trap), (os.link, own)):
                draft = name.with_suffix(".new")
                make(target, draft)
                os.rename(draft, name)

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
