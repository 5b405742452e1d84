"""LLM prints plain text, and its token counts on stderr as `Token usage: 12 input, 7 output`."""

from __future__ import annotations

import re

import msgspec

from maestro_state.models.run import Usage
from maestro_state.tools.outcome import Outcome
from maestro_state.tools.parsers import plain

_USAGE = re.compile(rb"Token usage: (?P<input>[\d,]{1,20}) input(?:, (?P<output>[\d,]{1,20}) output)?")


class Stream(plain.Stream):
    """Plain text, with the numbers of the last line on stderr."""

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge by the exit code; read the counts where there are any."""
        outcome = super().end(exit_code, stderr)
        found = list(_USAGE.finditer(stderr))
        if not found:
            return outcome
        given, said = (_number(found[-1][name]) for name in ("input", "output"))
        return msgspec.structs.replace(outcome, usage=Usage(tokens_input=given, tokens_output=said))


def _number(digits: bytes | None) -> int | None:
    plain_digits = (digits or b"").replace(b",", b"")
    return int(plain_digits) if plain_digits else None
