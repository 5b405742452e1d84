"""The blocking half of the checkpointer for LangGraph: every method waits for the awaited one of the same name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from maestro_state.adapters.binding import Adapter
from maestro_state.adapters.blocking import OwnLoop

Config = Any
CheckpointTuple = Any


class BlockingHalf(Adapter):
    """Methods that wait for what the saver has."""

    _own: OwnLoop
    aget_tuple: Any
    alist: Any
    aput: Any
    aput_writes: Any
    adelete_thread: Any
    adelete_for_runs: Any
    acopy_thread: Any
    aprune: Any
    aget_delta_channel_history: Any
    amaestro_id: Any

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """Do as `aget_tuple`."""
        return self._own.run(self.aget_tuple(config))

    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Do as `alist`."""
        return self._own.each(self.alist(config, filter=filter, before=before, limit=limit))

    def put(self, config: Config, checkpoint: Any, metadata: Any, new_versions: Mapping[str, Any]) -> Config:
        """Do as `aput`."""
        return self._own.run(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Do as `aput_writes`."""
        self._own.run(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Do as `adelete_thread`."""
        self._own.run(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do as `adelete_for_runs`."""
        self._own.run(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do as `acopy_thread`."""
        self._own.run(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", keep_last: int = 1) -> None:
        """Do as `aprune`."""
        self._own.run(self.aprune(thread_ids, strategy=strategy, keep_last=keep_last))

    def get_delta_channel_history(self, *, config: Config, channels: Sequence[str]) -> Mapping[str, Any]:
        """Do as `aget_delta_channel_history`."""
        return self._own.run(self.aget_delta_channel_history(config=config, channels=channels))

    def maestro_id(self, thread_id: str) -> str | None:
        """Do as `amaestro_id`."""
        found: str | None = self._own.run(self.amaestro_id(thread_id))
        return found

    def __enter__(self) -> Self:
        """Use as a blocking context manager."""
        self._own.run(self.here())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self._own.run(Adapter.close(self))
        self._own.stop()
