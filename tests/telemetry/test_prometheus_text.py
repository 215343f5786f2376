"""The Prometheus text: read back as Prometheus does."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from afterrun import Report, Retention
from afterrun.core.events import BatchDone, BatchFailed, SweepEnded, UnitDeferred
from afterrun.telemetry import LastRun, Totals, exposition
from afterrun.telemetry.names import GAUGES, TOTALS
from telemetry.telemetry_kit import EVENTS, swept

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Samples:
    """Parse a text; no sample stands in it twice."""
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def run_of(report: Report, store: str) -> LastRun:
    """Return the last run of a store."""
    return LastRun(
        at=report.now, ended=report.ended, success=report.now, labels={"store": store}, report=report
    )


def test_a_family_comes_once_with_all_stores(retention: Retention) -> None:
    """Prometheus refuses a text in which a family begins twice."""
    report = swept(retention)
    text = exposition([run_of(report, "orders"), run_of(report, "mail")])
    heads = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert len(heads) == len(set(heads)) == len(GAUGES)
    found = read(text)
    for store in ("orders", "mail"):
        labels = frozenset({"store": store, "kind": "tree", "outcome": "removed"}.items())
        assert found["afterrun_units", labels] == 11


def test_a_run_without_a_report_says_when_and_how() -> None:
    """A store that cannot be opened has no figures, and old ones are not shown for new."""
    text = exposition([LastRun(at=5_000_000, ended="failed", success=None, labels={"store": "gone"})])
    found = read(text)
    assert found["afterrun_last_run_timestamp_seconds", frozenset({("store", "gone")})] == 5
    ended = {
        dict(labels)["ended"]: value for (name, labels), value in found.items() if name == "afterrun_ended"
    }
    assert [name for name, value in ended.items() if value] == ["failed"]
    assert {name for name, _ in found} == {"afterrun_last_run_timestamp_seconds", "afterrun_ended"}


def test_totals_add_up_over_sweeps_and_stores() -> None:
    """Counters of the process grow with each event, by the label of the store."""
    totals = Totals()
    for store, times in (("orders", 2), ("mail", 1)):
        observer = totals.observer(labels={"store": store})
        for event in EVENTS * times:
            observer(event)
    found = read(exposition([], totals=totals))
    orders = ("store", "orders")
    assert found["afterrun_units_removed_total", frozenset({orders})] == 6
    assert found["afterrun_rows_removed_total", frozenset({orders})] == 92
    assert found["afterrun_blobs_removed_total", frozenset({orders})] == 10
    assert found["afterrun_sweeps_total", frozenset({orders, ("ended", "completed")})] == 2
    assert found["afterrun_units_deferred_total", frozenset({orders, ("kind", "timeout")})] == 2
    assert found["afterrun_batches_failed_total", frozenset({orders, ("kind", "lock")})] == 2
    assert found["afterrun_units_removed_total", frozenset({("store", "mail")})] == 3
    assert {name for name, _ in found} == {name.name for name in TOTALS}


@pytest.fixture
def _restless() -> Iterator[None]:
    """Let threads take turns far more often than usual, so that they meet."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_restless")
def test_threads_lose_no_count() -> None:
    """Stores that are swept at the same time count into the same totals."""
    totals = Totals()

    def count() -> None:
        observer = totals.observer()
        for _ in range(2_000):
            observer(BatchDone(1, 1, 1, 0, 0.0))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(exposition([], totals=totals))["afterrun_units_removed_total", frozenset()] == 8_000


def test_text_of_an_event_is_a_word_of_ours() -> None:
    """Were an id to get into an event, it would not become a label."""
    totals = Totals()
    observer = totals.observer()
    for event in (BatchFailed(2, "order-17"), UnitDeferred("order-17"), SweepEnded("order-17", 1, 0.1)):
        observer(event)
    assert "order-17" not in exposition([], totals=totals)


def test_labels_are_escaped() -> None:
    """A profile's name, which a user writes, cannot break out of its place."""
    odd = 'a"b\\c\nd'
    text = exposition([LastRun(at=0, ended="failed", success=None, labels={"profile": odd})])
    assert ("afterrun_last_run_timestamp_seconds", frozenset({("profile", odd)})) in read(text)
