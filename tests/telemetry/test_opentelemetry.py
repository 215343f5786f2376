"""OpenTelemetry: spans and measurements as an SDK in memory sees them, and nothing without the package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from afterrun import Retention
from afterrun.core.events import BatchDone, BatchFailed, SweepEnded, UnitDeferred
from afterrun.telemetry import OpenTelemetry, opentelemetry
from afterrun.telemetry.names import INSTRUMENTS, SPAN, SPAN_EVENTS
from afterrun.telemetry.otel import MOST_EVENTS
from telemetry.telemetry_kit import EVENTS, swept

LABELS = {"store": "orders"}


class Memory:
    """An SDK that keeps everything in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])
        made = opentelemetry(tracers=self.tracers, meters=self.meters)
        assert made is not None
        self.telemetry: OpenTelemetry = made

    def spans(self) -> tuple[ReadableSpan, ...]:
        return tuple(self.exporter.get_finished_spans())

    def points(self) -> Mapping[str, Mapping[frozenset[tuple[str, Any]], float]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {
            metric.name: {
                frozenset((point.attributes or {}).items()): getattr(point, "value", getattr(point, "sum", 0))
                for point in metric.data.data_points
            }
            for metric in metrics
        }


@pytest.fixture
def memory() -> Memory:
    """Set up an SDK."""
    return Memory()


def attributes(**facts: object) -> frozenset[tuple[str, object]]:
    """Return the attributes of a measurement."""
    return frozenset(
        {"afterrun.store": "orders", **{f"afterrun.{name}": fact for name, fact in facts.items()}}.items()
    )


def test_one_sweep_is_one_span_with_its_batches(retention: Retention, memory: Memory) -> None:
    """The span has the end, the count, the store's label and an event for each batch."""
    report = swept(retention, memory.telemetry.observer(labels=LABELS))
    (span,) = memory.spans()
    assert span.name == SPAN.name
    assert dict(span.attributes or {}) == {
        "afterrun.store": "orders",
        "afterrun.ended": "completed",
        "afterrun.removed": 11,
        "afterrun.batches": report.batches,
    }
    assert [event.name for event in span.events] == ["afterrun.batch"] * report.batches
    units = [(event.attributes or {})["afterrun.units"] for event in span.events]
    assert sum(number for number in units if isinstance(number, int)) == 11
    assert span.start_time is not None
    assert span.end_time is not None
    assert (span.end_time - span.start_time) / 1e9 >= report.seconds - 1e-6
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("clock", "seconds", "start", "end"),
    [
        ([110, 120, 125], 25, 100, 125),  # told when it happened
        ([110, 120, 150], 25, 110, 150),  # the end was told late, longer than the first batch took
        ([110, 120, 105], 25, 80, 120),  # the clock was set back
    ],
)
def test_a_span_holds_its_events(
    clock: list[int], seconds: int, start: int, end: int, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lasts as long as the sweep says, and no event lies outside, whenever it was told."""
    times = iter(clock)
    monkeypatch.setattr("afterrun.telemetry.otel.time.time_ns", lambda: next(times) * 10**9)
    observer = memory.telemetry.observer()
    failed = next(event for event in EVENTS if isinstance(event, BatchFailed))
    for event in (failed, failed, SweepEnded("completed", 0, seconds)):
        observer(event)
    (span,) = memory.spans()
    assert (span.start_time, span.end_time) == (start * 10**9, end * 10**9)
    assert [event.timestamp for event in span.events] == [110 * 10**9, 120 * 10**9]


def test_the_span_belongs_to_what_the_host_is_doing(retention: Retention, memory: Memory) -> None:
    """Within a span of the host, a sweep is its child."""
    with memory.tracers.get_tracer("host").start_as_current_span("maintenance") as outer:
        swept(retention, memory.telemetry.observer())
    inner = memory.spans()[0]
    assert inner.parent is not None
    assert inner.parent.span_id == outer.get_span_context().span_id


def test_every_instrument_measures(memory: Memory) -> None:
    """Each name of the table has a measurement, with the fields that the table gives it."""
    observer = memory.telemetry.observer(labels=LABELS)
    for event in EVENTS:
        observer(event)
    points = memory.points()
    assert set(points) == {name.name for name in INSTRUMENTS}
    assert points["afterrun.units.removed"] == {attributes(): 3}
    assert points["afterrun.units.skipped"] == {attributes(): 1}
    assert points["afterrun.rows.removed"] == {attributes(): 46}
    assert points["afterrun.blobs.removed"] == {attributes(): 5}
    assert points["afterrun.batch.held"] == {attributes(): 0.375}
    assert points["afterrun.batches.failed"] == {attributes(kind="lock"): 1}
    assert points["afterrun.units.deferred"] == {attributes(kind="timeout"): 1}
    assert points["afterrun.sweeps"] == {attributes(ended="completed"): 1}
    assert points["afterrun.sweep.duration"] == {attributes(ended="completed"): 1.5}
    for name in INSTRUMENTS:
        (found,) = points[name.name]
        assert {key for key, _ in found} == {"afterrun.store", *name.fields}


def test_spans_have_the_names_of_the_table(memory: Memory) -> None:
    """Span, events and attributes are those that are documented."""
    observer = memory.telemetry.observer()
    for event in EVENTS:
        observer(event)
    (span,) = memory.spans()
    assert set(span.attributes or {}) == set(SPAN.fields)
    assert {event.name: tuple(event.attributes or {}) for event in span.events} == {
        name.name: name.fields for name in SPAN_EVENTS.values()
    }


def test_a_failed_sweep_is_a_failed_span(memory: Memory) -> None:
    """Its status is an error, without a message, which might name the store."""
    memory.telemetry.observer()(SweepEnded("failed", 0, 0.1))
    (span,) = memory.spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


def test_each_sweep_of_a_store_starts_anew(memory: Memory) -> None:
    """Events of one sweep are not told again with the next."""
    observer = memory.telemetry.observer()
    for event in (*EVENTS, SweepEnded("completed", 0, 0.1)):
        observer(event)
    first, second = memory.spans()
    assert (len(first.events), len(second.events)) == (4, 0)
    assert (second.attributes or {})["afterrun.batches"] == 0


def test_a_long_sweep_keeps_the_newest_events(memory: Memory) -> None:
    """Memory is bounded; counts are not cut."""
    observer = memory.telemetry.observer()
    for number in range(MOST_EVENTS + 10):
        observer(BatchDone(number, number, number, 0, 0.0))
    assert len(observer._events) == MOST_EVENTS  # a span of the SDK would be cut at that in any case
    observer(SweepEnded("completed", 1, 1.0))
    (span,) = memory.spans()
    assert len(span.events) == MOST_EVENTS
    assert (span.events[-1].attributes or {})["afterrun.units"] == MOST_EVENTS + 9
    assert (span.attributes or {})["afterrun.batches"] == MOST_EVENTS + 10


def test_text_of_an_event_is_a_word_of_ours(memory: Memory) -> None:
    """Were an id to get into an event, it would not get into a trace."""
    observer = memory.telemetry.observer()
    for event in (BatchFailed(2, "order-17"), UnitDeferred("order-17"), SweepEnded("order-17", 1, 0.1)):
        observer(event)
    told = f"{[span.to_json() for span in memory.spans()]}{memory.points()}"
    assert "order-17" not in told
    assert "other" in told


WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

FOUND
from afterrun.telemetry import compose, opentelemetry
seen = []
told = compose(opentelemetry(), seen.append)
told("event")
assert opentelemetry() is None and seen == ["event"], seen
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_without_the_package_nothing_is_missing() -> None:
    """A bare install observes by the rest, and imports nothing in vain."""
    script = WITHOUT.replace("FOUND", "import importlib.util; importlib.util.find_spec = lambda name: None")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_folder_of_that_name_is_no_package() -> None:
    """A namespace left by an uninstalled SDK is not taken for the API."""
    script = WITHOUT.replace("FOUND", "sys.meta_path.insert(0, Missing())").replace(
        "seen = []", "import importlib.util as u; u.find_spec = lambda name: object()\nseen = []"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_afterrun_imports_no_telemetry_library() -> None:
    """The cost of what nobody asked for is nothing."""
    script = "import sys, afterrun, afterrun.telemetry; sys.exit('opentelemetry' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
