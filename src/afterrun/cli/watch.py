"""`afterrun watch`: looks after several stores from one process, until it is told to stop."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

import click

from afterrun.cli.metrics_file import MetricsFile
from afterrun.cli.options import json_option
from afterrun.cli.render import counted, table
from afterrun.cli.session import Session, Signals
from afterrun.cli.text import seconds
from afterrun.config import Settings, TelemetrySettings, load_settings
from afterrun.core.errors import Exit, UsageError
from afterrun.schedule import Outcome
from afterrun.telemetry import LastRun, Totals, exposition, formatter, opentelemetry, say
from afterrun.telemetry.logs import LOGGER
from afterrun.telemetry.names import WATCH_BEGAN, WATCH_ENDED, WATCH_STOPPING
from afterrun.watch import StoreWatch, Telling, Watch

CONFIG_VARIABLE: Final = "AFTERRUN_CONFIG"
CONFIG: Final = "afterrun.toml"

SETTLING: Final = 1.8
"""Seconds within which running sweeps are settled, so that the process is gone within two."""

HEADS: Final = ("store", "ended", "removed", "deferred", "backlog", "time")

config_option: Final = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    default=CONFIG,
    show_default=True,
    help="The settings file with the stores.",
)


@click.command("watch")
@config_option
@click.option("--once", is_flag=True, help="Sweep each store that is due, once, and end.")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Let so many stores be swept at a time.",
)
@click.option(
    "--approve",
    "approvals",
    multiple=True,
    metavar="NAME=FINGERPRINT",
    help="Admit once what a guarded sweep of this store has shown. May be repeated.",
)
@click.option(
    "-v", "verbose", is_flag=True, help="Log each batch as well, and messages that may name stores and paths."
)
@json_option
@click.pass_obj
def watch(
    session: Session,
    *,
    config_path: str,
    once: bool,
    parallel: int,
    approvals: Sequence[str],
    verbose: bool,
    as_json: bool,
) -> int:
    """Look after the stores of a settings file: each with its own schedule, policy and record.

    A signal to end settles running sweeps within two seconds. What happens is logged on standard error.
    """
    settings = load_settings(Path(config_path))
    if not settings.stores:
        raise UsageError(f"the settings file {config_path} names no store: add a [stores.<name>] table")
    board = Board(settings)
    telling = Telling(
        publish=board.publish,
        totals=board.totals,
        tracing=opentelemetry() if settings.telemetry.opentelemetry else None,
        messages=verbose,
    )
    watching = Watch(settings, telling=telling, parallel=parallel, approvals=_approvals(approvals))
    with logging_on(settings.telemetry, verbose=verbose), Bell(session.signals) as bell:
        say(LOGGER, logging.INFO, WATCH_BEGAN.name, stores=len(settings.stores), parallel=parallel)
        code = _watched(watching, bell, once=once)
    if as_json:
        session.screen.json(_answer(watching))
    elif once:
        session.screen.show(table(*HEADS, rows=map(_row, watching.stores), numbers=range(2, len(HEADS))))
    return code


def _watched(watching: Watch, bell: Bell, *, once: bool) -> Exit:
    """Let the stores be swept until a signal comes or, with ``once``, until all were."""
    try:
        if once:
            watching.once(bell.ring)
        else:
            watching.start()
        bell.wait()
        stopped = bell.signals.stopping
        if stopped:
            say(LOGGER, logging.INFO, WATCH_STOPPING.name)
        settled = watching.settle(SETTLING)
    except KeyboardInterrupt:  # a second signal: sweeps are given up where they stand, which harms no store
        say(LOGGER, logging.WARNING, WATCH_ENDED.name, code=int(Exit.INTERRUPTED), settled=False)
        _leave(Exit.INTERRUPTED)
    if once:
        code = Exit.INTERRUPTED if stopped else watching.code
    else:
        code = Exit.ERROR if watching.is_failing else Exit.DONE
    say(LOGGER, logging.INFO, WATCH_ENDED.name, code=int(code), settled=settled)
    if not settled:  # a sweep waits for a lock that somebody else holds: nothing of it is in the store
        _leave(code)
    return code


def _leave(code: Exit) -> NoReturn:
    """End the process with threads still in it, which Python would wait for."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


class Bell:
    """Wakes the main thread: for a signal, and when all work is done. Enter it around both.

    A pipe, since a handler may run in the middle of anything and must not wait for a lock.
    """

    def __init__(self, signals: Signals) -> None:
        """Take over what the first signal does; the second one aborts, as everywhere."""
        self.signals = signals

    def __enter__(self) -> Self:
        """From here on the first signal only rings."""
        self._hear, self._ring = os.pipe()
        self._told = self.signals.told
        self.signals.told = self.ring
        self.signals.graceful = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        self.signals.graceful, self.signals.told = False, self._told
        os.close(self._hear)
        os.close(self._ring)

    def ring(self) -> None:
        """End the wait, also one that has not begun."""
        os.write(self._ring, b"!")

    def wait(self) -> None:
        """Wait until somebody rings."""
        select.select([self._hear], [], [])


class Board:
    """The files of metrics: one for all stores, and one for each that has its own."""

    def __init__(self, settings: Settings) -> None:
        """Look at every place before any store is opened. Raises `click.UsageError`."""
        file = settings.telemetry.prometheus_file
        self._all = None if file is None else MetricsFile(file, named="telemetry.prometheus_file")
        self._own = {
            store.name: MetricsFile(store.metrics_file, named=f"stores.{store.name}.metrics_file")
            for store in settings.stores
            if store.metrics_file is not None
        }
        self._runs: dict[str, LastRun] = {}
        self._lock = threading.Lock()
        self.totals = Totals()

    def publish(self, name: str, run: LastRun) -> None:
        """Replace the files that tell of a store. Raises `OSError`; the old ones then stay."""
        with self._lock:
            self._runs[name] = run
            if name in self._own:
                self._own[name].replace(exposition([run]))
            if self._all is not None:
                self._all.replace(exposition(self._runs.values(), totals=self.totals))


class _Lines(logging.StreamHandler):  # type: ignore[type-arg]
    """Log lines on standard error; a reader who has gone away is no reason to stop."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Say nothing: there is nobody to say it to."""


@contextmanager
def logging_on(settings: TelemetrySettings | None, *, verbose: bool) -> Iterator[None]:
    """Log on standard error, as the settings say."""
    handler = _Lines(sys.stderr)
    handler.setFormatter(formatter("text" if settings is None else settings.log_format))
    before = LOGGER.level
    LOGGER.addHandler(handler)
    level = "info" if settings is None else settings.log_level
    LOGGER.setLevel(logging.DEBUG if verbose else level.upper())
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


def _approvals(words: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, fingerprint = word.partition("=")
        if not (name and equals and fingerprint):
            raise click.UsageError("--approve needs NAME=FINGERPRINT, as the log has shown them")
        found[name] = fingerprint
    return found


def _answer(watching: Watch) -> Mapping[str, object]:
    return {"stores": {store.name: _told(store) for store in watching.stores}}


def _told(store: StoreWatch) -> Mapping[str, object] | None:
    last = store.last
    if last is None:
        return None
    return {
        "ended": last.ended,
        "kind": last.kind or None,
        "removed": last.removed,
        "deferred": last.deferred,
        "backlog": last.backlog,
        "seconds": round(last.seconds, 6),
        "fingerprint": None if last.report is None else last.report.fingerprint,
        "code": int(store.code),
    }


def _row(store: StoreWatch) -> Sequence[str]:
    last = store.last
    if last is None:
        return (store.name, "not due", "", "", "", "")
    numbers = (last.removed, last.deferred, last.backlog)
    return (store.name, _words(last), *map(counted, numbers), seconds(last.seconds))


def _words(last: Outcome) -> str:
    report = last.report
    if last.ended == "guard" and report is not None:
        return f"asks: {counted(report.would_go)} units would go, fingerprint {report.fingerprint}"
    return f"{last.ended} ({last.kind})" if last.kind else last.ended
