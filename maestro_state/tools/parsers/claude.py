"""Claude Code's stream-json: system, stream_event, assistant, user and result lines; the keys come in any order."""

from __future__ import annotations

from typing import Any

import msgspec

from maestro_state.models.run import Usage
from maestro_state.tools.outcome import SAID_IN_ALL
from maestro_state.tools.parsers.activity import DENIED, FILE_CHANGE, TOOL_CALL, about, path_in
from maestro_state.tools.parsers.lines import JsonLines, count, money, part, total, words

#: Its tools that change the file they are about.
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "edit", "replace"})

#: Calls whose end is waited for, at most.
_CALLS_MAX = 1000


class Stream(JsonLines):
    """Text from pieces, or from assistant lines where no pieces came; numbers and verdict from the result line."""

    def __init__(self, tool: str, exit_codes: dict[int, str]) -> None:
        super().__init__(tool, exit_codes)
        self._before, self._answer = Usage(), Usage()
        self._answer_id: str | None = None
        #: The answer that comes in pieces now, and the one whose text has come that way.
        self._piece_id: str | None = None
        self._pieced_id: str | None = None
        self._starts_block = True
        self._calls: dict[str, tuple[str, str | None]] = {}
        self._refused: set[str] = set()

    @property
    def so_far(self) -> Usage:
        """Return what the answers until now have counted; the result line counts better."""
        return self.usage if self.ended else _sum(self.usage, self._before, self._answer)

    def on_event(self, event: dict[str, Any]) -> list[str]:
        """Take one line."""
        self.told(tool_session=words(event, "session_id"))
        is_own = not event.get("parent_tool_use_id")
        match event.get("type"):
            case "system":
                return self._on_system(event)
            case "stream_event" if is_own:
                return self._on_piece(part(event, "event"))
            case "assistant":
                return self._on_assistant(event, is_own=is_own)
            case "user":
                self._on_results(part(event, "message", "content"))
            case "result":
                return self._on_result(event)
        return []

    def _on_system(self, event: dict[str, Any]) -> list[str]:
        self.told(model=_model(words(event, "model")))
        if event.get("subtype") == "api_retry":
            status, reason = count(event, "error_status"), words(event, "error")
            answered = f"the API answered {status or 'nothing'}{f' ({reason})' if reason else ''}"
            attempt, most = count(event, "attempt") or 0, count(event, "max_retries")
            self.retried("api_retry", f"{answered}, attempt {attempt}{f' of {most}' if most else ''}")
        return []

    def _on_piece(self, piece: object) -> list[str]:
        kind = part(piece, "type")
        if kind == "message_start":
            self._piece_id = words(piece, "message", "id")
            return []
        if kind == "content_block_start":
            # A new block is a new paragraph, once it has any text.
            self._starts_block = True
            return []
        if kind != "content_block_delta" or part(piece, "delta", "type") != "text_delta":
            return []
        self._pieced_id, self.warning = self._piece_id, None
        texts = self.say(part(piece, "delta", "text"), new=self._starts_block)
        self._starts_block = self._starts_block and not texts
        return texts

    def _on_assistant(self, event: dict[str, Any], *, is_own: bool) -> list[str]:
        blocks = part(event, "message", "content")
        blocks = blocks if isinstance(blocks, list) else []
        for block in blocks:
            if part(block, "type") == "tool_use":
                self._on_call(block)
        if not is_own:
            return []  # a helper's words are not the answer; what it does is done all the same
        # Its usage is that of the first byte of the answer: the counts that stay are taken from the result line.
        self.told(model=_model(words(event, "message", "model")))
        answer_id = words(event, "message", "id")
        if answer_id != self._answer_id:
            # One answer comes in several lines, each with the count of all of them.
            self._before, self._answer_id = _sum(Usage(), self._before, self._answer), answer_id
        usage = part(event, "message", "usage")
        self._answer = Usage(tokens_input=_sent(usage), tokens_output=count(usage, "output_tokens"))
        if answer_id is not None and answer_id == self._pieced_id:
            return []
        texts: list[str] = []
        for block in blocks:
            if part(block, "type") == "text":
                self.warning = None
                texts += self.say(part(block, "text"), new=True)
        return texts

    def _on_call(self, block: object) -> None:
        name, arguments, call_id = words(block, "name"), part(block, "input"), words(block, "id")
        if name is None:
            return
        self.activities.note(TOOL_CALL, name, about(arguments))
        if call_id and len(self._calls) < _CALLS_MAX:
            self._calls[call_id] = (name, path_in(arguments) if name in _WRITERS else None)

    def _on_results(self, blocks: object) -> None:
        for block in blocks if isinstance(blocks, list) else []:
            call = self._calls.pop(words(block, "tool_use_id") or "", None)
            if call is None:
                continue
            name, path = call
            said = words(block, "content") or ""
            if part(block, "is_error") is not True:
                if path:
                    self.activities.note(FILE_CHANGE, name, path)
            elif "permission" in said.lower():
                self._refused.add(words(block, "tool_use_id") or "")
                self.activities.note(DENIED, name, path or said)

    def _on_result(self, event: dict[str, Any]) -> list[str]:
        self.ended = True
        usage = part(event, "usage")
        self.told(
            tokens_input=_sent(usage),
            tokens_output=count(usage, "output_tokens"),
            tokens_cache_read=count(usage, "cache_read_input_tokens") or None,
            tokens_cache_write=count(usage, "cache_creation_input_tokens") or None,
            cost=money(event, "total_cost_usd"),
            counters=_said_in_all(part(event, "modelUsage")),
        )
        refused = part(event, "permission_denials")
        for one in refused if isinstance(refused, list) else []:
            if words(one, "tool_use_id") not in self._refused:
                self.activities.note(DENIED, words(one, "tool_name") or "", about(part(one, "tool_input")))
        said = words(event, "result")
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            self.failure = said or words(event, "subtype") or "it ended in an error"
            return []
        return [] if self.has_spoken else self.say(said)


def _said_in_all(models: object) -> dict[str, int] | None:
    """Return how much all models said: in the whole session, or in this call, as the cost is of one or the other."""
    counts = [count(one, "outputTokens") for one in models.values()] if isinstance(models, dict) else []
    found = total(*counts)
    return None if found is None else {SAID_IN_ALL: found}


def _model(name: str | None) -> str | None:
    """Return a model's name; `[1m]` behind it is how much it may read, and `<synthetic>` is the tool itself."""
    return None if name is None or name.startswith("<") else name.partition("[")[0] or None


def _sent(usage: Any) -> int | None:
    """Return how many tokens were sent: what was read from or written to its cache was sent too."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return total(*(count(usage, name) for name in names))


def _sum(known: Usage, *parts: Usage) -> Usage:
    """Return what is known with the tokens of all parts."""
    return msgspec.structs.replace(
        known,
        tokens_input=total(*(one.tokens_input for one in parts)),
        tokens_output=total(*(one.tokens_output for one in parts)),
    )
