"""What the tools take: one struct each, from which its schema is made and by which arguments are read. Pure.

Descriptions are read by a model at every start: each word is paid for again and again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from maestro_state.errors import InvalidValue

A = TypeVar("A", bound="Arguments")

#: Longest that a tool waits, in seconds: hosts give up on a call after sixty.
LONGEST_WAIT_S = 55

Seconds = Annotated[float, Meta(ge=0, le=LONGEST_WAIT_S)]
Text = Annotated[str, Meta(min_length=1)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool."""


class GetSession(Arguments, frozen=True, kw_only=True):
    pass


class SearchSessions(Arguments, frozen=True, kw_only=True):
    query: Annotated[Text, Meta(description='Words that must all occur; "a phrase"; prefix*')]
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ReadMessages(Arguments, frozen=True, kw_only=True):
    last: Annotated[int, Meta(ge=1, le=200, extra_json_schema={"default": 20})] | UnsetType = UNSET
    since: Annotated[Text, Meta(description="Only those after this cursor or message id")] | UnsetType = UNSET


class PostMessage(Arguments, frozen=True, kw_only=True):
    content: Text
    role: Literal["assistant", "user", "system", "tool"] = "assistant"


class ReadContext(Arguments, frozen=True, kw_only=True):
    item: Annotated[Text, Meta(description="Id such as ctx-0001")] | UnsetType = UNSET


class AddContext(Arguments, frozen=True, kw_only=True):
    path: Annotated[Text, Meta(description="File, folder or glob of the project")] | UnsetType = UNSET
    text: Annotated[Text, Meta(description="A text to keep instead")] | UnsetType = UNSET


class WaitForEvents(Arguments, frozen=True, kw_only=True):
    cursor: Annotated[Text, Meta(description="Of an earlier answer; left out: from now on")] | UnsetType = UNSET
    timeout_s: Seconds = 20


class RunTool(Arguments, frozen=True, kw_only=True):
    prompt: Text | UnsetType = UNSET
    tool: Annotated[Text, Meta(description="claude, codex, gemini, …; else the session's")] | UnsetType = UNSET
    run_id: Annotated[Text, Meta(description="Look at this run instead of starting one")] | UnsetType = UNSET
    wait_s: Annotated[Seconds, Meta(description="Wait so long for its end")] = 0


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, without references."""
    _, components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = dict(components[kind.__name__])
    del schema["title"]
    schema.pop("description", None)
    if not schema["required"]:
        del schema["required"]
    return schema


def read(kind: type[A], given: dict[str, Any]) -> A:
    """Return the arguments a client gave; InvalidValue says which one is wrong, and what there is to give."""
    # Models give null for what they leave out, and a number as text.
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(said, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"{error}", hint=f"give {_usage(kind)}") from None


def _usage(kind: type[Arguments]) -> str:
    schema = schema_of(kind)
    if not schema["properties"]:
        return "no arguments"
    return ", ".join(_spelled(name, rule, schema.get("required", ())) for name, rule in schema["properties"].items())


def _spelled(name: str, rule: dict[str, Any], required: Any) -> str:
    bounds = f" {rule['minimum']}–{rule['maximum']}" if "maximum" in rule else ""
    words = f" {'|'.join(rule['enum'])}" if "enum" in rule else ""
    return f"{name}{bounds}{words}{'' if name in required else ' (optional)'}"
