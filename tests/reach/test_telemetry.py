"""Runs as OpenTelemetry tells them: what a collector on loopback receives from the SDK of the extra `otel`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from maestro_state import Maestro
from maestro_state.models.trace import parse_traceparent
from tests.support.cli_runs import maestro_command, printed
from tests.support.embedded_project import temporary_project
from tests.support.served import serving
from tests.support.waiting import wait_until

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

#: Prints what the real one does: it calls a tool, is told the result, answers.
CLAUDE = r"""#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5"}'
echo '{"type":"assistant","session_id":"s-1","message":{"id":"m1","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls secret-folder"}}]}}'
echo '{"type":"user","session_id":"s-1","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}}'
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"s-1\",\"result\":\"saw $TRACEPARENT\",\"total_cost_usd\":0.5,\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":5,\"output_tokens\":7}}"
"""  # noqa: E501


class Collector(ThreadingHTTPServer):
    """Takes what is exported."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[tuple[str, bytes, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return every span with the attributes of its resource."""
        asked = [ExportTraceServiceRequest.FromString(body) for path, body, _ in self.received if path == "/v1/traces"]
        return [
            (span, _values(group.resource.attributes))
            for one in asked
            for group in one.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        """Return every metric by its name."""
        asked = [ExportMetricsServiceRequest.FromString(body) for path, body, _ in self.received if "metrics" in path]
        return {
            metric.name: metric
            for one in asked
            for group in one.resource_metrics
            for scope in group.scope_metrics
            for metric in scope.metrics
        }


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, body, dict(self.headers)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Return a collector that listens."""
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def project() -> Iterator[Path]:
    """Return a project with a claude of its own."""
    with temporary_project() as root:
        (root / "bin").mkdir()
        _install(root, CLAUDE)
        yield root


def _install(project: Path, claude: str) -> None:
    program = project / "bin/claude"
    program.write_text(claude)
    program.chmod(0o755)


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def _env(project: Path, collector: Collector, **more: str) -> dict[str, str]:
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=seven"}
    return told | {"PATH": f"{project}/bin:/usr/bin:/bin"} | more


def _received(collector: Collector, runs: int = 1) -> dict[str, Any]:
    def told() -> bool:
        ends = sum(span.name.startswith("invoke_agent") for span, _ in collector.spans())
        return ends >= runs and len([one for one in collector.received if "metrics" in one[0]]) >= runs

    wait_until(told, "the run was told")
    return {span.name: span for span, _ in collector.spans()}


def test_a_run_is_one_span_below_its_callers_with_its_stages_and_calls(project: Path, collector: Collector):
    """Whatever environment the stack was started in: that of the terminal which asks counts."""
    session = printed(project, "session", "start", "s", "--tool", "claude")["id"]
    done = printed(project, "run", "MARK-prompt", env=_env(project, collector, TRACEPARENT=CALLER))
    spans = _received(collector)
    assert set(spans) == {"invoke_agent claude", "execute_tool Bash", "maestro.queue", "maestro.archive"}
    agent = spans["invoke_agent claude"]
    assert agent.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert agent.parent_span_id.hex() == "00f067aa0ba902b7"
    assert agent.kind == 1, "internal"
    assert {span.parent_span_id for name, span in spans.items() if name != agent.name} == {agent.span_id}
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans.values())
    attributes = _values(agent.attributes)
    assert attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "claude",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.model": "claude-sonnet-4-5",
        "gen_ai.conversation.id": session,
        "gen_ai.usage.input_tokens": 17,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "maestro.run.id": "0001",
    }
    handed = parse_traceparent(done["output"].removeprefix("saw ").strip())
    assert handed is not None
    assert (handed.trace_id, handed.span_id) == (agent.trace_id.hex(), agent.span_id.hex())
    (_, resource), *_ = collector.spans()
    assert resource["service.name"] == "maestro"
    assert all(headers["x-key"] == "seven" for _, _, headers in collector.received)
    everything = b"".join(body for _, body, _ in collector.received)
    assert b"MARK-prompt" not in everything
    assert b"secret-folder" not in everything, "contents are told only when asked for"


def test_its_metrics_are_the_conventions_two(project: Path, collector: Collector):
    printed(project, "session", "start", "s", "--tool", "claude")
    printed(project, "run", "p", env=_env(project, collector))
    _received(collector)
    metrics = collector.metrics()
    assert set(metrics) == {"gen_ai.invoke_agent.duration", "gen_ai.client.token.usage"}
    points = metrics["gen_ai.client.token.usage"].histogram.data_points
    assert {_values(one.attributes)["gen_ai.token.type"]: one.sum for one in points} == {"input": 17, "output": 7}
    duration = metrics["gen_ai.invoke_agent.duration"]
    assert (duration.unit, [one.count for one in duration.histogram.data_points]) == ("s", [1])
    assert duration.histogram.aggregation_temporality == 1, "a share: whoever sums it up counts each run once"


def test_a_failure_has_its_type_and_contents_are_told_only_when_asked_for(project: Path, collector: Collector):
    _install(project, "#!/bin/sh\ncat > /dev/null; echo MARK-words >&2; exit 3\n")
    printed(project, "session", "start", "s", "--tool", "claude")
    capture = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    for more in ({}, capture):
        assert maestro_command(project, "run", "MARK-prompt", env=_env(project, collector, **more)).returncode == 1
    _received(collector, 2)
    silent, open_ = [span for span, _ in collector.spans() if span.name.startswith("invoke_agent")]
    assert _values(silent.attributes)["error.type"] == "exit_3"
    assert (silent.status.code, silent.status.message) == (2, "exit_3")
    assert "gen_ai.input.messages" not in _values(silent.attributes)
    assert "MARK-prompt" in _values(open_.attributes)["gen_ai.input.messages"]
    assert "MARK-words" in open_.status.message


def test_without_a_place_nothing_of_it_is_imported_where_it_is_installed(project: Path):
    """Neither by who asks and serves nor by who carries a run out; the control imports it."""
    asked = (
        "import sys; from maestro_state import Maestro; import maestro_state.serve.app, maestro_workers.run;"
        "maestro = Maestro(sys.argv[1]); maestro.sessions.start('s'); maestro.runs.start('p', tool='echo', dry=True);"
        "{} print(sorted(name for name in sys.modules if name.startswith('opentelemetry'))[:1])"
    )
    found = [
        subprocess.run([sys.executable, "-c", asked.format(more), str(project)], capture_output=True, text=True).stdout
        for more in ("", "import opentelemetry.sdk;")
    ]
    assert found == ["[]\n", "['opentelemetry']\n"]


def test_a_place_for_one_of_the_two_is_one_for_that_alone(project: Path, collector: Collector):
    """The other is not sent to where the SDK would send it by itself: this machine's usual port."""
    printed(project, "session", "start", "s", "--tool", "claude")
    for signal, path in (("TRACES", "/v1/traces"), ("METRICS", "/v1/metrics")):
        own = {"PATH": f"{project}/bin:/usr/bin:/bin", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT": collector.url + path}
        printed(project, "run", "p", env=own)
        wait_until(lambda wanted=path: wanted in [one[0] for one in collector.received], "it was told")
    assert maestro_command(project, "stack", "stop").returncode == 0
    assert [path for path, _, _ in collector.received] == ["/v1/traces", "/v1/metrics"]
    assert "4318" not in (project / ".maestro/logs/stack.log").read_text(), "nobody was asked for at the usual port"


def test_a_collector_that_is_away_holds_up_no_run(project: Path, collector: Collector):
    """Nobody listens at the address: the run ends as ever, and so does the next."""
    printed(project, "session", "start", "s", "--tool", "claude")
    env = _env(project, collector, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert [printed(project, "run", "p", env=env)["status"] for _ in range(2)] == ["success", "success"]


def test_a_program_that_traces_itself_is_the_caller(project: Path, collector: Collector):
    from opentelemetry.sdk.trace import TracerProvider

    printed(project, "session", "start", "s")
    printed(project, "run", "p", "--tool", "echo", env={"PATH": "/usr/bin:/bin"})  # the stack is at work
    with Maestro(project) as maestro, TracerProvider().get_tracer("t").start_as_current_span("mine") as mine:
        maestro.runs.wait(
            maestro.runs.start("p", tool="claude", environment=_env(project, collector, TRACEPARENT=CALLER))
        )
        place = mine.get_span_context()
    agent = _received(collector)["invoke_agent claude"]
    assert int.from_bytes(agent.trace_id) == place.trace_id
    assert int.from_bytes(agent.parent_span_id) == place.span_id


def test_a_request_is_the_caller(project: Path, collector: Collector):
    """Its traceparent header is the parent; what is none is passed over, and the run goes on."""
    session = printed(project, "session", "start", "s", "--tool", "claude")["id"]
    with serving(project, "--no-web", env=_env(project, collector)) as server, server.client() as client:
        for place in (CALLER, "00-" + "0" * 32 + "-nonsense-01"):
            asked = {"prompt": "p", "wait_s": 55}
            run = client.post(f"/v1/sessions/{session}/runs", json=asked, headers={"traceparent": place}).json()
            assert run["status"] == "success"
    _received(collector, 2)
    below, alone = [span for span, _ in collector.spans() if span.name.startswith("invoke_agent")]
    assert (below.trace_id.hex(), below.parent_span_id.hex()) == tuple(CALLER.split("-")[1:3])
    assert (alone.trace_id != below.trace_id, alone.parent_span_id) == (True, b"")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "ValueError: could not convert string to float: 'soon'"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "pip install opentelemetry-exporter-otlp-proto-grpc"),
    ],
)
def test_why_a_run_was_not_told_is_in_the_log(project: Path, collector: Collector, more: dict[str, str], reason: str):
    """In one line, with the ids of the trace that is missed; the run ends as ever."""
    printed(project, "session", "start", "s", "--tool", "claude")
    assert printed(project, "run", "p", env=_env(project, collector, TRACEPARENT=CALLER, **more))["status"] == "success"
    log = project / ".maestro/logs/stack.log"

    def lines() -> list[str]:
        return [line for line in log.read_text().splitlines() if "telemetry_not_sent" in line]

    wait_until(lambda: bool(lines()), "it was said")
    (told,) = map(json.loads, lines())
    assert (told["run"], told["trace_id"]) == ("0001", CALLER.split("-")[1])
    assert told["reason"].endswith(reason)
