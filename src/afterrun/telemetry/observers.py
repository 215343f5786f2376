"""Observers put together: each on its own, so that one that fails takes nothing and nobody with it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from afterrun.core.errors import StoreLocked
from afterrun.core.events import BatchDone, Event, Observer, SweepEnded
from afterrun.core.report import Ended
from afterrun.telemetry.logs import LOGGER, say
from afterrun.telemetry.names import OBSERVER_FAILED


class Observers:
    """Several observers as one. ``failures`` counts what they raised, by the name of the error's class.

    An error of an observer is told once, by the log, and goes no further; the others get the event all the
    same. An abort, such as `KeyboardInterrupt`, passes.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        """Wrap them in the order in which they are told."""
        self._observers = tuple(observers)
        self._reported: set[int] = set()
        self.failures: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Hand an event to each of them."""
        for place, observer in enumerate(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, it may not end a removal
                self._note(place, type(error).__name__)

    def _note(self, place: int, kind: str) -> None:
        self.failures[kind] += 1
        if place in self._reported:
            return
        self._reported.add(place)
        say(LOGGER, logging.ERROR, OBSERVER_FAILED.name, error=kind)


def compose(*observers: Observer | None) -> Observers:
    """Return one observer that tells all of these; ``None``, for a library that is missing, is left out."""
    return Observers([observer for observer in observers if observer is not None])


class Watched:
    """The observers of one sweep, from its lock to its record; enter it around the sweep.

    However the sweep ends, they are told so once: what ends without a report ends ``locked``, ``interrupted``
    or ``failed``.
    """

    def __init__(self, observer: Observer, *, monotonic: Callable[[], float]) -> None:
        """Wrap an observer; one that is composed already stays as it is."""
        self.observers = observer if isinstance(observer, Observers) else compose(observer)
        self._monotonic = monotonic
        self._began = monotonic()
        self._before = Counter(self.observers.failures)
        self._removed = 0
        self._ended = False

    def __call__(self, event: Event) -> None:
        """Hand an event on."""
        if isinstance(event, BatchDone):
            self._removed += event.units
        self._ended = self._ended or isinstance(event, SweepEnded)
        self.observers(event)

    @property
    def failures(self) -> Counter[str]:
        """Return what observers raised during this sweep, by the name of the error's class."""
        return self.observers.failures - self._before

    @property
    def notice(self) -> str:
        """Return a sentence for the report, empty if no observer failed."""
        failures = self.failures
        if not failures:
            return ""
        kinds = ", ".join(sorted(failures))
        return f"an observer failed at {failures.total()} events ({kinds}); what it shows is incomplete"

    def end(self, ended: Ended) -> None:
        """Tell an end that the sweep itself does not tell."""
        if not self._ended:
            self(SweepEnded(ended, self._removed, self._monotonic() - self._began))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell the end of a sweep that raised."""
        if isinstance(error, StoreLocked):
            self.end("locked")
        elif error is not None:
            self.end("failed" if isinstance(error, Exception) else "interrupted")
