"""A program that is killed while it writes checkpoints leaves every one whole that it was told of, and none in part."""

from __future__ import annotations

import signal
import subprocess
import sys

from maestro_state.adapters.langgraph import MaestroSaver

PROGRAM = """
import sys
from langgraph.checkpoint.base import empty_checkpoint
from maestro_state.adapters.langgraph import MaestroSaver

with MaestroSaver(project=sys.argv[1]) as saver:
    where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for number in range(100_000):
        values = {"n": number, "text": "x" * 1000}
        versions = dict.fromkeys(values, number + 1)
        made = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
        where = saver.put(where, made, {"step": number}, versions)
        saver.put_writes(where, [("n", number), ("text", "y")], "task")
        print(made["id"], flush=True)
"""


def test_a_kill_between_any_two_steps(place):
    """Several writers of one thread, killed one after another; whoever comes next goes on from the last whole one."""
    told: list[str] = []
    for turn in range(4):
        words = [sys.executable, "-c", PROGRAM, str(place["project"])]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            told += [writer.stdout.readline().decode().strip() for _ in range(5 + turn)]
            writer.send_signal(signal.SIGKILL)
            assert writer.wait() == -signal.SIGKILL  # the fault bites: it had 100 000 to write
    with MaestroSaver(**place) as saver:
        found = {one.checkpoint["id"]: one for one in saver.list({"configurable": {"thread_id": "t"}})}
        assert set(told) <= found.keys()
        for one in found.values():
            step = one.metadata["step"]
            assert one.checkpoint["channel_values"] == {"n": step, "text": "x" * 1000}
            assert len(one.pending_writes) in (0, 2)
            assert one.checkpoint["id"] not in told or len(one.pending_writes) == 2
        newest = saver.get_tuple({"configurable": {"thread_id": "t"}})
        assert newest.checkpoint["id"] == max(found)
        assert len([row for row in saver.maestro.blocking.sessions.list() if row.bound_to]) == 1
