"""Texts become HTML in a process of their own, which may take only so much time and memory.

Lexers are regular expressions over text from anybody: thousands of newlines are enough to keep some of them busy for a
minute, and a thread that is busy so keeps everybody else from their turn. Here only those wait who want texts rendered,
and not for long: what takes too much is shown as it is. The process starts with the server, ends when its input does,
however the server ended, and knows nothing of sessions: it is sent texts and sends HTML, a line of JSON each.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress

import msgspec

from maestro_state.net.threads import in_thread
from maestro_state.serve import rendering
from maestro_state.startup import command
from maestro_state.tools import safe_environment

#: Seconds of the processor for one text, and for all that are asked for together.
TEXT_S, ALL_S = 1.0, 3.0
#: Seconds after which the process is ended, whatever it is at: far more than the above, on a machine that is busy too.
_MOST_S = 30.0
#: Most memory, in bytes.
_MEMORY = 1024 * 1024 * 1024


class Renderer:
    """Has texts rendered, one request after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def render(self, texts: list[str]) -> list[str]:
        """Return texts as HTML, in their order."""
        # Shielded: who asked may go away, what is under way is brought to its end before the next one's turn.
        return await asyncio.shield(self._in_turn(texts))

    async def _in_turn(self, texts: list[str]) -> list[str]:
        async with self._turn:
            return await in_thread(self._exchange, texts)

    async def close(self) -> None:
        """End the process, whatever it is at; who still waits sees text."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()
        async with self._turn:
            await in_thread(self._end)

    def _exchange(self, texts: list[str]) -> list[str]:
        try:
            if not self._is_closed:
                self._process = self._process or _started()
                return _asked(self._process, texts)
        except (OSError, msgspec.DecodeError):
            self._end()  # the next request has a new one
        return [rendering.as_it_is(text) for text in texts]

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()


def _started() -> subprocess.Popen[bytes]:
    # It needs no address of a server; and unlike this process it is open to others of this user.
    seen = safe_environment(os.environ)
    words = command("maestro_state.serve.renderer")
    # In a session of its own: Ctrl-C is for the server.
    return subprocess.Popen(words, env=seen, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


def _asked(process: subprocess.Popen[bytes], texts: list[str]) -> list[str]:
    if process.stdin is None or process.stdout is None:
        raise OSError("it was started without pipes")
    watch = threading.Timer(_MOST_S, process.kill)
    watch.daemon = True
    watch.start()
    try:
        process.stdin.write(msgspec.json.encode(texts) + b"\n")
        process.stdin.flush()
        return msgspec.json.decode(process.stdout.readline(), type=list[str])
    finally:
        watch.cancel()


def main() -> None:
    """Render what comes, until nothing more comes."""
    import resource

    with suppress(OSError, ValueError):  # systems that know no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    rendering.prepare()
    for line in sys.stdin.buffer:
        texts = msgspec.json.decode(line, type=list[str])
        left, answers = ALL_S, []
        for text in texts:
            html, spent = rendering.render_within(text, min(TEXT_S, left))
            left -= spent
            answers.append(html)
        sys.stdout.buffer.write(msgspec.json.encode(answers) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
