"""One turn of a conversation on its way to becoming a run."""

from __future__ import annotations

from math import fsum
from typing import Any

import msgspec

from maestro_state.clock import iso
from maestro_state.histories.values import Tokens, Used
from maestro_state.models.run import Activity, Flags, OutputRef, Run, Usage, preview
from maestro_state.tools.parsers.activity import FILE_CHANGE, NAME_MAX, SUMMARY_MAX, TOOL_CALL, about, one_line, path_in

#: Calls that change files, by the words of the tools, small.
_EDITS = {"edit", "multiedit", "write", "notebookedit", "write_file", "replace", "edit_file", "apply_patch", "patch",
          "notebook_edit", "str_replace", "create_file"}  # fmt: skip

UNANSWERED = "the history ends before an answer"


class Turned(msgspec.Struct, array_like=True):
    """What is kept of a turn beside its run: its key, and what it consumed in detail."""

    key: str
    tokens: Tokens = Tokens()
    cost: float | None = None


class Turn:
    """A turn in the making."""

    def __init__(self, number: int, key: str, at_ms: int) -> None:
        """Begin one."""
        self.id = f"{number:04d}"
        self.key = key
        self.started_ms = self.last_ms = at_ms
        self.prompt: str | None = None
        self.prompt_id: str | None = None
        self.text: str | None = None
        self.model: str | None = None
        self.used: dict[str, Used] = {}
        self.status: str | None = None
        self.error: str | None = None
        self.has_answer = False
        self.is_changed = False
        self.before: Run | None = None  #: as the archive has it
        self.turned = Turned(key)

    def resume(self, run: Run, turned: Turned) -> None:
        """Go on with one that the archive has."""
        self.before, self.turned = run, turned
        self.has_answer = run.status == "success"

    def settle(self) -> bool:
        """Add up what it consumed; tell whether the run is to be written."""
        tokens = sum((one.tokens for one in self.used.values()), Tokens())
        costs = [one.cost for one in self.used.values() if one.cost is not None]
        cost = round(fsum(costs), 9) if costs else None
        if tokens.total >= self.turned.tokens.total and (tokens, cost) != (self.turned.tokens, self.turned.cost):
            # Less than before is of a history that was rewritten: what was seen stays.
            self.turned = Turned(self.key, tokens, cost)
            self.is_changed = True
        return self.is_changed or self.before is None

    def usage(self, external_id: str | None) -> Usage:
        """Return what it consumed as runs tell it: what was read from or written to a cache was sent, too."""
        tokens = self.turned.tokens
        is_told = tokens.total > 0
        return Usage(
            model=self.model,
            tokens_input=tokens.total - tokens.output if is_told else None,
            tokens_output=tokens.output if is_told else None,
            tokens_cache_read=tokens.cache_read or None,
            tokens_cache_write=tokens.cache_write or None,
            tokens_reasoning=tokens.reasoning or None,
            cost=self.turned.cost,
            tool_session=external_id,
        )

    def run(self, tool: str, external_id: str, user: str, output: OutputRef | None, prompt_digest: str | None) -> Run:
        """Return the run of the turn as it stands."""
        status = self.status or ("success" if self.has_answer else "error")
        error = self.error if self.status else (None if self.has_answer else UNANSWERED)
        usage = self.usage(external_id)
        if usage.model is None and self.before and self.before.usage:
            usage = msgspec.structs.replace(usage, model=self.before.usage.model)
        if self.before is not None:
            return msgspec.structs.replace(
                self.before,
                status=status,
                error=error,
                usage=usage,
                finished_at=max(iso(self.last_ms), self.before.finished_at or ""),
                output_ref=output or self.before.output_ref,
            )
        return Run(
            id=self.id,
            tool=tool,
            prompt_source="cli",
            flags=Flags(False, False),
            status=status,
            created_at=iso(self.started_ms),
            started_at=iso(self.started_ms),
            finished_at=iso(self.last_ms),
            context_refs=[],
            context_version=[],
            output_ref=output,
            error=error,
            usage=usage,
            prompt_digest=prompt_digest,
            user=user,
            prompt_preview=preview((self.prompt or "").encode("utf-8", "replace")),
        )


def activity_of(call: dict[str, Any]) -> Activity:
    """Return what a call of a tool does, in one line."""
    name, arguments = str(call.get("tool") or ""), call.get("args")
    path = path_in(arguments) if name.lower() in _EDITS else None
    kind, summary = (FILE_CHANGE, path) if path else (TOOL_CALL, about(arguments))
    return Activity(kind, one_line(name, NAME_MAX) or kind, one_line(summary, SUMMARY_MAX))
