"""A word that is nowhere else, put wherever a session keeps text, and searched for in everything that is stored."""

from __future__ import annotations

import os
import secrets
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from maestro_state.local.embedded.paths import socket_address
from maestro_state.local.embedded.probe import open_server

if TYPE_CHECKING:
    from maestro_state import Maestro

#: Where a canary is found that only the server's keys have.
KEYS = "the server's keys"


class Canary:
    """One word."""

    def __init__(self, root: Path) -> None:
        self.word = f"canary{secrets.token_hex(16)}"
        self._root = root
        # Without its ends: an index of words keeps only what a word has not in common with the one before it.
        part = self.word[12:-4].encode()
        # As it stands, and inside of what is stored as base64, wherever in it.
        self._forms = [part, *(b64encode(b"\0" * shift + part)[4:-4] for shift in range(3))]

    def fill(self, maestro: Maestro, session_id: str) -> None:
        """Put it into a session as message, context, prompt and output, and have all of it written and indexed."""
        file = self._root / "context.txt"
        file.write_text(f"as context: {self.word}\n")
        maestro.messages.add("user", f"as a message: {self.word}", session_id)
        maestro.context.add(str(file), ref=session_id)
        run = maestro.runs.start(f"as a prompt, which echo prints: {self.word}", session_id, tool="echo")
        assert maestro.runs.wait(run, session_id).status == "success"
        maestro.archive.checkpoint(session_id)
        maestro.archive.export(session_id)
        assert maestro.search.find(self.word).total
        # What the server writes is searched byte by byte.
        maestro.server.connection.call("CONFIG", "SET", "rdbcompression", "no")

    def places(self) -> set[str]:
        """Return where it is found: in which folders below `.maestro/`, in HOME, in the server's keys."""
        kept = self._root / ".maestro"
        found = {path.relative_to(kept).parts[0] for path in kept.rglob("*") if self._is_in(path)}
        found |= {"HOME" for path in Path(os.environ["HOME"]).rglob("*") if self._is_in(path)}
        return found | ({KEYS} if any(map(self._has, self._dumps())) else set())

    def _is_in(self, path: Path) -> bool:
        try:
            return path.is_file() and self._has(path.read_bytes())
        except FileNotFoundError:
            return False  # removed just now

    def _has(self, content: bytes) -> bool:
        return any(form in content for form in self._forms)

    def _dumps(self) -> list[bytes]:
        """Return every key with what it holds; nothing while no server runs."""
        try:
            link = open_server(socket_address(self._root))
        except OSError:
            return []
        with closing(link):
            return [key + (link.call("DUMP", key) or b"") for key in link.call("KEYS", "*")]
