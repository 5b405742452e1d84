"""The place of a span: read as the standard wants it, and the same wherever a run's is asked for."""

from __future__ import annotations

import pytest
from maestro_workers.telemetry.journal import METRICS, TRACES, Journal, is_told

from maestro_state.local.trace_context import calling_span
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import Activity, Flags, Run
from maestro_state.models.trace import Span, parse_traceparent, span_of_run

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _claim(**run: object) -> Claim:
    made = Run(
        id="0001", tool="echo", prompt_source="cli", flags=Flags(False, False), status="running",
        created_at="2026-11-18T08:00:00.000+00:00", context_refs=[], context_version=[], **run,
    )  # fmt: skip
    return Claim("fix--abcdef", made, [], 1, "/tmp")


def test_what_a_caller_handed_on_is_read_and_written_back():
    span = parse_traceparent(f" {CALLER}\n")
    assert span == Span("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01")
    assert str(span) == CALLER
    assert str(parse_traceparent(f"01{CALLER[2:]}-later")) == CALLER, "a later version is read as far as it is known"


@pytest.mark.parametrize(
    "said",
    [None, "", "nonsense", CALLER.upper(), f"ff{CALLER[2:]}", f"{CALLER}-more", CALLER[:-1],
     f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01"],
)  # fmt: skip
def test_what_is_no_such_thing_is_none(said: str | None):
    assert parse_traceparent(said) is None


def test_an_attempt_has_one_span_whoever_asks_and_another_attempt_another():
    first = span_of_run("a--aaaaaa", "0001", "now", 1, None)
    assert span_of_run("a--aaaaaa", "0001", "now", 1, None) == first
    again = span_of_run("a--aaaaaa", "0001", "now", 2, None)
    assert (again.trace_id, again.span_id != first.span_id) == (first.trace_id, True)
    assert span_of_run("b--aaaaaa", "0001", "now", 1, None).trace_id != first.trace_id
    below = span_of_run("a--aaaaaa", "0001", "now", 1, parse_traceparent(CALLER))
    assert below.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert parse_traceparent(str(below)) == below


def test_the_environment_says_who_asks_where_nothing_traces_itself():
    assert str(calling_span({"TRACEPARENT": CALLER})) == CALLER
    assert calling_span({}) is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, {TRACES, METRICS}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, {TRACES}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318/v1/metrics"}, {METRICS}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_METRICS_EXPORTER": "none"}, {TRACES}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "TRUE"}, set()),
        ({"OTEL_SERVICE_NAME": "x"}, set()),
    ],
)
def test_only_an_endpoint_turns_it_on(environment: dict[str, str], expected: set[str]):
    """Each of the two by its own, or both by the common one."""
    assert {signal for signal in (TRACES, METRICS) if is_told(environment, signal)} == expected
    assert (Journal.of(_claim(), environment).environment is not None) is bool(expected)


def test_a_tool_is_handed_the_span_of_its_run_or_else_its_callers():
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    off, passed, on = Journal.of(_claim(), {}), Journal.of(_claim(traceparent=CALLER), {}), Journal.of(_claim(), told)
    assert (off.variables(), off.ids) == ({}, {})
    assert passed.variables() == {"TRACEPARENT": CALLER}
    assert on.variables() == {"TRACEPARENT": str(on.span)}
    assert on.ids == {"trace_id": on.span.trace_id, "span_id": on.span.span_id}
    counted = Journal.of(_claim(traceparent=CALLER), {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318"})
    assert counted.variables() == {"TRACEPARENT": CALLER}, "a span that is told to nobody is nobody's parent"


def test_a_call_is_over_when_the_agent_goes_on():
    journal = Journal.of(_claim(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    journal.note_activity([Activity("tool_call", "Bash", "ls"), Activity("tool_call", "Read", "a.py")])
    assert [call.end_ns is None for call in journal.calls] == [False, True]
    journal.note_activity([Activity("denied", "Read", "a.py")])
    journal.finish(Ended(status="error", exit_code=3))
    assert [(call.name, call.is_denied) for call in journal.calls] == [("Bash", False), ("Read", True)]
    assert all(call.end_ns and call.end_ns >= call.start_ns for call in journal.calls)
    assert journal.error_type == "exit_3"
