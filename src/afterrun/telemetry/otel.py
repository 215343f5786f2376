"""OpenTelemetry, by its API package alone: one span a sweep, and counters.

Without the package nothing is imported and nothing is done; with the package and no SDK its calls do nothing.
"""

from __future__ import annotations

import importlib.util
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from afterrun.core.events import BatchDone, BatchFailed, BlobsDone, Event, SweepEnded, UnitDeferred
from afterrun.telemetry.names import (
    BLOBS,
    DEFERRED,
    DURATION,
    FAILED_BATCHES,
    HELD,
    INSTRUMENTS,
    REMOVED,
    ROWS,
    SKIPPED,
    SPAN,
    SPAN_EVENTS,
    SWEEPS,
    Value,
    checked_labels,
    facts_of,
)

if TYPE_CHECKING:  # the package is optional
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

SCOPE: Final = "afterrun"
MOST_EVENTS: Final = 128
"""Events a span keeps, the newest; also the default limit of the SDK."""

NANO: Final = 1_000_000_000


class OpenTelemetry:
    """The tracer and the instruments of this process. Make one, and from it an observer for each store."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        """Make the instruments. `opentelemetry` finds tracer and meter."""
        self.tracer = tracer
        self.counters: Mapping[str, Counter] = {
            name.name: meter.create_counter(name.name, unit=name.unit, description=name.said)
            for name in INSTRUMENTS
            if name.signal == "counter"
        }
        self.histograms: Mapping[str, Histogram] = {
            name.name: meter.create_histogram(name.name, unit=name.unit, description=name.said)
            for name in INSTRUMENTS
            if name.signal == "histogram"
        }

    def observer(self, *, labels: Mapping[str, str] | None = None) -> SpanObserver:
        """Return the observer of one store; ``labels`` are attributes of all it tells."""
        return SpanObserver(self, labels=checked_labels(labels or {}))


class SpanObserver:
    """Tells the sweeps of one store, one after another.

    The span is made when its sweep is over, with the times at which things happened: until then nobody needs
    it, and a sweep has no event before its first page.
    """

    def __init__(self, telemetry: OpenTelemetry, *, labels: Mapping[str, str]) -> None:
        """Remember the attributes that every span and measurement has."""
        self._telemetry = telemetry
        self._labels = _attributes(labels)
        self._events: deque[tuple[Event, int]] = deque(maxlen=MOST_EVENTS)
        self._batches = 0

    def __call__(self, event: Event) -> None:
        """Count an event, and note it for the span."""
        now = time.time_ns()
        if isinstance(event, SweepEnded):
            self._end(event, now)
            return
        if type(event) in SPAN_EVENTS:
            self._events.append((event, now))
        if isinstance(event, BatchDone):
            self._batches += 1
            self._add(REMOVED.name, event.units)
            self._add(ROWS.name, event.rows)
            self._add(SKIPPED.name, event.skipped)
            self._telemetry.histograms[HELD.name].record(event.held, self._labels)
        elif isinstance(event, BlobsDone):
            self._add(BLOBS.name, event.blobs)
            self._add(ROWS.name, event.rows)
            self._telemetry.histograms[HELD.name].record(event.held, self._labels)
        elif isinstance(event, BatchFailed):
            self._add(FAILED_BATCHES.name, 1, kind=facts_of(event)["kind"])
        elif isinstance(event, UnitDeferred):
            self._add(DEFERRED.name, 1, kind=facts_of(event)["kind"])

    def _add(self, name: str, amount: int, **facts: Value) -> None:
        if amount:
            self._telemetry.counters[name].add(amount, {**self._labels, **_attributes(facts)})

    def _end(self, ended: SweepEnded, now: int) -> None:
        events, batches = list(self._events), self._batches
        self._events.clear()
        self._batches = 0
        told = facts_of(ended)
        self._add(SWEEPS.name, 1, ended=told["ended"])
        self._telemetry.histograms[DURATION.name].record(
            ended.seconds, {**self._labels, **_attributes({"ended": told["ended"]})}
        )
        self._draw(ended, now, events, {"ended": told["ended"], "removed": ended.removed, "batches": batches})

    def _draw(
        self, ended: SweepEnded, now: int, events: list[tuple[Event, int]], facts: dict[str, Value]
    ) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - the package is optional

        began = now - round(ended.seconds * NANO)
        span = self._telemetry.tracer.start_span(
            SPAN.name,
            attributes={**self._labels, **_attributes(facts)},
            start_time=min([began, *(at for _, at in events)]),  # the end may have been told late
        )
        for event, at in events:
            span.add_event(SPAN_EVENTS[type(event)].name, _attributes(facts_of(event)), timestamp=at)
        if ended.ended == "failed":
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=max([now, *(at for _, at in events)]))  # a clock that was set back


def opentelemetry(
    *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None
) -> OpenTelemetry | None:
    """Return what observes by OpenTelemetry, or ``None`` if its API package is not installed.

    ``tracers`` and ``meters`` are by default the providers that the host has set.
    """
    if importlib.util.find_spec("opentelemetry") is None:
        return None
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - the package is optional
    except ImportError:  # a namespace of that name, without the API in it
        return None
    tracer = trace.get_tracer(SCOPE, tracer_provider=tracers)
    return OpenTelemetry(tracer, metrics.get_meter(SCOPE, meter_provider=meters))


def _attributes(facts: Mapping[str, Value]) -> dict[str, Value]:
    return {f"afterrun.{name}": value for name, value in facts.items()}
