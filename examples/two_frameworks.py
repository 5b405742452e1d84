"""One session, shared by a terminal, an agent of the OpenAI Agents SDK and a graph of LangGraph; needs both frameworks.

    pip install 'maestro-state[openai-agents,langgraph]' langgraph

The model is a few lines below, on loopback: no account is needed, and nothing leaves this machine.
"""

import asyncio
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI

from maestro_state import AsyncMaestro
from maestro_state.adapters.langgraph import MaestroSaver
from maestro_state.adapters.openai_agents import MaestroSession

set_tracing_disabled(True)


class Model(BaseHTTPRequestHandler):
    """A model that says how much it was told, and what came last."""

    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        answer = {"role": "assistant", "content": f"I was told {len(told)} things, last: {told[-1]['content']}"}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "loopback",
                 "choices": [{"index": 0, "finish_reason": "stop", "message": answer}]}  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_):
        """Be quiet."""


def terminal(*words):
    """Do what somebody does in a terminal of this project."""
    return subprocess.run(["maestro", *words], capture_output=True, text=True, check=True).stdout


async def main(model):
    async with AsyncMaestro() as maestro:
        session = await maestro.sessions.start("login")
        terminal("message", "add", "--role", "user", "The login fails after an hour.")

        # An agent of the OpenAI Agents SDK: it is handed what the terminal said.
        agent = Agent("diagnosis", model=OpenAIChatCompletionsModel("loopback", model))
        async with MaestroSession(session.id, maestro=maestro) as shared:
            await Runner.run(agent, "Why?", session=shared)

        # A graph of LangGraph on the same session: its thread is the session's id. It reads what all others said.
        async def review(_: MessagesState):
            told = [{"role": one.role, "content": one.content} for one in await maestro.messages.for_model(session.id)]
            reply = await model.chat.completions.create(model="loopback", messages=told)
            return {"messages": [("ai", reply.choices[0].message.content)]}

        builder = StateGraph(MessagesState)
        builder.add_node("review", review)
        builder.add_edge(START, "review")
        async with MaestroSaver(maestro=maestro) as saver:
            graph = builder.compile(checkpointer=saver)
            thread = {"configurable": {"thread_id": session.id}}
            # Durable at each step: the question is in the session before the node reads it there.
            await graph.ainvoke({"messages": [("user", "Is that right?")]}, thread, durability="sync")

        # The agent goes on, and is told what the graph said.
        async with MaestroSession(session.id, maestro=maestro) as shared:
            print((await Runner.run(agent, "And now?", session=shared)).final_output)
    print(terminal("messages"))


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
asyncio.run(main(AsyncOpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")))
server.shutdown()
