"""The tools as people sit in them: data only. How each is started in a terminal, and how it goes on."""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from maestro_state.tools.tool import CONVERSATION

#: What ids of conversations look like that a tool takes from its user.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Interactive(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool is started in a terminal."""

    words: tuple[str, ...]
    begin: tuple[str, ...] = ()  #: gives a new conversation an id, which stands for CONVERSATION; none: it chooses one
    resume: tuple[str, ...]  #: goes on with the conversation whose id stands for CONVERSATION
    chooses: frozenset[str] = frozenset()  #: words of the user's that say which conversation is meant
    has_own_screen: bool = False  #: draws where the terminal's other lines are not, and restores them when it exits
    #: Words that only some versions know, as their help says: what they do keeps this start apart from others.
    apart: tuple[str, ...] = ()

    def argv(self, given: str | None, before: str | None, arguments: tuple[str, ...]) -> list[str]:
        """Return what is executed, after the words that register a server: a new conversation, or one gone on with."""
        chosen = self.resume if before else self.begin if given else ()
        return [*(before or given or "" if word == CONVERSATION else word for word in chosen), *arguments]

    def takes_an_id(self, arguments: tuple[str, ...]) -> bool:
        """Tell whether a new conversation can be given an id: not when the user says which one is meant."""
        return bool(self.begin) and not any(word.partition("=")[0] in self.chooses for word in arguments)

    def named(self, arguments: tuple[str, ...]) -> str | None:
        """Return the conversation that the user's words name by its id, if they do."""
        for word, following in pairwise((*arguments, "")):
            flag, _, attached = word.partition("=")
            if flag in self.chooses and _ID.fullmatch(attached or following):
                return attached or following
        return None


_CLAUDE_CHOOSES = frozenset({"--session-id", "--resume", "-r", "--continue", "-c", "--from-pr", "--teleport"})
_GEMINI_CHOOSES = frozenset({"--session-id", "--resume", "-r", "--continue", "-c", "--session-file"})

INTERACTIVE = {
    "claude": Interactive(
        words=("claude",),
        begin=("--session-id", CONVERSATION),
        resume=("--resume", CONVERSATION),
        chooses=_CLAUDE_CHOOSES,
    ),
    # Its shared background server has the environment of whoever started that, and the histories of everybody.
    "codex": Interactive(
        words=("codex",), resume=("resume", CONVERSATION), apart=("--no-daemon",), has_own_screen=True
    ),
    "gemini": Interactive(
        words=("gemini",),
        begin=("--session-id", CONVERSATION),
        resume=("--resume", CONVERSATION),
        chooses=_GEMINI_CHOOSES,
    ),
    "qwen": Interactive(
        words=("qwen",),
        begin=("--session-id", CONVERSATION),
        resume=("--resume", CONVERSATION),
        chooses=_GEMINI_CHOOSES,
    ),
    "opencode": Interactive(words=("opencode",), resume=("-s", CONVERSATION), has_own_screen=True),
    "llm": Interactive(words=("llm", "chat"), resume=("--cid", CONVERSATION)),
}
