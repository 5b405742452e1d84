"""opencode's `run --format json`: steps with text, tools and counts of their own; on stderr its log."""

from __future__ import annotations

import re
from typing import Any

from maestro_state.models.run import Activity
from maestro_state.tools.outcome import Outcome
from maestro_state.tools.parsers.activity import DENIED, FILE_CHANGE, TOOL_CALL, about, path_in
from maestro_state.tools.parsers.lines import JsonLines, count, money, part, total, words

_WRITERS = frozenset({"write", "edit", "patch", "multiedit"})

#: The model of an answer; `small=true` is one that only finds a title.
_MODEL = re.compile(rb"message=stream providerID=(\S{1,100}) modelID=(\S{1,200}) .*small=false")
#: A try that failed, and the end of all of them.
_FAILED = re.compile(rb'level=ERROR .*message="stream error" .*small=false .*error\.error="?([^"\n]{1,300})')
_GIVEN_UP = re.compile(rb"level=ERROR .*message=process ")
_LOG = re.compile(rb"^timestamp=\S+ level=")


class Stream(JsonLines):
    """Text from text events; numbers summed over steps; done when the last step finished for good."""

    terminal = "step_finish"

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        super().__init__(tool, exit_codes)
        #: The try that failed last, and whether it was looked at already: then it is tried again.
        self._failed: str | None = None
        self._was_looked_at = False

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        self.told(tool_session=words(event, "sessionID"))
        match event.get("type"):
            case "step_start":
                self.ended = False
            case "text":
                self.warning = None
                return self.say(part(event, "part", "text"), new=True)
            case "tool_use":
                self._on_call(part(event, "part"))
            case "error":
                name, told = words(event, "error", "name"), words(event, "error", "data", "message")
                status = count(event, "error", "data", "statusCode")
                said = told or (f"the API answered {status}" if status else None)
                self.failure = ": ".join(one for one in (name, said) if one) or "it ended in an error"
            case "step_finish":
                self._on_step(part(event, "part"))
        return []

    def on_stderr(self, line: bytes) -> None:
        """Read the model from its log, and what went wrong there; a log line is no last word of the tool's."""
        if found := _MODEL.search(line):
            self.told(model=b"/".join(found.groups()).decode("utf-8", "replace"))
        elif found := _FAILED.search(line):
            self._tell_retry()
            self._failed, self._was_looked_at = found[1].decode("utf-8", "replace"), False
        elif _GIVEN_UP.search(line):
            self._failed = None

    def _tell_retry(self) -> None:
        if self._failed is not None:
            self.retried("stream error", self._failed)
        self._failed = None

    def take_activities(self) -> list[Activity]:
        """Return what the agent did; a try that failed is one to be repeated when it is not given up at once."""
        if self._was_looked_at:
            self._tell_retry()
        self._was_looked_at = self._failed is not None
        return super().take_activities()

    def end(self, exit_code: int | None, stderr: bytes = b"") -> Outcome:
        """Judge the call; one that was ended had meant to try again."""
        self.hear(b"\n")
        if self.failure is None:
            self._tell_retry()
        return super().end(exit_code, stderr)

    def is_noise(self, line: bytes) -> bool:
        """Tell whether a line of stderr says nothing to people."""
        return _LOG.match(line) is not None

    def _on_call(self, call: object) -> None:
        name, state = words(call, "tool") or "", part(call, "state")
        arguments = part(state, "input")
        self.activities.note(TOOL_CALL, name, about(arguments))
        path = path_in(arguments) if name in _WRITERS else None
        if words(state, "status") == "completed":
            if path:
                self.activities.note(FILE_CHANGE, name, path)
            return
        said = words(state, "error") or ""
        if "permission" in said.lower() or "rejected" in said.lower():
            self.activities.note(DENIED, name, path or said)

    def _on_step(self, step: object) -> None:
        # A step that ends to call tools is followed by another one.
        self.ended = words(step, "reason") != "tool-calls"
        tokens = part(step, "tokens")
        read, written = count(tokens, "cache", "read"), count(tokens, "cache", "write")
        thought, cost = count(tokens, "reasoning"), money(step, "cost")
        self.told(
            tokens_input=total(self.usage.tokens_input, count(tokens, "input"), read, written),
            tokens_output=total(self.usage.tokens_output, count(tokens, "output"), thought),
            tokens_cache_read=total(self.usage.tokens_cache_read, read) or None,
            tokens_cache_write=total(self.usage.tokens_cache_write, written) or None,
            tokens_reasoning=total(self.usage.tokens_reasoning, thought) or None,
            cost=None if cost is None else (self.usage.cost or 0.0) + cost,
        )
