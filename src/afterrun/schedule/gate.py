"""The idle gate: the host registers what it is doing, and sweeps stay out of the way of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


class IdleGate:
    """Knows what the host is doing. One gate serves a whole host, however many stores it has.

    It never blocks the host: work starts at once, and a sweep that runs ends between two units. It is safe
    for threads, and ``with gate.busy(...)`` can stand in a coroutine, around anything that is awaited.
    """

    def __init__(self, *, probe: Callable[[], bool] | None = None) -> None:
        """Start idle.

        ``probe`` says whether the host is idle, for what it cannot register: work in other processes, say.
        It is asked when a sweep is due and before each batch, in the sweep's thread; if it raises, the host
        counts as busy.
        """
        self._changed = threading.Condition()
        self._activities: Counter[str] = Counter()
        self._probe = probe
        self._listeners: tuple[Callable[[], None], ...] = ()

    @contextmanager
    def busy(self, activity: str) -> Iterator[None]:
        """Register an activity while this is entered. The name is for people; it may be there many times."""
        with self._changed:
            self._activities[activity] += 1
        try:
            yield
        finally:
            self._end(activity)

    def _end(self, activity: str) -> None:
        with self._changed:
            self._activities[activity] -= 1
            if not self._activities[activity]:
                del self._activities[activity]
            self._changed.notify_all()
            listeners = self._listeners
        for listener in listeners:
            listener()

    @property
    def is_quiet(self) -> bool:
        """Say whether no activity is registered, without asking the probe."""
        with self._changed:
            return not self._activities

    @property
    def is_idle(self) -> bool:
        """Say whether no activity is registered and the probe, if there is one, agrees."""
        return self.is_quiet and self.ask_probe()

    def ask_probe(self) -> bool:
        """Say whether the probe finds the host idle; without one, it is."""
        if self._probe is None:
            return True
        try:
            return bool(self._probe())
        except Exception:  # noqa: BLE001 - what cannot be told is not idle, and no fault of the sweep
            return False

    def activities(self) -> Mapping[str, int]:
        """Return how often each activity is registered just now."""
        with self._changed:
            return dict(self._activities)

    def wait_quiet(self, seconds: float | None = None) -> bool:
        """Wait until no activity is registered; say whether that came within the seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._activities, seconds)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after the end of each activity, in the thread that ended it. It must not block."""
        with self._changed:
            self._listeners = (*self._listeners, listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call this one no more."""
        with self._changed:
            self._listeners = tuple(known for known in self._listeners if known != listener)
