"""Has LangGraph's own tests keep their checkpoints in Maestro. Named to pytest with `-p`, where `tests` is theirs.

Their tests are as they come. Only the module that makes the savers for their fixtures is another one: each saver that
could be had without a container is a `MaestroSaver` in a namespace of its own.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from maestro_state.adapters.langgraph import MaestroSaver
from maestro_state.local.embedded import ensure, stop

_project = Path(tempfile.mkdtemp(prefix="m-"))
#: Not random ids: some of the tests count how many are made.
_numbers = count()


def _finish() -> None:
    stop(_project)
    shutil.rmtree(_project, ignore_errors=True)


def _saver(**options: Any) -> MaestroSaver:
    return MaestroSaver(project=_project, namespace=f"n{next(_numbers)}", **options)


@contextmanager
def _blocking() -> Iterator[MaestroSaver]:
    with _saver() as saver:
        yield saver


@contextmanager
def _encrypted() -> Iterator[MaestroSaver]:
    with _saver(serde=EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456")) as saver:
        yield saver


@asynccontextmanager
async def _awaited() -> AsyncIterator[MaestroSaver]:
    async with _saver() as saver:
        yield saver


_made = {"sqlite": _blocking, "memory": _blocking, "sqlite_aes": _encrypted, "sqlite_aio": _awaited}
_others = ("memory_migrate_sends", "postgres", "postgres_aio", "postgres_aio_pipe", "postgres_aio_pool",
           "postgres_pipe", "postgres_pool")  # fmt: skip

ensure(_project, supervise=False)
atexit.register(_finish)
_module: Any = ModuleType("tests.conftest_checkpointer")
for _name, _make in (_made | dict.fromkeys(_others)).items():
    setattr(_module, f"_checkpointer_{_name}", _make)
sys.modules[_module.__name__] = _module
