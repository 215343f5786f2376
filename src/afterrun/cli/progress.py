"""What a running removal tells on standard error: a bar for a terminal, or one line a batch."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from afterrun.cli.session import Signals
from afterrun.cli.text import seconds
from afterrun.core.events import BatchDone, BatchFailed, BlobsDone, Event, PageRead, UnitDeferred


class Watcher:
    """Observes one removal. Enter it around the call; counts and seconds only are told."""

    def __init__(self, signals: Signals, *, verbose: bool, total: int | None = None) -> None:
        """Choose lines (``verbose``), a bar (on a terminal), or silence."""
        self._signals = signals
        self._verbose = verbose
        self._batches = 0
        self._progress: Progress | None = None
        if not verbose and sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("removing"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("units"),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr, markup=False, highlight=False, emoji=False),
                transient=True,
            )
            self._task = self._progress.add_task("removing", total=total)

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._progress:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away; from here on Ctrl-C aborts at once again."""
        self._signals.graceful = False
        if self._progress:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, PageRead):
            self._signals.graceful = True
        elif isinstance(event, BatchDone):
            self._batches += 1
            self._done(event)
        elif isinstance(event, BlobsDone):
            self._say(f"{event.blobs} blobs removed, lock held {seconds(event.held)}")
        elif isinstance(event, BatchFailed):
            self._say(f"batch of {event.units} units failed ({event.kind}); it is tried again in halves")
        elif isinstance(event, UnitDeferred):
            self._say(f"one unit deferred ({event.kind})")

    def _done(self, event: BatchDone) -> None:
        if self._progress:
            self._progress.advance(self._task, event.units)
        self._say(
            f"batch {self._batches}: {event.units} units, {event.rows} rows, {event.skipped} skipped, "
            f"lock held {seconds(event.held)}"
        )

    def _say(self, line: str) -> None:
        if not self._verbose:
            return
        try:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except OSError:  # nobody reads this any more: that is no reason to stop the work
            self._verbose = False
