"""The four protocols models are asked in, as far as the tools need them: Anthropic Messages, OpenAI Responses and
Chat Completions, Gemini. Each reads a request and writes an answer, whole or as a stream of server-sent events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

#: What an answer is said to have cost, in each protocol's words.
MESSAGES_USAGE = {
    "input_tokens": 12, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 7
}  # fmt: skip
RESPONSES_USAGE = {
    "input_tokens": 120, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 45,
    "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 165,
}  # fmt: skip
CHAT_USAGE = {"prompt_tokens": 21, "completion_tokens": 5, "total_tokens": 26}
GEMINI_USAGE = {
    "promptTokenCount": 50, "candidatesTokenCount": 8, "totalTokenCount": 58, "cachedContentTokenCount": 10
}  # fmt: skip


@dataclass
class Asked:
    """What a request says, whatever its protocol."""

    text: str = ""  #: what the person said last
    questions: int = 0  #: how often a person spoke in it
    has_result: bool = False  #: a tool was called after that, and its result is here
    tools: list[str] = field(default_factory=list)  #: names of the tools the model may call


@dataclass
class Answer:
    """What the model says: text in pieces, or one call of a tool."""

    pieces: list[str]
    call: tuple[str, Json] | None = None
    number: int = 1


def _spoken(turns: list[tuple[bool, str]]) -> Asked:
    """Sum up turns, each a result of a tool or a person's words."""
    asked = Asked(questions=sum(not is_result and bool(text) for is_result, text in turns))
    for is_result, text in reversed(turns):
        if not is_result and text:
            asked.text = text
            break
        asked.has_result = asked.has_result or is_result
    return asked


def _texts(content: object, *kinds: str) -> str:
    """Join the texts of a message, which is one text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(one.get("text", "") for one in parts if isinstance(one, dict) and one.get("type") in kinds)


class Messages:
    """Anthropic's."""

    named_events = True

    def read(self, request: Json) -> Asked:
        """Read a request."""
        turns = []
        for one in request.get("messages", []):
            if one["role"] == "user":
                parts = one["content"] if isinstance(one["content"], list) else []
                is_result = any(part.get("type") == "tool_result" for part in parts)
                turns.append((is_result, _texts(one["content"], "text")))
        asked = _spoken(turns)
        asked.tools = [one.get("name", "") for one in request.get("tools") or []]
        return asked

    def whole(self, request: Json, answer: Answer) -> Json:
        """Write an answer at once."""
        block: Json = {"type": "text", "text": "".join(answer.pieces)}
        if answer.call:
            block = {
                "type": "tool_use",
                "id": f"toolu_{answer.number}",
                "name": answer.call[0],
                "input": answer.call[1],
            }
        return self._message(request, answer, [block], MESSAGES_USAGE) | {
            "stop_reason": "tool_use" if answer.call else "end_turn"
        }

    def _message(self, request: Json, answer: Answer, content: list[Json], usage: Json) -> Json:
        return {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": request["model"],
                "content": content, "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip

    def events(self, request: Json, answer: Answer) -> Iterator[Json]:
        """Write an answer piece by piece."""
        yield {
            "type": "message_start",
            "message": self._message(request, answer, [], MESSAGES_USAGE | {"output_tokens": 1}),
        }
        if answer.call:
            name, arguments = answer.call
            opened: Json = {"type": "tool_use", "id": f"toolu_{answer.number}", "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]
        else:
            opened = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
        yield {"type": "content_block_start", "index": 0, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        stop = {"stop_reason": "tool_use" if answer.call else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}}
        yield {"type": "message_stop"}


class Responses:
    """OpenAI's newer one."""

    named_events = True

    def read(self, request: Json) -> Asked:
        """Read a request."""
        turns = []
        given = request.get("input")
        for one in given if isinstance(given, list) else [{"role": "user", "content": given}]:
            if str(one.get("type", "")).endswith("_output"):
                turns.append((True, ""))
            elif one.get("role") == "user":
                turns.append((False, _texts(one.get("content"), "input_text", "text")))
        asked = _spoken(turns)
        for one in request.get("tools") or []:  # those of an MCP server come together, under its name
            inner = one.get("tools") if one.get("type") == "namespace" else None
            asked.tools += [f"{one['name']}/{tool['name']}" for tool in inner] if inner else [one.get("name", "")]
        return asked

    def _item(self, answer: Answer) -> Json:
        if answer.call:
            (space, _, name), arguments = answer.call[0].rpartition("/"), answer.call[1]
            said = {"namespace": space, "name": name} if space else {"name": name}
            return {"type": "function_call", "id": f"fc_{answer.number}", "call_id": f"call_{answer.number}",
                    "arguments": json.dumps(arguments), "status": "completed"} | said  # fmt: skip
        text = {"type": "output_text", "text": "".join(answer.pieces), "annotations": []}
        return {"type": "message", "id": f"item_{answer.number}", "role": "assistant", "status": "completed",
                "content": [text]}  # fmt: skip

    def whole(self, request: Json, answer: Answer) -> Json:
        """Write an answer at once."""
        return {"id": f"resp_{answer.number}", "object": "response", "created_at": 1, "model": request.get("model"),
                "status": "completed", "output": [self._item(answer)], "usage": RESPONSES_USAGE}  # fmt: skip

    def events(self, request: Json, answer: Answer) -> Iterator[Json]:
        """Write an answer piece by piece."""
        done = self.whole(request, answer)
        yield {"type": "response.created", "response": done | {"status": "in_progress", "output": []}}
        item = done["output"][0]
        yield {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}}
        for piece in [] if answer.call else answer.pieces:
            yield {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0, "content_index": 0,
                   "delta": piece}  # fmt: skip
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": done}


class Chat:
    """OpenAI's older one, which most others speak too."""

    named_events = False

    def read(self, request: Json) -> Asked:
        """Read a request."""
        turns = [
            (one["role"] == "tool", _texts(one.get("content"), "text") if one["role"] == "user" else "")
            for one in request.get("messages", [])
            if one["role"] in ("user", "tool")
        ]
        asked = _spoken(turns)
        asked.tools = [one.get("function", {}).get("name", "") for one in request.get("tools") or []]
        return asked

    def _call(self, answer: Answer) -> Json:
        assert answer.call is not None
        name, arguments = answer.call
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"tool_calls": [{"index": 0, "id": f"call_{answer.number}", "type": "function", "function": function}]}

    def whole(self, request: Json, answer: Answer) -> Json:
        """Write an answer at once."""
        said: Json = self._call(answer) if answer.call else {"content": "".join(answer.pieces)}
        choice = {"index": 0, "finish_reason": "tool_calls" if answer.call else "stop",
                  "message": {"role": "assistant"} | said}  # fmt: skip
        return {"id": f"c{answer.number}", "created": 1, "model": request.get("model"), "object": "chat.completion",
                "choices": [choice], "usage": CHAT_USAGE}  # fmt: skip

    def events(self, request: Json, answer: Answer) -> Iterator[Json]:
        """Write an answer piece by piece."""
        deltas: list[Json] = [self._call(answer)] if answer.call else [{"content": one} for one in answer.pieces]
        base = {
            "id": f"c{answer.number}",
            "created": 1,
            "model": request.get("model"),
            "object": "chat.completion.chunk",
        }
        for delta in deltas:
            yield base | {"choices": [{"index": 0, "delta": {"role": "assistant"} | delta, "finish_reason": None}]}
        reason = "tool_calls" if answer.call else "stop"
        yield base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": CHAT_USAGE}


class Gemini:
    """Google's."""

    named_events = False

    def read(self, request: Json) -> Asked:
        """Read a request."""
        turns = []
        for one in request.get("contents", []):
            if one.get("role", "user") == "user":
                is_result = any("functionResponse" in part for part in one["parts"])
                turns.append((is_result, "\n".join(part.get("text", "") for part in one["parts"])))
        asked = _spoken(turns)
        asked.tools = [
            function.get("name", "")
            for tool in request.get("tools") or []
            for function in tool.get("functionDeclarations", [])
        ]
        return asked

    def _chunk(self, request: Json, part: Json, **more: Any) -> Json:
        content = {"role": "model", "parts": [part]}
        return {"candidates": [{"index": 0, "content": content, **more}], "modelVersion": request["model"],
                "usageMetadata": GEMINI_USAGE}  # fmt: skip

    def whole(self, request: Json, answer: Answer) -> Json:
        """Write an answer at once; where JSON is asked for, a router wants to know how hard the question is."""
        if (request.get("generationConfig") or {}).get("responseJsonSchema"):
            text = json.dumps({"complexity_reasoning": "easy", "complexity_score": 10})
            return self._chunk(request, {"text": text}, finishReason="STOP")
        return self._chunk(request, {"text": "".join(answer.pieces)}, finishReason="STOP")

    def events(self, request: Json, answer: Answer) -> Iterator[Json]:
        """Write an answer piece by piece."""
        if answer.call:
            part = {"functionCall": {"name": answer.call[0], "args": answer.call[1]}}
            yield self._chunk(request, part, finishReason="STOP")
            return
        for piece in answer.pieces:
            yield self._chunk(request, {"text": piece})
        yield self._chunk(request, {"text": ""}, finishReason="STOP")


Protocol = Messages | Responses | Chat | Gemini


def protocol_of(path: str) -> Protocol | None:
    """Return the protocol a path belongs to."""
    if path.endswith("/messages"):
        return Messages()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith("/chat/completions"):
        return Chat()
    return Gemini() if "enerateContent" in path else None
