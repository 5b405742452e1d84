"""What happens in one attempt at a run, with its times. Nothing of OpenTelemetry: most runs are told to nobody."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from maestro_state.clock import from_iso
from maestro_state.models.claim import Claim, Ended
from maestro_state.models.run import Activity
from maestro_state.models.trace import TRACEPARENT, Span, parse_traceparent, span_of_run
from maestro_state.tools import Tool

#: What is told, as OpenTelemetry's variables name it.
TRACES, METRICS = "TRACES", "METRICS"
#: Whether prompt and answer are told too.
_CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def is_told(environment: Mapping[str, str], signal: str) -> bool:
    """Tell whether an environment says where traces, or metrics, go, and does not turn them off. Where it names a place
    for one of the two alone, the other goes nowhere: the SDK would send it to this machine.
    """
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    is_off = is_off or environment.get(f"OTEL_{signal}_EXPORTER", "otlp").strip() == "none"
    places = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return not is_off and any(environment.get(name, "").strip() for name in places)


@dataclass(slots=True)
class ToolCall:
    """One call of a tool by the agent, from when it was told until the agent went on."""

    name: str
    summary: str
    start_ns: int
    end_ns: int | None = None
    is_denied: bool = False


@dataclass(slots=True)
class Journal:
    """One attempt at a run."""

    session_id: str
    run_id: str
    span: Span
    caller: Span | None
    created_ns: int
    #: The environment that says where it is told, None: to nobody.
    environment: dict[str, str] | None
    started_ns: int = field(default_factory=time.time_ns)
    finished_ns: int | None = None
    archived_ns: int | None = None
    agent: str = ""
    entry: str = ""  #: of the catalogue
    asked_model: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    #: Why the tool was stopped: canceled, timeout …
    stopped: str | None = None
    ended: Ended | None = None
    prompt: str | None = None
    answer: str | None = None

    @classmethod
    def of(cls, claim: Claim, environment: Mapping[str, str]) -> Journal:
        """Begin it; `environment` is the one in which the run was asked for, or its worker's own."""
        run, told = claim.run, is_told(environment, TRACES) or is_told(environment, METRICS)
        caller = parse_traceparent(run.traceparent)
        span = span_of_run(claim.session_id, run.id, run.created_at, claim.fence, caller)
        created_ns = from_iso(run.created_at) * 1_000_000
        return cls(claim.session_id, run.id, span, caller, created_ns, dict(environment) if told else None)

    @property
    def ids(self) -> dict[str, str]:
        """What lines of the log carry, so that they are found beside the trace."""
        if self.environment is None and self.caller is None:
            return {}
        return {"trace_id": self.span.trace_id, "span_id": self.span.span_id}

    def variables(self) -> dict[str, str]:
        """What the tool is handed, so that its own spans are below this one, or below the caller's."""
        if self.environment is not None and is_told(self.environment, TRACES):
            return {TRACEPARENT: str(self.span)}
        return {TRACEPARENT: str(self.caller)} if self.caller is not None else {}

    def begin(self, tool: Tool, model: str | None, prompt: bytes) -> None:
        """Note what is asked of whom."""
        self.agent, self.entry, self.asked_model = tool.entry or "command", tool.entry, model
        if self.environment is not None and self.environment.get(_CONTENTS, "").strip().lower() == "true":
            self.prompt = prompt.decode(errors="replace")

    def note_activity(self, done: list[Activity]) -> None:
        """Note what the agent did; a new call means that those before are over."""
        if self.environment is None:
            return
        for one in done:
            self.note_progress()
            if one.kind == "tool_call":
                self.calls.append(ToolCall(one.name, one.summary, time.time_ns()))
            elif one.kind == "denied" and self.calls and self.calls[-1].name == one.name:
                self.calls[-1].is_denied = True

    def note_progress(self) -> None:
        """Note that the agent goes on: it has what it waited for."""
        if self.calls and self.calls[-1].end_ns is None:
            self.calls[-1].end_ns = time.time_ns()

    def finish(self, ended: Ended) -> None:
        """Note how it ended."""
        self.note_progress()
        self.finished_ns, self.ended = time.time_ns(), ended
        if self.prompt is not None:
            self.answer = ended.answer

    def note_archived(self) -> None:
        """Note that the session is on disk."""
        self.archived_ns = time.time_ns()

    @property
    def error_type(self) -> str | None:
        """What kind of failure it was, in a word that can be counted."""
        if self.ended is None or self.ended.status == "success":
            return None
        if self.stopped:
            return self.stopped
        if self.ended.status == "canceled":
            return "canceled"
        return f"exit_{self.ended.exit_code}" if self.ended.exit_code else "error"
