"""The conformance suite of LangGraph's checkpointers, as it is shipped: on both halves, nothing skipped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from maestro_state.adapters.langgraph import MaestroSaver


class Blocking(MaestroSaver):
    """Has everything that is awaited done by the blocking half of another saver."""

    def __init__(self, **place: Any) -> None:
        """Take the same place for both."""
        super().__init__(**place)
        self.other = MaestroSaver(**place)

    async def alist(self, config: Any, **options: Any) -> Any:
        """List in another thread."""
        for found in await asyncio.to_thread(lambda: [*self.other.list(config, **options)]):
            yield found

    async def close(self) -> None:
        """Close both."""
        await self.other.close()
        await super().close()


def _asking(name: str) -> Any:
    async def ask(self: Blocking, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self.other, name), *args, **options)

    return ask


for _name in ("put", "put_writes", "get_tuple", "delete_thread", "delete_for_runs", "copy_thread", "prune"):
    setattr(Blocking, f"a{_name}", _asking(_name))


@pytest.mark.parametrize("kind", [MaestroSaver, Blocking])
async def test_level_full(place, kind):
    """Every capability is there and passes."""

    @checkpointer_test(name=kind.__name__)
    async def registered() -> Any:
        async with kind(**place) as saver:
            yield saver

    report = await validate(registered)
    results = {one.value: report.results[one.value] for one in ALL_CAPABILITIES}
    assert {name: one.failures for name, one in results.items() if one.failures} == {}
    assert all(one.detected and one.passed and not one.tests_skipped for one in results.values())
    assert report.conformance_level() == "FULL"
