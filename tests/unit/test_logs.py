"""Logs: one chain for everybody, with ids, without secrets, and free until something is written."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from maestro_state.local.logs import bound, configure_logs, get_logger, redact, redact_text

SECRET = "hunter2hunter2"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Gone(io.StringIO):
    """A stream nobody reads any more."""

    def write(self, text):
        raise BrokenPipeError


@pytest.fixture(autouse=True)
def _own_logging():
    """Leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream():
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    return stream


def events(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_events_are_json_lines_with_utc_time_off_a_terminal(stream):
    """Off a terminal each event is one JSON document with name, level and a time in UTC."""
    get_logger("maestro_workers.run").info("run_started", tool="echo", number=3)
    (event,) = events(stream)
    when = datetime.fromisoformat(event["timestamp"])
    assert when.utcoffset() == UTC.utcoffset(None)
    assert (event["event"], event["level"], event["logger"]) == ("run_started", "info", "maestro_workers.run")
    assert (event["tool"], event["number"]) == ("echo", 3)


def test_events_are_readable_on_a_terminal(monkeypatch):
    """On a terminal an event is a line for people, without colours when they are not wanted."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure_logs("info", stream=stream)
    get_logger("x").warning("disk_full", path="/a")
    text = stream.getvalue()
    assert "disk_full" in text
    assert "path=/a" in text
    assert "\x1b" not in text
    assert text.count("\n") == 1


def test_events_below_the_level_are_not_written(stream):
    """What is less severe than asked for is dropped, also from other libraries."""
    get_logger("x").debug("detail")
    logging.getLogger("redis").debug("detail")
    get_logger("x").info("shown")
    assert [event["event"] for event in events(stream)] == ["shown"]


def test_bound_ids_are_in_every_event(stream):
    """Session and run ids once bound are in each event, other libraries' too, and end with their block."""
    with bound(session_id="fix--abc123"):
        with bound(run_id="run-0001"):
            get_logger("x").info("inside")
            logging.getLogger("rq.worker").info("theirs")
        get_logger("x").info("outside")
    inside, theirs, outside = events(stream)
    assert (inside["session_id"], inside["run_id"]) == ("fix--abc123", "run-0001")
    assert (theirs["session_id"], theirs["run_id"]) == ("fix--abc123", "run-0001")
    assert outside["session_id"] == "fix--abc123"
    assert "run_id" not in outside


def test_a_value_of_the_call_counts_before_a_bound_one(stream):
    """What the call says wins over what was bound, and names that `logging` uses itself are values like others."""
    with bound(session_id="a"):
        get_logger("x").info("e", session_id="b", name="n", process=3, level_of="x")
    (event,) = events(stream)
    assert (event["session_id"], event["name"], event["process"]) == ("b", "n", 3)


def test_other_libraries_share_the_renderer(stream):
    """What RQ and redis log is rendered the same way, without colour codes, once per event."""
    configure_logs("info", stream=stream)  # a second time must not double anything
    logging.getLogger("rq.worker").info("\x1b[32m%s\x1b[39;49;00m: done", "default")
    (event,) = events(stream)
    assert (event["event"], event["logger"], event["level"]) == ("default: done", "rq.worker", "info")


def test_odd_levels_of_other_libraries_are_rounded_down(stream):
    """A record with a level of its own is written with the nearest lower one."""
    logging.getLogger("odd").log(35, "between")
    assert events(stream)[0]["level"] == "warning"


LEAKS = [
    {"password": SECRET},
    {"redis_password": SECRET},
    {"token": SECRET},
    {"GITHUB_TOKEN": SECRET},
    {"client-secret": SECRET},
    {"Authorization": f"Bearer {SECRET}"},
    {"api_key": SECRET},
    {"OPENAI-API-KEY": SECRET},
    {"apikey": [SECRET]},
    {"private_key": SECRET.encode()},
    {"nested": {"deep": [{"password": SECRET}]}},
    {"url": f"redis://:{SECRET}@host:6379/0"},
    {"url": f"redis://me:{SECRET}@host"},
    {"url": f"redis://:a/{SECRET}@host"},
    {"url": f"redis://:a@{SECRET}@host"},
    {"text": f"could not reach rediss://u:{SECRET}@h:1, giving up"},
    {"raw": f"redis://:{SECRET}@host".encode()},
    {"several": ("x", {f"redis://:{SECRET}@host"})},
    {"text": f"https://h/p?api_key={SECRET}&x=1"},
    {"text": f'{{"password": "{SECRET}"}}'},
    {"text": f'{{"password": "two words \\" and {SECRET}"}}'},
    {"text": f"authorization: bearer {SECRET}"},
    {"error": ValueError(f"redis://:{SECRET}@host")},
    {f"redis://:{SECRET}@host": 1},
    {"thing": type("Thing", (), {"__repr__": lambda self: f"<Thing password={SECRET}>"})()},
]


@pytest.mark.parametrize("values", LEAKS, ids=range(len(LEAKS)))
@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_secrets_are_masked_wherever_they_are(values, kind):
    """No secret reaches the log, by key, in an address or in text; the event itself does."""
    stream = kind()
    configure_logs("info", stream=stream)
    get_logger("x").info("said", **values)
    logging.getLogger("redis").info("said %s", values)
    text = stream.getvalue()
    assert text.count("said") == 2
    assert SECRET not in text
    assert "***" in text


def test_secrets_are_masked_in_the_event_and_in_tracebacks(stream):
    """Neither the event's text nor an exception's message shows a password."""
    get_logger("x").info(f"connecting to redis://:{SECRET}@host")
    try:
        raise ValueError(f"redis://:{SECRET}@host")
    except ValueError:
        logging.getLogger("rq").exception("failed")
    said, theirs = events(stream)
    assert said["event"] == "connecting to redis://***@host"
    assert theirs["exception"].splitlines()[-1] == "ValueError: redis://***@host"
    assert SECRET not in stream.getvalue()


def test_what_is_no_secret_stays():
    """Counts of tokens, plain addresses and usual words are not masked."""
    harmless = {
        "tokens": 5,
        "token_count": 7,
        "url": "redis://host:6379/0",
        "author": "me",
        "keys": ["a"],
        "text": "basic auth",
        "nothing": None,
        "password": None,
    }
    assert redact(harmless) == harmless


def test_values_nested_without_end_are_cut():
    """A structure that contains itself is masked at some depth."""
    endless: list[object] = []
    endless.append(endless)
    assert "***" in str(redact(endless))


def test_masking_long_hostile_text_ends():
    """Text made to slow the patterns down is handled."""
    for piece in ("://", "password", "a", "token=", "bearer ", "\x1b[", " "):
        redact_text(piece * (200_000 // len(piece)))


def test_one_event_cannot_look_like_two():
    """Line ends and terminal codes in values are shown, not obeyed."""
    stream = Terminal()
    configure_logs("info", stream=stream)
    get_logger("x").info("a\nb\r\x1b]0;title\x07", value="c\nd\x9b2J\u2028e")
    assert stream.getvalue().count("\n") == 1
    for forbidden in ("\r", "\x07", "\x9b", "\u2028", "\x1b]"):
        assert forbidden not in stream.getvalue()


def test_reader_that_went_away_does_not_stop_the_work():
    """A log nobody reads any more is not an error of the work."""
    configure_logs("info", stream=Gone())
    get_logger("x").info("said")
    logging.getLogger("rq").info("said")


def test_library_without_a_program_leaves_it_to_logging(caplog):
    """Used as a library, events go to the standard loggers, masked all the same."""
    with caplog.at_level("INFO"):
        get_logger("maestro_state.x").error("failed", password=SECRET, reason=f"redis://:{SECRET}@host")
    assert SECRET not in caplog.text
    assert "failed password='***' reason='redis://***@host'" in caplog.text


def test_nothing_heavy_is_imported_before_an_event_is_written():
    """Importing imports no logging; configuring, binding and a dropped event no structlog; a written one does."""
    program = (
        "import sys; from maestro_state.local import logs\n"
        "log = logs.get_logger('x'); print('logging' in sys.modules)\n"
        "logs.configure_logs('warning')\n"
        "with logs.bound(session='a'): log.info('dropped')\n"
        "print('structlog' in sys.modules)\n"
        "log.warning('written')\n"
        "print('structlog' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
    assert json.loads(done.stderr)["event"] == "written"
