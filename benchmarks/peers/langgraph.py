"""LangGraph's SQLite saver: each checkpoint holds the whole conversation, so an append writes all of it."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.peers import BODY
from benchmarks.rig import Rig


class _Saver:
    def __init__(self, bench: Rig) -> None:
        self._open = ExitStack()
        path = bench.folder / f"langgraph-{uuid.uuid4().hex[:8]}.db"
        self.saver = self._open.enter_context(SqliteSaver.from_conn_string(str(path)))
        self.saver.setup()

    def put(self, thread: str, messages: list[HumanMessage]) -> None:
        checkpoint = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": {"messages": messages}}
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self.saver.put(config, checkpoint, {"source": "input", "step": 1}, {})  # type: ignore[arg-type]

    def close(self) -> None:
        """Close its file."""
        self._open.close()


class SQLiteSaver(_Saver):
    """SqliteSaver with one conversation."""

    def __init__(self, bench: Rig, messages: int) -> None:
        """Open it with so many messages."""
        super().__init__(bench)
        self._messages = [HumanMessage(BODY) for _ in range(messages)]
        self.put("one", self._messages)

    def append(self) -> None:
        """Write the conversation with one message more."""
        self.put("one", [*self._messages, HumanMessage(BODY)])

    def last(self) -> Any:
        """Read the last 20; there is no other way than to read them all."""
        return self.all()[-20:]

    def all(self) -> Any:
        """Read all."""
        found = self.saver.get_tuple({"configurable": {"thread_id": "one"}})
        assert found
        return found.checkpoint["channel_values"]["messages"]


class ListSaver(_Saver):
    """SqliteSaver with many conversations of one message."""

    def __init__(self, bench: Rig, sessions: int) -> None:
        """Open it with so many threads."""
        super().__init__(bench)
        self.put("first", [HumanMessage("hello")])
        # One by one this would take long: the rest are copies of the first, where the saver keeps it.
        rows = self.saver.conn.execute("SELECT * FROM checkpoints")
        columns, first = [one[0] for one in rows.description], rows.fetchone()
        thread, own_id = columns.index("thread_id"), columns.index("checkpoint_id")
        for number in range(1, sessions):
            copy = list(first)
            copy[thread], copy[own_id] = f"s{number}", str(uuid6())
            self.saver.conn.execute(f"INSERT INTO checkpoints VALUES ({','.join('?' * len(copy))})", copy)
        self.saver.conn.commit()

    def all(self) -> Any:
        """List the threads; there is no other way than to go through their checkpoints."""
        return list(self.saver.list(None))
