"""`/metrics`: how the namespace stands, for Prometheus. What was counted is the team's: any server tells the same.

Written by Prometheus' own client, which knows both text formats and how labels are escaped. No metric has a session, a
user or a command line as label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response

from maestro_state.errors import NoProject, ServerUnavailable
from maestro_state.models.ledger import NANO
from maestro_state.state.calls.ledger import RUN_BUCKETS, SEPARATOR, WAIT_BUCKETS

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from maestro_state.models.metrics import MetricValues
    from maestro_state.serve.request import Request

#: Seconds that the state server has to say who asks, and to be read; one that hangs is away, and Prometheus waits ten.
CALLER_S, _READ_S = 4.0, 8.0
#: Counters by the parts of their name after the first: tool, and status, kind or bucket.
Rows = list[tuple[list[str], int]]


async def metrics(request: Request) -> Response:
    """How the namespace stands, in the text formats of Prometheus."""
    try:
        async with asyncio.timeout(_READ_S):
            found = await request.app.maestro.metrics.read()
    except (ServerUnavailable, TimeoutError, NoProject):  # away, or not there before the first session
        found = None
    return written(found, request.app.hubs.followers, request.headers.get("accept", ""))


def written(found: MetricValues | None, followers: int, accept: str) -> Response:
    """Write the metrics in the format that was asked for; of a server that is away, that it is."""
    from prometheus_client.exposition import choose_encoder

    encode, kind = choose_encoder(accept)
    told = {"cache-control": "no-store", "x-content-type-options": "nosniff", "content-type": kind}
    return Response(encode(_Told(found, followers)), 200, told)


class _Told:
    """What is written: all metrics, made once for each request."""

    def __init__(self, found: MetricValues | None, followers: int) -> None:
        self._found, self._followers = found, followers

    def collect(self) -> Iterator[Metric]:
        """Yield each of them."""
        found = self._found
        yield _gauge("maestro_up", "Whether the state server answers.", 0 if found is None else 1)
        yield _gauge("maestro_stream_followers", "Who follows events over this server now.", self._followers)
        if found is not None:
            yield from _state(found)
            yield from _counted(found)


def _state(found: MetricValues) -> Iterator[Metric]:
    """Yield how things stand."""
    states = [([state], count) for state, count in sorted(found.sessions.items())]
    yield _gauges("maestro_sessions", "Sessions that the server has, by state.", ["state"], states)
    yield _gauge("maestro_dirty_sessions", "Sessions with changes that are not on disk.", found.dirty)
    text = "How long the oldest change has been waiting for a disk: the lag of checkpoints."
    yield _gauge("maestro_unarchived_seconds", text, found.unarchived_s)
    if found.swept_s is not None:
        yield _gauge("maestro_last_sweep_timestamp_seconds", "When a sweep was last made.", found.swept_s)
    yield _gauge("maestro_damaged_records", "Records of the server that nobody could read.", found.damaged)
    yield _gauge("maestro_workers", "Workers that listen for runs now.", found.workers)
    yield _gauge("maestro_queue_length", "Jobs that wait for a worker.", found.queue_length)


def _counted(found: MetricValues) -> Iterator[Metric]:
    """Yield what was counted."""
    yield _counter("maestro_messages", "Messages that were added.", [], [([], found.messages)])
    runs = _rows(found, "runs")
    yield _counter("maestro_runs", "Runs that are over, by tool and outcome.", ["tool", "status"], runs)
    text = "How long runs took, from their beginning to their end."
    yield _histogram("maestro_run_seconds", text, ["tool"], found, "run_seconds", RUN_BUCKETS)
    text = "How long runs waited for a worker."
    yield _histogram("maestro_queue_wait_seconds", text, [], found, "wait_seconds", WAIT_BUCKETS)
    text = "Tokens that runs consumed, as their tools tell; each is of one kind."
    yield _counter("maestro_tokens", text, ["tool", "kind"], _rows(found, "tokens"))
    costs = [(labels, value / NANO) for labels, value in _rows(found, "cost")]
    yield _counter("maestro_cost_usd", "What runs cost in US dollars, as their tools tell.", ["tool"], costs)
    yield _counter("maestro_errors", "What went wrong, by kind.", ["kind"], _rows(found, "errors"))


def _rows(found: MetricValues, name: str) -> Rows:
    parts = ((key.split(SEPARATOR), value) for key, value in sorted(found.counters.items()))
    return [(labels, value) for (first, *labels), value in parts if first == name]


def _gauge(name: str, text: str, value: float) -> Metric:
    return _gauges(name, text, [], [([], value)])


def _gauges(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    metric = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        metric.add_metric(values, value)
    return metric


def _counter(name: str, text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """Return a counter; the format adds `_total` to its name."""
    from prometheus_client.metrics_core import CounterMetricFamily

    metric = CounterMetricFamily(name, text, labels=labels)
    for values, value in rows:
        metric.add_metric(values, value)
    return metric


def _histogram(
    name: str, text: str, labels: Sequence[str], found: MetricValues, counter: str, bounds: Sequence[float]
) -> Metric:
    """Return a histogram: its buckets are stored each by itself, and told with all that are below."""
    from prometheus_client.metrics_core import HistogramMetricFamily

    metric = HistogramMetricFamily(name, text, labels=labels)
    sums = {label: value / 1000 for (label,), value in _rows(found, f"{counter}_sum")}
    stored = {(label, bucket): value for (label, bucket), value in _rows(found, counter)}
    for label, total in sums.items() if labels else [("", sums.get("", 0.0))]:
        below, buckets = 0, []
        for bound in (*map(str, bounds), "+Inf"):
            below += stored.get((label, bound), 0)
            buckets.append((bound if bound == "+Inf" else str(float(bound)), below))
        metric.add_metric([label] if labels else [], buckets, total)
    return metric
