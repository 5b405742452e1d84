"""Journals as spans and metrics, sent by OpenTelemetry's own SDK, in a child of the worker.

A child, because the SDK reads its settings from the environment, which is that of the terminal that asked; because
importing it takes half a second; and because a collector that is away must hold up nobody. It ends by itself.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from maestro_state import __version__
from maestro_state.local.logs import get_logger
from maestro_workers.telemetry import names
from maestro_workers.telemetry.journal import METRICS, TRACES, is_told

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from maestro_workers.telemetry.journal import Journal

#: Seconds after which a child that is still at it is ended: by itself, so that none is left whoever else ends.
_GIVE_UP_S = 30
#: What speaks the protocol that is not the extra's.
_GRPC = "opentelemetry-exporter-otlp-proto-grpc"

_log = get_logger("maestro.worker")


class Exporters:
    """The children that tell of runs."""

    def __init__(self) -> None:
        self._children: list[int] = []

    def tell(self, journal: Journal) -> None:
        """Have a run told, unless nobody wants to know; comes back at once."""
        self.collect()
        if journal.environment is None:
            return
        try:
            pid = os.fork()
        except OSError as error:
            _log.warning("telemetry_not_sent", reason=error.strerror)
            return
        if pid:
            self._children.append(pid)
            return
        _be_exporter(journal)

    def collect(self) -> None:
        """Notice those that have ended."""
        for pid in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.remove(pid)


def _be_exporter(journal: Journal) -> None:
    """Export in this process, which is a child, and exit."""
    code = 1
    try:
        os.setsid()  # who ends the worker's group does not mean this
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_GIVE_UP_S)
        os.environ.clear()
        os.environ.update(journal.environment or {})
        export(journal)
        code = 0
    except ImportError as error:
        wanted = _GRPC if (error.name or "").endswith(".grpc") else "'maestro-state[otel]'"
        _log.warning("telemetry_not_sent", reason=f"{error}: pip install {wanted}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, a child never goes on as its parent
        _log.warning("telemetry_not_sent", reason=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def export(journal: Journal) -> None:
    """Send a run's spans and metrics to where the environment says."""
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create({"service.version": __version__})
    if resource.attributes.get("service.name", "unknown_service").startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "maestro"}))
    if is_told(os.environ, TRACES):
        _send_spans(journal, resource)
    if is_told(os.environ, METRICS):
        _send_metrics(journal, resource)


def _send_spans(journal: Journal, resource: Resource) -> None:
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter = _exporter("trace_exporter", "OTLPSpanExporter", TRACES)
    spans = _spans(journal, resource)
    if spans and exporter.export(spans) is not SpanExportResult.SUCCESS:
        _log.warning("telemetry_not_sent", reason="the collector did not take it")
    exporter.shutdown()


def _exporter(module: str, name: str, signal_name: str, **options: Any) -> Any:
    from importlib import import_module

    both = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal_name}_PROTOCOL", both)
    transport = "grpc" if protocol.strip() == "grpc" else "http"
    return getattr(import_module(f"opentelemetry.exporter.otlp.proto.{transport}.{module}"), name)(**options)


def _spans(journal: Journal, resource: Resource) -> list[ReadableSpan]:
    """Return the spans of a run as the SDK records them; none where its sampler says so."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, Status, StatusCode

    recorded = InMemorySpanExporter()
    provider = TracerProvider(resource=resource, id_generator=_ids_of(journal))
    provider.add_span_processor(SimpleSpanProcessor(recorded))
    tracer = provider.get_tracer("maestro", __version__)
    finished_ns = journal.finished_ns or journal.started_ns
    agent = tracer.start_span(
        f"{names.INVOKE_AGENT} {journal.agent}",
        _context_of(journal),
        SpanKind.INTERNAL,
        _agent_attributes(journal),
        start_time=journal.created_ns,
    )
    below = trace.set_span_in_context(agent)

    def child(name: str, start_ns: int, end_ns: int, attributes: dict[str, Any], error: str | None = None) -> None:
        span = tracer.start_span(name, below, SpanKind.INTERNAL, attributes, start_time=start_ns)
        if error is not None:
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(max(start_ns, end_ns))

    child(names.QUEUE, journal.created_ns, journal.started_ns, {names.RUN: journal.run_id})
    for call in journal.calls:
        attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: call.name}
        if journal.prompt is not None:
            attributes[names.TOOL_ARGUMENTS] = call.summary
        error = "denied" if call.is_denied else None
        child(f"{names.EXECUTE_TOOL} {call.name}", call.start_ns, call.end_ns or finished_ns, attributes, error)
    if journal.archived_ns is not None:
        child(names.ARCHIVE, finished_ns, journal.archived_ns, {names.RUN: journal.run_id})
    if journal.error_type is not None:
        agent.set_attribute(names.ERROR_TYPE, journal.error_type)
        agent.set_status(Status(StatusCode.ERROR, _reason(journal)))
    agent.end(max(journal.created_ns, finished_ns))
    provider.shutdown()
    return list(recorded.get_finished_spans())


def _reason(journal: Journal) -> str:
    """Say how it failed: the tool's own words only where contents may be told."""
    ended = journal.ended
    return ended.error if ended is not None and ended.error and journal.prompt is not None else journal.error_type or ""


def _ids_of(journal: Journal) -> Any:
    """Return what gives the run's span the id that its tool was told, and its children any."""
    from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator

    class Ids(IdGenerator):
        def __init__(self) -> None:
            self._known: int | None = int(journal.span.span_id, 16)
            self._others = RandomIdGenerator()

        def generate_trace_id(self) -> int:
            return int(journal.span.trace_id, 16)

        def generate_span_id(self) -> int:
            known, self._known = self._known, None
            return self._others.generate_span_id() if known is None else known

    return Ids()


def _context_of(journal: Journal) -> Any:
    """Return the caller's span as the parent; without one the run's begins its trace."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    if journal.caller is None:
        return Context()
    caller = journal.caller
    flags = TraceFlags(int(caller.flags, 16) & TraceFlags.SAMPLED)
    place = SpanContext(int(caller.trace_id, 16), int(caller.span_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(place), Context())


def _common(journal: Journal) -> dict[str, Any]:
    """Return what both the span and the metrics are told by: nothing that has a value of its own for every run."""
    usage = journal.ended.usage if journal.ended is not None else None
    model = journal.asked_model or (usage.model if usage else None)
    provider = names.PROVIDERS.get(journal.entry)
    if provider is None and model and "/" in model:
        provider = model.partition("/")[0]
    known = {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT: journal.agent,
        names.PROVIDER: provider or journal.agent,
        names.REQUEST_MODEL: model,
    }
    return {name: value for name, value in known.items() if value is not None}


def _agent_attributes(journal: Journal) -> dict[str, Any]:
    usage = journal.ended.usage if journal.ended is not None else None
    known: dict[str, Any] = {
        **_common(journal),
        names.CONVERSATION: journal.session_id,
        names.RUN: journal.run_id,
        names.RESPONSE_MODEL: usage.model if usage else None,
        names.INPUT_TOKENS: usage.tokens_input if usage else None,
        names.OUTPUT_TOKENS: usage.tokens_output if usage else None,
        names.CACHE_READ_TOKENS: usage.tokens_cache_read if usage else None,
    }
    if journal.prompt is not None:
        known[names.INPUT_MESSAGES] = _said("user", journal.prompt)
        known[names.OUTPUT_MESSAGES] = _said("assistant", journal.answer or "")
    return {name: value for name, value in known.items() if value is not None}


def _said(role: str, text: str) -> str:
    return msgspec.json.encode([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


def _send_metrics(journal: Journal, resource: Resource) -> None:
    from opentelemetry.sdk.metrics import Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader

    # One run is one share: a sum that began with this process would look like a counter that always starts anew.
    shares = {Histogram: AggregationTemporality.DELTA}
    chosen = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE" in os.environ
    exporter = _exporter(
        "metric_exporter", "OTLPMetricExporter", METRICS, **({} if chosen else {"preferred_temporality": shares})
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
    provider = MeterProvider(metric_readers=[reader], resource=resource)
    meter = provider.get_meter("maestro", __version__)
    attributes = _common(journal)
    error = {} if journal.error_type is None else {names.ERROR_TYPE: journal.error_type}
    duration = meter.create_histogram(
        names.DURATION, "s", "How long agents worked.", explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS
    )
    seconds = ((journal.finished_ns or journal.started_ns) - journal.started_ns) / 1e9
    duration.record(max(0.0, seconds), attributes | error)
    usage = journal.ended.usage if journal.ended is not None else None
    counts = {"input": usage.tokens_input, "output": usage.tokens_output} if usage is not None else {}
    tokens = meter.create_histogram(
        names.TOKEN_USAGE, "{token}", "Tokens that agents used.", explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS
    )
    for kind, count in counts.items():
        if count is not None:
            tokens.record(count, attributes | {names.TOKEN_TYPE: kind})
    provider.force_flush()
    provider.shutdown()
