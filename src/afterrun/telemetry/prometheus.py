"""Metrics in the Prometheus text format: what the last runs came to, and totals of this process.

They hold counts, times, the profile's name and names that the user chose; no id and no path.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from afterrun.core.events import BatchDone, BatchFailed, BlobsDone, Event, SweepEnded, UnitDeferred
from afterrun.core.report import Ended, Report
from afterrun.core.times import SECOND, Instant
from afterrun.telemetry.names import (
    BACKLOG,
    BLOBS_TOTAL,
    DEFERRED_TOTAL,
    ENDED,
    FAILED_BATCHES_TOTAL,
    FILE_BYTES,
    GAUGES,
    LAST_RUN,
    LAST_SUCCESS,
    LONGEST_BATCH,
    REMOVED_TOTAL,
    ROWS_REMOVED,
    ROWS_TOTAL,
    SECONDS,
    SWEEPS_TOTAL,
    TOTALS,
    UNITS,
    Name,
    checked_labels,
    facts_of,
)

SUCCESSFUL: Final = ("completed", "budget")
"""Endings that count as a success: a budget is meant to end a sweep."""

BEGINS: Final = "# HELP afterrun_"
"""How every file of metrics begins that is ours."""

Labels = Mapping[str, str]
Sample = tuple[Labels, float]
Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The last run of a store: when it began and how it ended, and its report if it came to one.

    ``success`` is when the last run began that ended well. ``labels`` tell one store from another.
    """

    at: Instant
    ended: Ended
    success: Instant | None
    labels: Labels
    report: Report | None = None

    def samples(self) -> Iterator[tuple[Name, Iterable[Sample]]]:
        """Yield the samples of each gauge that says something of this run."""
        base = self.labels
        yield LAST_RUN, [(base, self.at / SECOND)]
        if self.success is not None:
            yield LAST_SUCCESS, [(base, self.success / SECOND)]
        if self.report is not None:
            yield from _figures(self.report, base)
        ends = [({**base, "ended": name}, float(self.ended == name)) for name in get_args(Ended)]
        yield ENDED, ends


def _figures(report: Report, base: Labels) -> Iterator[tuple[Name, Iterable[Sample]]]:
    yield (
        UNITS,
        [
            ({**base, "kind": kind, "outcome": name}, float(count))
            for kind, units in report.kinds.items()
            for name, count in (
                ("removed", units.removed),
                ("deferred", units.deferred),
                ("skipped", units.skipped.total()),
            )
        ],
    )
    rows = 0 if report.dry_run else sum(report.rows.values())  # a guarded sweep only counted
    yield ROWS_REMOVED, [(base, float(rows))]
    yield BACKLOG, [(base, float(report.backlog_after))]
    yield SECONDS, [(base, report.seconds)]
    yield LONGEST_BATCH, [(base, report.longest_batch)]
    sizes = {"before": report.file_before, "after": report.file_after}
    yield FILE_BYTES, [({**base, "moment": name}, float(n)) for name, n in sizes.items()]


@dataclass(slots=True)
class Totals:
    """Counts of all sweeps of this process, for all stores. Its observers may run in several threads."""

    _counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observer(self, *, labels: Labels | None = None) -> TotalsObserver:
        """Return the observer of one store. Raises `ValueError` for a label that is no plain name."""
        return TotalsObserver(self, labels=checked_labels(labels or {}))

    def add(self, name: Name, amount: int, labels: Labels) -> None:
        """Count."""
        with self._lock:
            self._counts[name.name, tuple(labels.items())] += amount

    def samples(self) -> Samples:
        """Return the counts so far, by the metric's name."""
        with self._lock:
            counts = dict(self._counts)
        found: dict[str, list[Sample]] = {}
        for (name, labels), count in counts.items():
            found.setdefault(name, []).append((dict(labels), float(count)))
        return found


class TotalsObserver:
    """Counts the sweeps of one store."""

    def __init__(self, totals: Totals, *, labels: Labels) -> None:
        """Count into ``totals``."""
        self._totals = totals
        self._labels = labels

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, BatchDone):
            self._totals.add(REMOVED_TOTAL, event.units, self._labels)
            self._totals.add(ROWS_TOTAL, event.rows, self._labels)
        elif isinstance(event, BlobsDone):
            self._totals.add(BLOBS_TOTAL, event.blobs, self._labels)
            self._totals.add(ROWS_TOTAL, event.rows, self._labels)
        elif isinstance(event, BatchFailed):
            self._add(FAILED_BATCHES_TOTAL, event, "kind")
        elif isinstance(event, UnitDeferred):
            self._add(DEFERRED_TOTAL, event, "kind")
        elif isinstance(event, SweepEnded):
            self._add(SWEEPS_TOTAL, event, "ended")

    def _add(self, name: Name, event: Event, label: str) -> None:
        self._totals.add(name, 1, {**self._labels, label: str(facts_of(event)[label])})


def exposition(runs: Iterable[LastRun], *, totals: Totals | None = None) -> str:
    """Return the text of all metrics: a family once, with the samples of every run."""
    found: dict[str, list[Sample]] = {}
    for run in runs:
        for name, samples in run.samples():
            found.setdefault(name.name, []).extend(samples)
    counted = {} if totals is None else totals.samples()
    return "".join(
        [
            *(_family(name, "gauge", found[name.name]) for name in GAUGES if name.name in found),
            *(_family(name, "counter", counted[name.name]) for name in TOTALS if name.name in counted),
        ]
    )


def _family(name: Name, kind: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name.name} {name.said}\n# TYPE {name.name} {kind}\n"]
    for labels, value in samples:
        words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name.name}{{{words}}} {value!r}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    safe = text.encode("utf-8", "backslashreplace").decode()
    return safe.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
