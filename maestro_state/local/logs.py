"""Logging for programs: readable on a terminal, JSON lines elsewhere, and never a secret.

Library code takes `get_logger(NAME)` and says what happened; only a program calls `configure_logs`. Nothing
heavy is imported before an event is really written. Redaction is the last step before rendering, for what
other libraries (RQ, redis) log as well, so that no way of logging goes round it.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}

_MASK = "***"
#: Deeper than anything worth logging; what is below is shown as one masked piece.
_MAX_DEPTH = 8

_SECRET_KEY = re.compile(
    r"passw(or)?d|passphrase|secret|authorization|credential|api_?key|private_?key|(^|_)(token|auth|pwd)$"
)
#: Everything up to the last @: a password with a bare / or @ in it must not end the match early.
_URL_CREDENTIALS = re.compile(r"://[^\s\"'<>]{0,1024}@")
#: A quote behind any number of backslashes does not end the value: text may be encoded more than once.
_NAMED_SECRET = re.compile(
    r"((?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key)[\"']?\s{0,4}[=:]\s{0,4}[\[({]?)"
    r"(?:b(?=[\"']))?(?:\"(?:\\+[^\\]|[^\"\\])*\"?|'(?:\\+[^\\]|[^'\\])*'?|[^\s\"'&,;]+)",
    re.IGNORECASE,
)
_SCHEME_SECRET = re.compile(r"\b(bearer|basic)\s{1,4}[\w.~+/=-]{6,}", re.IGNORECASE)
_TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
#: Line ends among them: one event must not look like two.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

_bound: ContextVar[dict[str, Any] | None] = ContextVar("maestro_log_values", default=None)


class _Program:
    """How this process logs; a library's process has none and leaves it to `logging`."""

    def __init__(self, threshold: int, stream: TextIO) -> None:
        self.threshold = threshold
        self.stream = stream
        self._logger: Any = None

    def write(self, level: str, name: str, event: str, values: dict[str, Any]) -> None:
        if LEVELS[level] < self.threshold:
            return
        if self._logger is None:
            self._logger = _build(self.stream)
        # A value of the call counts before a bound one of the same name.
        values = {**(_bound.get() or {}), "logger": name, **values}
        # Whoever read this may be gone (a closed terminal, a full disk); the work goes on.
        with suppress(OSError):
            getattr(self._logger, level)(event, **values)


_program: _Program | None = None


def configure_logs(level: str, *, stream: TextIO | None = None, route_stdlib: bool = True) -> None:
    """Set up this program's logging; repeatable, the last call counts.

    `route_stdlib=False` saves importing `logging` in a program that uses no library which logs.
    """
    global _program  # one process, one way of logging
    _program = _Program(LEVELS[level], stream or sys.stderr)
    if route_stdlib:
        _route_stdlib(LEVELS[level])


def bind(**values: Any) -> None:
    """Add ids (`session_id`, `run_id`) to every event of this thread or task from here on."""
    _bound.set({**(_bound.get() or {}), **values})


@contextmanager
def bound(**values: Any) -> Iterator[None]:
    """Add ids to every event inside the block only."""
    token = _bound.set({**(_bound.get() or {}), **values})
    try:
        yield
    finally:
        _bound.reset(token)


class Logger:
    """Say what happened: `log.info("run_started", tool="echo")`. Costs nothing until it is written."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: dict[str, Any] | None = None) -> None:
        """Name the part of the program that speaks, and what it always adds."""
        self._name, self._values = name, values or {}

    def bind(self, **values: Any) -> Logger:
        """Return a logger that adds these values to each of its events."""
        return Logger(self._name, {**self._values, **values})

    def debug(self, event: str, **values: Any) -> None:
        """Log a detail for whoever looks for a fault."""
        self._log("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """Log something that went as it should."""
        self._log("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Log something that was put right, or will be."""
        self._log("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Log something that failed."""
        self._log("error", event, values)

    def critical(self, event: str, **values: Any) -> None:
        """Log something that ends the program."""
        self._log("critical", event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Log a failure with the traceback of the exception being handled."""
        self._log("error", event, {"exc_info": True, **values})

    def _log(self, level: str, event: str, values: dict[str, Any]) -> None:
        values = {**self._values, **values}
        if _program is not None:
            _program.write(level, self._name, event, values)
            return
        import logging

        failed = values.pop("exc_info", None)
        shown = redact({**(_bound.get() or {}), **values})
        text = " ".join([redact_text(event), *(f"{key}={value!r}" for key, value in shown.items())])
        if failed:
            import traceback

            text = f"{text}\n{_redact_lines(traceback.format_exc())}"
        logging.getLogger(self._name).log(LEVELS[level], "%s", text)


def get_logger(name: str) -> Logger:
    """Return a logger that imports nothing before its first event is written."""
    return Logger(name)


def redact(value: Any, *, depth: int = 0) -> Any:
    """Return the value with every secret in it masked, as plain text, numbers, lists and dicts."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redact_text(value)
    if depth >= _MAX_DEPTH:
        return _MASK
    if isinstance(value, dict):
        return {redact_text(str(key)): _redact_entry(key, entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(entry, depth=depth + 1) for entry in value]
    if isinstance(value, bytes | bytearray):
        return redact_text(value.decode(errors="backslashreplace"))
    # Rendered here, or the renderer would do so later and past the mask.
    return redact_text(str(value) if isinstance(value, BaseException) else repr(value))


def redact_text(text: str) -> str:
    """Return the text with credentials masked and nothing in it that a terminal would obey."""
    text = _TERMINAL_CODE.sub("", text)
    if "://" in text:
        text = _URL_CREDENTIALS.sub(f"://{_MASK}@", text)
    text = _NAMED_SECRET.sub(rf"\1{_MASK}", text)
    text = _SCHEME_SECRET.sub(rf"\1 {_MASK}", text)
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _redact_entry(key: object, value: Any, depth: int) -> Any:
    if value is not None and _SECRET_KEY.search(str(key).lower().replace("-", "_")):
        return _MASK
    return redact(value, depth=depth)


def _redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    traceback = event.pop("exception", None)
    masked: dict[str, Any] = redact(dict(event))
    if traceback is not None:
        masked["exception"] = _redact_lines(traceback)
    return masked


def _redact_lines(text: str) -> str:
    return "\n".join(redact_text(line) for line in text.split("\n"))


def _build(stream: TextIO) -> Any:
    """Build the one chain all events go through."""
    import structlog

    render: Any
    if stream.isatty():
        import os

        # A plain traceback: the decorated one prints local variables, secrets among them.
        render = structlog.dev.ConsoleRenderer(
            colors=not os.environ.get("NO_COLOR"), exception_formatter=structlog.dev.plain_traceback
        )
    else:
        render = structlog.processors.JSONRenderer(sort_keys=True)
    return structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_event,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        cache_logger_on_first_use=False,
    ).bind()


def _route_stdlib(threshold: int) -> None:
    """Send what other libraries log through the same chain."""
    import logging

    class Routed(logging.Handler):
        """Hand a record over as an event."""

        maestro = True

        def emit(self, record: logging.LogRecord) -> None:
            if _program is None:
                return
            level = next((name for name in reversed(LEVELS) if LEVELS[name] <= record.levelno), "debug")
            values = {"exc_info": record.exc_info} if record.exc_info else {}
            _program.write(level, record.name, record.getMessage(), values)

    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if getattr(handler, "maestro", False)]:
        root.removeHandler(handler)
    root.addHandler(Routed())
    root.setLevel(threshold)
