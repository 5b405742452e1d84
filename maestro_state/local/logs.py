"""Logging: readable on a terminal, JSON lines elsewhere, and never a secret.

Library code takes `get_logger(NAME)` and says what happened, to the standard `logging`; only a program calls
`configure_logs`, which has structlog render all of it, other libraries' (RQ, redis) too. Redaction is the last step
before rendering, so that no way of logging goes round it. structlog is imported when the first event is written.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partialmethod
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, MutableMapping

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
#: A token of `maestro serve` given where its id is meant; the id may be seen.
_TOKEN = re.compile(r"\b(mst_[a-z0-9]{6})_[\w-]{20,}")
_TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
#: Line ends among them: one event must not look like two.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

_bound: ContextVar[dict[str, Any]] = ContextVar("maestro_log_values")


class _Event:
    """What was said, as any handler of `logging` may show it: masked."""

    def __init__(self, name: str, values: dict[str, Any]) -> None:
        self.name, self.values = name, {**_bound.get({}), **values}

    def __str__(self) -> str:
        return " ".join([redact_text(self.name), *(f"{key}={value!r}" for key, value in redact(self.values).items())])


class Logger:
    """Say what happened: `log.info("run_started", tool="echo")`. A value of the call counts before a bound one."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def _log(self, level: int, event: str, /, **values: Any) -> None:
        import logging

        logger = logging.getLogger(self._name)
        if logger.isEnabledFor(level):
            logger.log(level, _Event(event, values))

    # The numbers are those of `logging`, which only commands that log pay for.
    debug = partialmethod(_log, 10)
    info = partialmethod(_log, 20)
    warning = partialmethod(_log, 30)
    error = partialmethod(_log, 40)


def get_logger(name: str) -> Logger:
    """Return a logger that imports nothing before its first event."""
    return Logger(name)


@contextmanager
def bound(**values: Any) -> Iterator[None]:
    """Add ids (`session`, `run`) to every event inside the block."""
    token = _bound.set({**_bound.get({}), **values})
    try:
        yield
    finally:
        _bound.reset(token)


def configure_logs(level: str, *, stream: TextIO | None = None) -> None:
    """Set up this program's logging; repeatable, the last call counts."""
    import logging

    class Handler(logging.StreamHandler[TextIO]):
        def format(self, record: logging.LogRecord) -> str:
            if self.formatter is None:
                self.formatter = _formatter(self.stream)
            return self.formatter.format(record)

        def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, the name is logging's
            # Whoever read this may be gone (a closed terminal, a full disk); the work goes on.
            if not isinstance(sys.exception(), OSError):
                super().handleError(record)

    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if handler.name != "maestro"]
    handler = Handler(stream or sys.stderr)
    handler.name = "maestro"
    root.addHandler(handler)
    root.setLevel(level.upper())


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
    text = _TOKEN.sub(rf"\1_{_MASK}", text)
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _redact_entry(key: object, value: Any, depth: int) -> Any:
    if value is not None and _SECRET_KEY.search(str(key).lower().replace("-", "_")):
        return _MASK
    return redact(value, depth=depth)


def _redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    traceback = event.pop("exception", None)
    masked: dict[str, Any] = redact(dict(event))
    if traceback is not None:
        masked["exception"] = "\n".join(redact_text(line) for line in traceback.split("\n"))
    return masked


def _unpack(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add what a record of `logging` knows; a level between two of its own counts as the lower."""
    import logging

    record: logging.LogRecord = event["_record"]
    level = logging.getLevelName(min(max(record.levelno, 10), 50) // 10 * 10).lower()
    said = record.msg if isinstance(record.msg, _Event) else _Event(event["event"], {})
    return {**event, "logger": record.name, "level": level, **said.values, "event": said.name}


def _formatter(stream: TextIO) -> logging.Formatter:
    """Build the one chain that all events go through."""
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
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            _unpack,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact_event,
            render,
        ]
    )
