"""What a search answers."""

from __future__ import annotations

import msgspec

from maestro_state.models.message import id_order

#: What can be found.
KINDS = ("message", "prompt", "output", "context", "note")


class Hit(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One thing that was found."""

    session_id: str
    slug: str
    kind: str  #: message, prompt, output, context or note
    entry: str  #: id of the message, the run or the item; of a note, what it is of
    role: str | None = None  #: of a message: who said it
    ts: str
    snippet: str  #: the piece that shows why, with what was asked for in «marks»
    project: str | None = None  #: of a search everywhere: in which project

    @property
    def command(self) -> str:
        """The command that shows it whole."""
        where = "maestro"
        if self.project is not None:
            from shlex import quote

            where += f" --project {quote(self.project)}"
        if self.kind == "note" and not self.entry.startswith("ctx-") and not self.entry.isdigit():
            return f"{where} session status {self.session_id}"
        where += f" --session {self.session_id}"
        if self.kind == "message":
            return f"{where} messages --since {_before(self.entry)}"
        if self.entry.startswith("ctx-"):
            return f"{where} context show {self.entry}"
        return f"{where} show {self.entry}" + (" --prompt" if self.kind == "prompt" else "")


def _before(message_id: str) -> str:
    """Return an id after which this one is the first, or next to it: only the last messages are shown without one."""
    ms, number = id_order(message_id)
    return f"{ms}-{number - 1}" if number else f"{max(0, ms - 1)}"


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a search found."""

    results: list[Hit]
    total: int  #: how many there are, shown or not
    skipped: list[str] = []  #: sessions of which something could not be read


class Rebuilt(msgspec.Struct, frozen=True):
    """What the cache holds after it was made anew."""

    sessions: int
    entries: int
