"""Recording what any Python agent says, calls and spends, as `logging` records lines.

    with record("fix-login") as r:
        r.user("why does the login fail?")
        with r.tool("grep", args={"pattern": "login"}) as call:
            call.result = grep("login")
        r.assistant("The cookie expires.", model="some-model", tokens=(1200, 80), cost=0.004)

    @record("fix-login")
    async def answer(question): ...

Nothing here waits for a server, and nothing fails because one is away: see `writer_thread`.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

from maestro_state.local.settings import NAMES
from maestro_state.net.threads import in_thread
from maestro_state.recording.entries import Block, Left, Said, Target
from maestro_state.recording.serialization import Spent, arguments_of, call_text, plain, text
from maestro_state.recording.writer_thread import FLUSH_S, Writer, writer_for

F = TypeVar("F", bound=Callable[..., Any])

#: Blocks that the running code is in, each with its recorder; the innermost last.
_blocks: ContextVar[tuple[tuple[Recorder, Block], ...]] = ContextVar("maestro_blocks", default=())
#: Longest reason of a failure that is kept, in characters.
_REASON_MAX = 500


def record(
    session: str | None = None,
    *,
    agent: str = "python",
    project: str | os.PathLike[str] | None = None,
    maestro: Any = None,
    ttl_seconds: int | None = None,
    **settings: Any,
) -> Recorder:
    """Return a recorder for a session: a context manager, blocking or awaited, and a decorator.

    `session` is a name of your choice (the session is made when it is first used, and gone on with in a fork when it
    has ended), a full id, a reference like `openai:customer-42`, or nothing for the one this checkout is on. `agent`
    is shown where the name of a tool would be. `project`, `maestro` (which stays open) and settings as `Maestro`.
    """
    if session is not None and (not isinstance(session, str) or not session.strip()):
        raise TypeError("session must be a name, or None for the session of this checkout")
    if unknown := [name for name in settings if name not in NAMES]:
        raise TypeError(f"record() got an unknown setting {unknown[0]!r}")
    if maestro is not None and (project is not None or settings):
        raise TypeError("give either maestro or what one is made with (project, settings), not both")
    return Recorder(Target(session, ttl_seconds), agent, writer_for(project, maestro, settings))


class Recorder:
    """Records into one session. Each `with`, and each call of a decorated function, is a run of it."""

    def __init__(self, target: Target, agent: str, writer: Writer) -> None:
        """Made by `record`."""
        self._target, self._agent, self._writer = target, agent, writer
        self._open: list[Block] = []
        self._opening = threading.Lock()

    def user(self, content: Any, **metadata: Any) -> None:
        """Record what the agent was asked or told."""
        self._say("user", content, metadata)

    def system(self, content: Any, **metadata: Any) -> None:
        """Record instructions."""
        self._say("system", content, metadata)

    def assistant(
        self, content: Any, *, model: str | None = None, tokens: Any = None, cost: float | None = None, **metadata: Any
    ) -> None:
        """Record an answer and what it cost: tokens of the output, (input, output), or an API's own usage."""
        spent = Spent.told(model, tokens, cost)
        self._say("assistant", content, metadata | spent.document(), spent=spent)

    def tool(self, name: str, args: Any = None) -> ToolCall:
        """Record a call of a tool: use it with `with`, and set `result`; or as a decorator of the tool itself."""
        return ToolCall(self, name, args)

    def _say(
        self,
        role: str,
        content: Any,
        metadata: dict[str, Any] | None = None,
        *,
        spent: Spent | None = None,
        **parts: Any,
    ) -> None:
        noted = {key: plain(value) for key, value in (metadata or {}).items()}
        told = spent if spent is not None and spent != Spent() else None
        self._writer.put(Said(self._target, self._block(), role, text(content), noted, parts, told))

    def _block(self) -> Block | None:
        """Return the block the running code is in; of a thread that was started in one, the last that was begun."""
        for recorder, block in reversed(_blocks.get()):
            if recorder is self:
                return block
        with self._opening:
            return self._open[-1] if self._open else None

    def flush(self, timeout_s: float | None = FLUSH_S) -> bool:
        """Wait until everything so far is written; tell whether it is. Only this waits for a server that is away."""
        return self._writer.flush(timeout_s)

    @property
    def session_id(self) -> str | None:
        """The id of the session; None until something was written to it."""
        return self._target.session_id

    @property
    def unwritten(self) -> int:
        """How many entries wait for a server that is away; all recorders of a project wait together."""
        return self._writer.unwritten

    @property
    def lost(self) -> int:
        """How many entries were left out: refused by the server, or too many while it was away."""
        return self._writer.lost

    def __enter__(self) -> Self:
        """Begin a block."""
        block = Block(self._agent)
        with self._opening:
            self._open.append(block)
        _blocks.set((*_blocks.get(), (self, block)))
        return self

    def _end_block(self, error: BaseException | None) -> None:
        block = self._block()
        if block is None:
            return
        with self._opening:
            self._open.remove(block)
        _blocks.set(tuple(pair for pair in _blocks.get() if pair[1] is not block))
        self._writer.put(Left(self._target, block, None if error is None else _reason(error)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the block, and wait until it is written unless the server is away."""
        self._end_block(error)
        self._writer.flush(FLUSH_S, waits_for_server=False)

    async def __aenter__(self) -> Self:
        """Begin a block."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the block, and wait until it is written unless the server is away; the event loop goes on."""
        self._end_block(error)
        await in_thread(self._writer.flush, FLUSH_S, waits_for_server=False)

    def __call__(self, function: F) -> F:
        """Record every call of a function: what it was called with, what it returned or raised."""
        name = _decorated(function)

        def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            arguments = arguments_of(function, args, kwargs)
            self.user(call_text(name, arguments), call={"name": name, "arguments": arguments})

        def answered(result: Any) -> None:
            if result is not None:
                self._say("assistant", result)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                async with self:
                    asked(args, kwargs)
                    result = await function(*args, **kwargs)
                    answered(result)
                    return result

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self:
                asked(args, kwargs)
                result = function(*args, **kwargs)
                answered(result)
                return result

        return called  # type: ignore[return-value]


class ToolCall:
    """One call of a tool: recorded when it begins, and its result, or what it raised, when it is over."""

    def __init__(self, recorder: Recorder, name: str, args: Any) -> None:
        """Made by `Recorder.tool`."""
        from maestro_state.clock import new_idempotency_key

        self._recorder, self._name, self._args = recorder, name, args
        self.id = f"call_{new_idempotency_key()}"
        self.result: Any = None

    def __enter__(self) -> Self:
        """Record the call."""
        call = {"id": self.id, "name": text(self._name), "arguments": plain(self._args)}
        self._recorder._say("assistant", "", tool_calls=[call])  # noqa: SLF001 - the other half of one thing
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the result."""
        content = text(self.result) if error is None else _reason(error)
        result = {"call_id": self.id, "content": content} | ({} if error is None else {"is_error": True})
        self._recorder._say("tool", content, tool_results=[result])  # noqa: SLF001

    async def __aenter__(self) -> Self:
        """Record the call."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the result."""
        self.__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Record every call of a tool."""
        _decorated(function)

        def begun(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCall:
            return self._recorder.tool(self._name, arguments_of(function, args, kwargs))

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                async with begun(args, kwargs) as call:
                    call.result = await function(*args, **kwargs)
                    return call.result

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with begun(args, kwargs) as call:
                call.result = function(*args, **kwargs)
                return call.result

        return called  # type: ignore[return-value]


def _decorated(function: Callable[..., Any]) -> str:
    """Return the name of a function that can be recorded."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a generator cannot be decorated: use `with record(…)` inside it")
    return str(getattr(function, "__qualname__", type(function).__name__)).replace("<locals>.", "")


def _reason(error: BaseException) -> str:
    """Return why something failed, in one line."""
    said = str(error).splitlines()
    return text(f"{type(error).__name__}: {said[0]}" if said else type(error).__name__)[:_REASON_MAX]
