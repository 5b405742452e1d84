"""Graphs of LangGraph on MaestroSaver: each does what it does on InMemorySaver, and what is said is in the session."""

from __future__ import annotations

import operator
import re
import textwrap
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Send, interrupt

from maestro_state.adapters.langgraph import MaestroSaver

T = {"configurable": {"thread_id": "t"}}


def talking() -> StateGraph:
    """Return a graph that says how much it was told."""
    builder = StateGraph(MessagesState)
    builder.add_node("agent", lambda state: {"messages": [AIMessage(f"told {len(state['messages'])}")]})
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder


def adding(frequency: int = 1000) -> StateGraph:
    """Return a graph whose list is a delta channel."""

    items = DeltaChannel(lambda state, new: state + [x for xs in new for x in xs], snapshot_frequency=frequency)
    State = TypedDict("State", {"items": Annotated[list[Any], items], "count": int})  # noqa: UP013
    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"items": [f"one {len(state['items'])}"], "count": 1})
    builder.add_node("two", lambda state: {"items": [f"two {len(state['items'])}"], "count": 2})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", END)
    return builder


class Fanned(TypedDict):
    """A state that parallel tasks add to."""

    found: Annotated[list[str], operator.add]


def fanning() -> StateGraph:
    """Return a graph with parallel tasks, a question to a person, and a graph inside."""
    inner = StateGraph(Fanned)
    inner.add_node("deep", lambda state: {"found": ["deep"]})
    inner.add_edge(START, "deep")
    builder = StateGraph(Fanned)
    builder.add_node("task", lambda state: {"found": [state["name"]]})
    builder.add_node("ask", lambda state: {"found": [interrupt({"so far": state["found"]})]})
    builder.add_node("inside", inner.compile(checkpointer=True))
    builder.add_conditional_edges(START, lambda state: [Send("task", {"name": name}) for name in "abc"], ["task"])
    builder.add_edge("task", "ask")
    builder.add_edge("ask", "inside")
    return builder


def said(saver: MaestroSaver, *, all_of_it: bool = False) -> list[tuple[str, str]]:
    """Return who said what in the thread's session."""
    found = saver.maestro.blocking.messages.since(ref="langgraph:t")
    return [(one.role, one.content) for one in found if all_of_it or not one.retracted_at]


def history(graph: Any) -> list[Any]:
    """Return what can be compared of a thread's history: all but ids and times."""
    return [
        (one.values, one.next, {k: v for k, v in one.metadata.items() if k != "parents"}, len(one.tasks))
        for one in graph.get_state_history(T)
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_parallel_tasks_questions_and_graphs_inside(place, durability):
    """The same states, step by step, as in memory."""
    with MaestroSaver(**place) as saver:
        graphs = [fanning().compile(checkpointer=one) for one in (saver, InMemorySaver())]
        for graph in graphs:
            graph.invoke({"found": ["start"]}, T, durability=durability)
            assert graph.get_state(T).interrupts[0].value == {"so far": ["start", "a", "b", "c"]}
            done = graph.invoke(Command(resume="yes"), T, durability=durability)
            assert done["found"][:5] == ["start", "a", "b", "c", "yes"]
        assert history(graphs[0]) == history(graphs[1])


async def test_awaited(place):
    """The other half, in a loop."""
    async with MaestroSaver(**place) as saver:
        graph = fanning().compile(checkpointer=saver)
        await graph.ainvoke({"found": []}, T)
        assert (await graph.aget_state(T)).next == ("ask",)
        assert "yes" in (await graph.ainvoke(Command(resume="yes"), T))["found"]


@pytest.mark.parametrize("frequency", [1, 3, 1000])
def test_delta_channels(place, frequency):
    """Rebuilt from what was written, also by another saver, also in a copy."""
    memory = InMemorySaver()
    with MaestroSaver(**place) as saver:
        for _ in range(4):
            for one in (saver, memory):
                adding(frequency).compile(checkpointer=one).invoke({"items": ["in"], "count": 0}, T)
    with MaestroSaver(**place) as saver:
        graphs = [adding(frequency).compile(checkpointer=one) for one in (saver, memory)]
        assert len(graphs[0].get_state(T).values["items"]) == 12
        assert history(graphs[0]) == history(graphs[1])
        ids = [one.config["configurable"]["checkpoint_id"] for one in graphs[0].get_state_history(T)]
        for where in ids[:3]:
            chosen = {"configurable": {**T["configurable"], "checkpoint_ns": "", "checkpoint_id": where}}
            found = saver.get_delta_channel_history(config=chosen, channels=["items", "none"])
            assert found["none"] == {"writes": []}
            assert found["items"].keys() <= {"writes", "seed"}
        saver.copy_thread("t", "copy")
        copied = graphs[0].get_state({"configurable": {"thread_id": "copy"}})
        assert copied.values == graphs[0].get_state(T).values


@pytest.mark.parametrize("frequency", [1, 3, 1000])
@pytest.mark.parametrize("keep_last", [1, 2])
def test_pruned_delta_channels(place, frequency, keep_last):
    """What the kept checkpoints are rebuilt from stays, the rest goes."""
    with MaestroSaver(**place) as saver:
        graph = adding(frequency).compile(checkpointer=saver)
        for _ in range(4):
            graph.invoke({"items": ["in"], "count": 0}, T)
        before = [one.values for one in graph.get_state_history(T)][:keep_last]
        total = len([*saver.list(T)])
        saver.prune(["t"], keep_last=keep_last)
        assert [one.values for one in graph.get_state_history(T)][:keep_last] == before
        left = len([*saver.list(T)])
        assert left >= keep_last
        assert left < total or frequency == 1000
        graph.invoke({"items": ["in"], "count": 0}, T)
        assert graph.get_state(T).values["items"][:-3] == before[0]["items"]


def test_pruned_values_are_gone(place):
    """Of an ordinary graph one checkpoint is left, and only its values."""
    with MaestroSaver(**place) as saver:
        graph = talking().compile(checkpointer=saver)
        for _ in range(3):
            graph.invoke({"messages": ["hello"]}, T)
        before = graph.get_state(T).values
        saver.prune(["t"])
        assert len([*saver.list(T)]) == 1
        assert graph.get_state(T).values == before
        kept = saver._own.run(saver.binding("langgraph", "t").kept())
        values = [name for name in kept if name.startswith('["value","","messages"')]
        assert len(values) == 1
        saver.prune(["t"], strategy="delete")
        assert [*saver.list(T)] == []


def test_what_is_said_is_a_message(place):
    """Once, in order, with tool calls; another saver goes on."""
    call = {"name": "look", "args": {"at": "é"}, "id": "c1", "type": "tool_call"}
    with MaestroSaver(**place) as saver:
        graph = talking().compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("hello")]}, T)
    with MaestroSaver(**place) as saver:
        graph = talking().compile(checkpointer=saver)
        graph.invoke({"messages": [AIMessage("", tool_calls=[call]), ToolMessage("seen", tool_call_id="c1")]}, T)
        assert said(saver) == [
            ("user", "hello"),
            ("assistant", "told 1"),
            ("assistant", ""),
            ("tool", "seen"),
            ("assistant", "told 4"),
        ]
        found = saver.maestro.blocking.messages.since(ref="langgraph:t")
        assert found[2].tool_calls == [{"id": "c1", "name": "look", "arguments": {"at": "é"}}]
        assert found[0].metadata["langgraph"]["data"]["content"] == "hello"


def test_delta_channels_speak(place):
    """Messages that are only in writes are said too."""

    class State(TypedDict):
        messages: Annotated[list[Any], DeltaChannel(lambda state, new: state + [x for xs in new for x in xs])]

    builder = StateGraph(State)
    builder.add_node("agent", lambda state: {"messages": [AIMessage("hi", id=f"a{len(state['messages'])}")]})
    builder.add_edge(START, "agent")
    with MaestroSaver(**place) as saver:
        graph = builder.compile(checkpointer=saver)
        for _ in range(2):
            graph.invoke({"messages": [HumanMessage("hello")]}, T)
        assert said(saver) == [("user", "hello"), ("assistant", "hi")] * 2


@pytest.mark.parametrize("is_early", [False, True])
def test_writes_are_said_with_the_checkpoint_that_comes_of_them(place, is_early):
    """Also when those of a step are handed over before the checkpoint that it began with, as the framework may."""
    asked = HumanMessage("hello", id="h1")
    writes = {"1": HumanMessage("again", id="h2"), "2": AIMessage("hi", id="a1"), "3": RemoveMessage(id="h1")}

    with MaestroSaver(**place) as saver:

        def put(number: int, version: int, **values: Any) -> None:
            checkpoint = empty_checkpoint() | {"id": str(number), "channel_values": values}
            parent = {"checkpoint_id": str(number - 1)} if number > 1 else {}
            config = {"configurable": T["configurable"] | {"checkpoint_ns": ""} | parent}
            saver.put(config, checkpoint, {"source": "loop", "step": number}, {"messages": version})

        def write(checkpoint_id: str) -> None:
            config = {"configurable": T["configurable"] | {"checkpoint_ns": "", "checkpoint_id": checkpoint_id}}
            saver.put_writes(config, [("messages", [writes[checkpoint_id]])], "task")

        put(1, 1, messages=[asked])
        if is_early:
            for checkpoint_id in reversed(writes):
                write(checkpoint_id)
        for number in (2, 3):
            is_early or write(str(number - 1))
            put(number, number)
        assert said(saver) == [("user", "hello"), ("user", "again"), ("assistant", "hi")]
        is_early or write("3")
        put(4, 4)
        assert said(saver) == [("user", "again"), ("assistant", "hi")]


def test_removed_and_rewound_messages_are_taken_back(place):
    """They stay in the record; what comes back later is said again."""
    with MaestroSaver(**place) as saver:
        graph = talking().compile(checkpointer=saver)
        graph.invoke({"messages": ["one"]}, T)
        first = graph.get_state(T)
        graph.invoke({"messages": ["two"]}, T)
        graph.update_state(T, {"messages": [RemoveMessage(first.values["messages"][0].id)]})
        assert said(saver) == [("assistant", "told 1"), ("user", "two"), ("assistant", "told 3")]

        graph.update_state(first.config, {"messages": [HumanMessage("instead")]})
        assert said(saver) == [("assistant", "told 1"), ("user", "one"), ("user", "instead")]
        graph.update_state(T, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("anew")]})
        assert said(saver) == [("user", "anew")]
        assert len(said(saver, all_of_it=True)) == 7


def migrated(old: InMemorySaver, saver: MaestroSaver) -> None:
    """Do what the document says of coming from another saver."""
    text = (Path(__file__).parents[2] / "docs" / "langgraph.md").read_text()
    (lines,) = re.findall(r"^    for one in .*?(?=^\S)", text, re.DOTALL | re.MULTILINE)
    exec(textwrap.dedent(lines), {"old": old, "saver": saver})


@pytest.mark.parametrize("is_same_program", [True, False])
def test_a_message_that_is_replaced_is_said_anew(place, is_same_program):
    """As a person corrects what an agent is about to do: by the program that ran it, and by another one later."""
    call = {"name": "remove", "args": {"path": "/"}, "id": "c1", "type": "tool_call"}
    with MaestroSaver(**place) as first:
        graph = talking().compile(checkpointer=first, interrupt_before=["agent"])
        graph.invoke({"messages": [HumanMessage("tidy up", id="h1"), AIMessage("sure", id="a1", tool_calls=[call])]}, T)
        with MaestroSaver(**place) as other:
            saver = first if is_same_program else other
            graph = talking().compile(checkpointer=saver, interrupt_before=["agent"])
            graph.update_state(T, {"messages": [HumanMessage("tidy up", id="h1")]})  # control: it says the same
            assert said(saver, all_of_it=True) == [("user", "tidy up"), ("assistant", "sure")]
            call["args"] = {"path": "tmp"}
            graph.update_state(T, {"messages": [AIMessage("sure", id="a1", tool_calls=[call])]})
            graph.update_state(T, {"messages": [AIMessage("only tmp", id="a1", tool_calls=[call])]})
            assert said(saver) == [("user", "tidy up"), ("assistant", "only tmp")]
            assert len(said(saver, all_of_it=True)) == 4
            graph.invoke(None, T)
            assert said(saver)[-1] == ("assistant", "told 2")


def test_the_migration_note(place):
    """As it stands in the document: the same states and questions afterwards."""
    old = InMemorySaver()
    fanning().compile(checkpointer=old).invoke({"found": []}, T)
    with MaestroSaver(**place) as saver:
        migrated(old, saver)
        graph, before = (fanning().compile(checkpointer=one) for one in (saver, old))
        assert history(graph) == history(before)
        assert graph.invoke(Command(resume="yes"), T) == before.invoke(Command(resume="yes"), T)


def test_a_graph_that_waits_goes_on_after_the_migration(place):
    """What it was told before is not asked for again, and what was done beside it is not done again."""
    done = []
    builder = StateGraph(Fanned)
    builder.add_node("beside", lambda state: done.append(1) or {"found": ["beside"]})
    builder.add_node("ask", lambda state: {"found": [interrupt("first?") + interrupt("second?")]})
    builder.add_edge(START, "beside")
    builder.add_edge(START, "ask")
    old = InMemorySaver()
    before = builder.compile(checkpointer=old)
    before.invoke({"found": []}, T)
    before.invoke(Command(resume="a"), T)
    with MaestroSaver(**place) as saver:
        migrated(old, saver)
        graph = builder.compile(checkpointer=saver)
        assert graph.get_state(T).tasks == before.get_state(T).tasks
        assert sorted(graph.invoke(Command(resume="b"), T)["found"]) == ["ab", "beside"]
    assert done == [1]
