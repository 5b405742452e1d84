"""A run as OpenTelemetry tells it: a span with its children, and two metrics. Off unless `OTEL_*` say where to.

`journal` notes what happens while a run goes on and costs nothing worth counting; `export` makes spans of that, in a
child of the worker, when the run is over; `names` has the words.
"""
