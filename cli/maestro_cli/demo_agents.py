"""The second scene of `make demo`: two agents, each with a server of its own, talk through one session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from maestro_cli import output

if TYPE_CHECKING:
    from mcp.client import Client

#: What to say where the SDK is not installed; the demo has an environment of its own.
WITHOUT = "Two agents in one session are the second scene: .venv/bin/pip install -e '.[mcp]', and make demo shows it."


def play(maestro: str, folder: Path, environment: dict[str, str]) -> None:
    """Play the scene in a project with an active session; the SDK is installed."""
    import anyio

    anyio.run(_talk, maestro, folder, environment)


async def _talk(maestro: str, folder: Path, environment: dict[str, str]) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp_types import Implementation

    started = StdioServerParameters(command=maestro, args=["mcp"], cwd=folder, env=environment)

    def agent(name: str) -> Client:
        return Client(started, client_info=Implementation(name=name, version="1"))

    async with agent("ana's agent") as first, agent("ben's agent") as second:
        seen = await _call(first, 1, "get_session")
        await _call(second, 2, "post_message", content="Which cookie fails? I only see the login page.")
        heard = await _call(first, 1, "wait_for_events", cursor=seen["cursor"])
        await _call(first, 1, "post_message", content="The session cookie: its lifetime is 0. I fix login.py now.")
        await _call(second, 2, "wait_for_events", cursor=heard["cursor"])
        await _call(second, 2, "get_session")


async def _call(agent: Client, number: int, tool: str, **said: Any) -> dict[str, Any]:
    mark = output.colour(f" {number} │ ", ("cyan", "magenta")[number - 1])
    words = ", ".join(f'{name}="{value}"' for name, value in said.items() if name != "cursor")
    output.line(mark + output.colour(f"{tool}({words})", bold=True))
    answer: dict[str, Any] = (await agent.call_tool(tool, said)).structured_content or {}
    for event in answer.get("events", []):
        told = event["data"]
        if event["type"] == "message.added":
            output.line(f"{mark}heard {told['metadata']['client']}: {told['content']}")
    if answer.get("session"):
        names = ", ".join(one["terminal"] for one in answer["attached"])
        output.line(f"{mark}session {answer['session']['id']}, attached: {names}")
    return answer
