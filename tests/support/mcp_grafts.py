"""What the protocol's own suite wants to find in a server, put beside what Maestro's has, or on the SDK's bare one.

`python -m tests.support.mcp_grafts ours|bare` serves it over HTTP and prints the address. Only for tests: the suite
names these tools, resources and prompts, and what they answer. No annotation may be a text: the SDK reads them.
"""

import asyncio
import base64
import socket
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

from maestro_state.mcp import asgi_app, build_server

_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
_WAV = base64.b64encode(b"RIFF\x04\x00\x00\x00WAVE").decode()
_PIECE_S = 0.05  #: between two notifications, as the suite asks for


def _text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def _image() -> ImageContent:
    return ImageContent(type="image", data=_PNG, mime_type="image/png")


def _embedded(uri: str, said: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=said))


class Asked(BaseModel):
    """What a person is asked for."""

    username: str = Field(description="their name")
    email: str = Field(description="their address")


class Defaults(BaseModel):
    """A value given beforehand, of each kind."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


def _of(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in rows]


_TITLED = _of(("value1", "First"), ("value2", "Second"), ("value3", "Third"))
_PLAIN = ["option1", "option2", "option3"]


class Choices(BaseModel):
    """A choice, of each kind."""

    untitledSingle: str = Field(json_schema_extra={"enum": _PLAIN})
    titledSingle: str = Field(json_schema_extra={"oneOf": _TITLED})
    legacyEnum: str = Field(json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]})
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": _PLAIN}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": _TITLED}})


def _form(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object", "required": [*properties],
        "properties": {name: {"type": kind} for name, kind in properties.items()},
    }  # fmt: skip
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _question(said: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=_text(said))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _described(server: MCPServer) -> Any:
    """Return what adds a tool; the suite wants a description of each."""
    return server.tool(description="for the protocol's suite")


def graft(server: MCPServer) -> MCPServer:
    """Add everything to a server."""
    for add in (_add_contents, _add_talking, _add_asking, _add_resources, _add_prompts):
        add(server)
    return server


def _add_contents(server: MCPServer) -> None:
    """Tools that answer at once."""
    tool = _described(server)

    @tool
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @tool
    def test_image_content() -> list[ImageContent]:
        return [_image()]

    @tool
    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=_WAV, mime_type="audio/wav")]

    @tool
    def test_embedded_resource() -> list[EmbeddedResource]:
        return [_embedded("test://embedded-resource", "This is an embedded resource content.")]

    @tool
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        data = _embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return [_text("Multiple content types test:"), _image(), data]

    @tool
    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")


def _add_talking(server: MCPServer) -> None:
    """Tools that talk with the client while they work."""
    tool = _described(server)

    @tool
    async def test_tool_with_logging(ctx: Context) -> str:
        for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.info(said)
            await asyncio.sleep(_PIECE_S)
        return "done"

    @tool
    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(progress=done, total=100)
            await asyncio.sleep(_PIECE_S)
        return "done"

    @tool
    async def test_sampling(prompt: str, ctx: Context) -> str:
        messages = [SamplingMessage(role="user", content=_text(prompt))]
        answer = await ctx.session.create_message(messages=messages, max_tokens=100)
        return f"LLM response: {answer.content.text}"

    @tool
    async def test_elicitation(message: str, ctx: Context) -> str:
        return str(await ctx.elicit(message=message, schema=Asked))

    @tool
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        return str(await ctx.elicit(message="Who?", schema=Defaults))

    @tool
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        return str(await ctx.elicit(message="Which?", schema=Choices))

    @tool
    async def test_reconnection(ctx: Context) -> str:
        await ctx.close_sse_stream()
        await asyncio.sleep(_PIECE_S)
        return "done"


def _add_asking(server: MCPServer) -> None:  # noqa: C901 - many small tools
    """Tools that answer with what they need to know first, as it is done from 2026-07-28 on."""
    tool = _described(server)
    asking_name = {"user_name": _form("What is your name?", name="string")}

    @tool
    def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
        said = _content(ctx, "user_name", "name")
        return f"Hello, {said}!" if said else InputRequiredResult(input_requests=asking_name)

    @tool
    def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
        said = (ctx.input_responses or {}).get("capital_question")
        asking = {"capital_question": _question("What is the capital of France?")}
        return str(said) if said else InputRequiredResult(input_requests=asking)

    @tool
    def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
        said = (ctx.input_responses or {}).get("client_roots")
        return str(said) if said else InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})

    @tool
    def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
        can = ctx.client_capabilities
        asking = {"greeting": _question("Generate a greeting")} if can and can.sampling else {}
        return InputRequiredResult(input_requests=asking | (asking_name if can and can.elicitation else {}))

    @tool
    def test_missing_capability(ctx: Context) -> str:
        if not (ctx.client_capabilities and ctx.client_capabilities.sampling):
            needed = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "the client has to offer sampling", needed)
        return "done"

    @tool
    def test_custom_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return region

    @tool
    def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
        return _confirmed(ctx)

    @tool
    def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
        return _confirmed(ctx)

    @tool
    def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
        asking = asking_name | {"greeting": _question("Generate a greeting"), "client_roots": ListRootsRequest()}
        if set(ctx.input_responses or {}) >= set(asking):
            return "all there"
        return InputRequiredResult(input_requests=asking, request_state="several")

    @tool
    def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
        if _content(ctx, "step2", "color"):
            return "both there"
        if _content(ctx, "step1", "name"):
            asking = {"step2": _form("Step 2: What is your favorite color?", color="string")}
            return InputRequiredResult(input_requests=asking, request_state="second")
        asking = {"step1": _form("Step 1: What is your name?", name="string")}
        return InputRequiredResult(input_requests=asking, request_state="first")

    @server.prompt()
    def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        """Ask for a context."""
        said = _content(ctx, "user_context", "context")
        asking = {"user_context": _form("What context should the prompt use?", context="string")}
        return [UserMessage(said)] if said else InputRequiredResult(input_requests=asking)


def _content(ctx: Context, key: str, name: str) -> Any:
    """Return what a person entered, if they did."""
    answer = (ctx.input_responses or {}).get(key)
    return (getattr(answer, "content", None) or {}).get(name)


def _confirmed(ctx: Context) -> str | InputRequiredResult:
    if ctx.request_state == "asked" and _content(ctx, "confirm", "ok") is not None:
        return "state-ok"
    return InputRequiredResult(input_requests={"confirm": _form("Please confirm", ok="boolean")}, request_state="asked")


def _add_resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def picture() -> bytes:
        """A picture."""
        return base64.b64decode(_PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def data(id: str) -> str:  # noqa: A002 - named by the suite
        """Data by id."""
        return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


def _add_prompts(server: MCPServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        """Say something."""
        return [UserMessage("This is a simple prompt for testing.")]

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        """Say what was given."""
        return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """Show a resource."""
        resource = _embedded(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """Show a picture."""
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(*_: object) -> Completion:
        return Completion(values=[], total=0, has_more=False)


def main(which: str) -> None:
    """Serve until it is ended."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = graft(build_server() if which == "ours" else MCPServer("bare"))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(asgi_app(server, retry_interval_ms=100), log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
