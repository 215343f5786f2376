"""What the daily sweep of our own run store costs, by the number of runs that it keeps.

Each run has a step with an output. One run in 20 is past its age and held by a result that nobody has
acknowledged; the store has set it aside, and looks at it again on a day of its own, as after months of daily
sweeps. On each day the same number of runs expires, a 31st of the smaller store, and one in 20 of those is
found to be held. Sweeps are offline, with the default policy and the guard's counts, but unasked.

Limits: a day at the larger store takes at most 2.0 times as long as at the smaller one. An empty sweep of the
larger one spends at most 5 ms in the database on its pages.

Run: python benchmarks/native_daily.py [--runs 20000,200000] [--databases sqlite,postgresql] [--days 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from _common import header, say
from afterrun import Report, Retention, SweepOptions
from afterrun.core.times import DAY, SECOND
from afterrun.runs import DEFAULT_POLICY, RunStore
from afterrun.runs.database import Database, Transaction
from afterrun.runs.opening import dialect_of
from afterrun.runs.schema import obligations, runs
from afterrun.runs.side_tables import metadata
from afterrun.stores.sql.generations import SqlGenerations
from afterrun.stores.sql.store import SqlStore
from pg_server import Server

HOUR: Final = 3_600 * SECOND
SHARE: Final = 20
"""One run in so many is protected."""

KEEP_DAYS: Final = 30
OLDEST_DAYS: Final = 120
"""How old the protected runs are at most."""

PAGE_LIMIT: Final = 5.0
DAY_LIMIT: Final = 2.0
SETTINGS: Final = {"shared_buffers": "1GB", "max_wal_size": "4GB"}


@dataclass(slots=True)
class Spent:
    """Seconds in the database: of all statements, and of those of pages."""

    all: float = 0.0
    pages: float = 0.0
    paging: bool = False


@dataclass(frozen=True, slots=True)
class Day:
    """One sweep: its report, its seconds, and what the database took."""

    report: Report
    seconds: float
    spent: Spent


@dataclass(frozen=True, slots=True)
class Shape:
    """How many runs a store has: in all, and those that expire on each of so many days.

    The first of these days is practice.
    """

    total: int
    daily: int
    days: int

    @property
    def held(self) -> int:
        """Return the runs that are past their age and protected."""
        return self.total // SHARE

    def ends(self, now: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield stretches of runs: the first and last number, and between which times they ended."""
        yield 1, self.held, now - OLDEST_DAYS * DAY, now - (KEEP_DAYS + 1) * DAY
        first = self.held + 1
        for day in range(self.days):
            since = now - (KEEP_DAYS - day) * DAY
            yield first, first + self.daily - 1, since + HOUR, since + DAY - HOUR
            first += self.daily
        yield first, self.total, now - (KEEP_DAYS - self.days) * DAY, now - HOUR


def fill(location: str, shape: Shape, *, now: int) -> None:
    """Make a store: one run by its own calls, and copies of it in SQL."""
    with RunStore.open(location, sealing="off", clock=lambda: now - HOUR) as store:
        run = store.create("import").run.id
        store.start(run)
        store.steps.complete(store.steps.start(run, "work"), output=b"output of a step")
        store.finish(run)
    database = Database(dialect_of(location))
    try:
        with database.writing() as transaction:
            _seed(transaction, shape, now=now)
            _copy(transaction, run)
            _hold(transaction, shape, now=now)
        if database.dialect.schema is not None:
            alone = database.dialect.engine().execution_options(isolation_level="AUTOCOMMIT")
            with alone.connect() as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")
    finally:
        database.close()


def _seed(transaction: Transaction, shape: Shape, *, now: int) -> None:
    """Make a table of what differs from copy to copy: a number, an id, and how much earlier it ended."""
    run = partial(_run, transaction)
    run("CREATE TEMP TABLE seed (n bigint PRIMARY KEY, id text, shift bigint)")
    for first, last, since, until in shape.ends(now):
        ended = f"({since} + (n - {first}) * ({until - since} / {max(last - first + 1, 1)}))"
        stamp = f"({ended} / 1000)"
        if transaction.dialect.schema is None:
            numbers = (
                f"WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last})"
            )
            series, text = "s", f"printf('%08x-%04x', {stamp} / 65536, {stamp} % 65536)"
            tail = "printf('%012x', n)"
        else:
            numbers, series = "", f"generate_series({first}, {last}) AS s(n)"
            text = f"lpad(to_hex({stamp} / 65536), 8, '0') || '-' || lpad(to_hex({stamp} % 65536), 4, '0')"
            tail = "lpad(to_hex(n), 12, '0')"
        made = f"SELECT n, {text} || '-7000-8000-' || {tail}, {ended} - {now - HOUR} FROM {series}"
        run(f"INSERT INTO seed {numbers} {made}")
    run(
        "CREATE UNIQUE INDEX seed_ids ON seed (id)"
        if transaction.dialect.schema
        else "CREATE UNIQUE INDEX temp.seed_ids ON seed (id)"
    )
    run("ANALYZE seed")


def _run(transaction: Transaction, text: str) -> None:
    """Run a statement; the driver of PostgreSQL takes a percent sign for a parameter."""
    escaped = text if transaction.dialect.schema is None else text.replace("%", "%%")
    transaction.connection.exec_driver_sql(escaped)


def _copy(transaction: Transaction, run: str) -> None:
    """Copy every row of a run, and its content, for each seed."""
    seed = sa.Table(
        "seed",
        sa.MetaData(schema="pg_temp" if transaction.dialect.schema else "temp"),
        *(
            sa.Column(name, kind)
            for name, kind in (("n", sa.BigInteger), ("id", sa.Text), ("shift", sa.BigInteger))
        ),
    )
    blobs = metadata.tables["blobs"]
    step = transaction.value(sa.select(sa.func.max(blobs.c.id)))
    for table in metadata.sorted_tables:
        own = _own(table, run)
        if own is None or not transaction.value(sa.select(sa.func.count()).select_from(table).where(own)):
            continue
        columns = [_copied(column, seed, step) for column in table.c]
        rows = sa.select(*columns).select_from(seed.join(table, sa.true())).where(own).order_by(seed.c.n)
        transaction.change(sa.insert(table).from_select([column.name for column in table.c], rows))


def _own(table: sa.Table, run: str) -> sa.ColumnElement[bool] | None:
    if table.name == "blobs":
        return sa.true()
    key = table.c.get("run_id") if table.name != "runs" else table.c.id
    return None if key is None else key == run


def _copied(column: sa.Column[Any], seed: sa.Table, step: int) -> sa.ColumnElement[Any]:
    """Return a column of a copy: its own id and times, and its own content."""
    place = f"{column.table.name}.{column.name}"
    if place == "runs.id" or column.name in ("run_id", "root_id"):
        return seed.c.id
    if place == "blobs.address":
        return seed.c.id
    if place == "blobs.id" or any(key.column.table.name == "blobs" for key in column.foreign_keys):
        return column + seed.c.n * step
    return column + seed.c.shift if column.name.endswith("_at") else column


def _hold(transaction: Transaction, shape: Shape, *, now: int) -> None:
    """Open work of the protected runs; those that are past their age are set aside, each for another time."""
    run = partial(_run, transaction)
    prefix = f"{transaction.dialect.schema}." if transaction.dialect.schema else ""
    held = f"n <= {shape.held} OR (n <= {shape.held + shape.daily * shape.days} AND n % {SHARE} = 0)"
    columns = "run_id, generation, kind, subject, root_id, opened_at"
    owed = f"SELECT id, 0, 'undelivered-result', '1', id, {now} FROM seed WHERE {held}"
    run(f"INSERT INTO {prefix}{obligations.name} ({columns}) {owed}")
    past = f"(({now} - ended_at) / {DAY} - {KEEP_DAYS} + 8)"
    days = " ".join(f"WHEN {past} >= {days} THEN {days}" for days in (64, 32, 16))
    number = "(SELECT n FROM seed WHERE seed.id = runs.id)"
    later = f"{now} + ((CASE {days} ELSE 8 END) * {DAY} / 1000) * ({number} * 7919 % 1000)"
    aside = f"SET due_at = NULL, look_at = {later} WHERE id IN (SELECT id FROM seed WHERE n <= {shape.held})"
    run(f"UPDATE {prefix}{runs.name} {aside}")


@contextmanager
def timed(retention: Retention) -> Iterator[Spent]:
    """Measure the statements of a retention, and those of pages among them."""
    spent, dialect = Spent(), retention.store.dialect
    execute, pages = dialect.execute, {kind: kind.page for kind in (SqlStore, SqlGenerations)}

    def counted(*words: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever a dialect takes
        began = time.perf_counter()
        found = execute(*words, **named)
        passed = time.perf_counter() - began
        spent.all += passed
        spent.pages += passed if spent.paging else 0.0
        return found

    def paging(page: Callable[..., Any]) -> Callable[..., Any]:
        def read(*words: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever a store takes
            spent.paging = True
            try:
                return page(*words, **named)
            finally:
                spent.paging = False

        return read

    dialect.execute = counted  # type: ignore[method-assign]
    for kind, page in pages.items():
        kind.page = paging(page)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        for kind, page in pages.items():
            kind.page = page  # type: ignore[method-assign]


def sweep(location: str, state: Path, *, now: int, always: bool = False, warm: bool = False) -> Day:
    """Sweep a store as its clock says; open and close it. ``warm``: what is measured is a second sweep."""
    began = time.perf_counter()
    with Retention(location, state=state) as retention:
        retention.store.dialect.now = lambda: now  # type: ignore[method-assign]
        if warm:
            retention.sweep(DEFAULT_POLICY, options=SweepOptions(offline=True))
        with timed(retention) as spent:
            report = retention.sweep(DEFAULT_POLICY, options=SweepOptions(offline=True), always=always)
    if report.ended != "completed":
        raise SystemExit(f"the sweep ended {report.ended}: {report.message}")
    return Day(report, time.perf_counter() - began, spent)


def days_of(location: str, shape: Shape, state: Path) -> tuple[Sequence[Day], Day]:
    """Fill a store; return the sweeps of its days, and one more that finds nothing to remove."""
    now = time.time_ns() // 1_000
    fill(location, shape, now=now)
    sweep(location, state, now=now + DAY, always=True)  # the first one asks, and looks at all blobs
    days = [sweep(location, state, now=now + day * DAY) for day in range(2, shape.days + 1)]
    for day in days:
        found = day.report.units
        if found.removed < shape.daily * 0.9:
            raise SystemExit(f"a day removed {found.removed} of {shape.daily} runs")
    return days, sweep(location, state, now=now + shape.days * DAY + HOUR, warm=True)


def show(name: str, shape: Shape, days: Sequence[Day], base: float) -> float:
    """Print the days of one store, and return their middle."""
    seconds = [day.seconds for day in days]
    middle = statistics.median(seconds)
    ratio = middle / (base or middle)
    last = days[-1].report.units
    spread = f"{middle:.3f} ({min(seconds):.3f}-{max(seconds):.3f})"
    say(
        f"| {name} | {shape.total} | {shape.held} | {last.removed} | {sum(last.protected.values())} "
        f"| {spread} | {statistics.median(day.spent.all for day in days):.3f} "
        f"| **{ratio:.2f}** | {DAY_LIMIT} |"
    )
    return middle


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="20000,200000")
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("--days", type=int, default=3)
    arguments = parser.parse_args()
    sizes = [int(runs) for runs in arguments.runs.split(",")]
    shapes = [Shape(total, sizes[0] // 31, arguments.days + 1) for total in sizes]
    header("The daily sweep of our own run store")
    say(
        "| database | runs | set aside | removed | found held | seconds of a day | in the database "
        "| to the first | limit |"
    )
    say("|---" * 9 + "|")
    empty: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for database in arguments.databases.split(","):
            with locations(database, folder) as location:
                base = 0.0
                for shape in shapes:
                    where = location(shape.total)
                    days, last = days_of(where, shape, folder / f"state-{database}-{shape.total}")
                    base = base or statistics.median(day.seconds for day in days)
                    show(database, shape, days, base)
                    empty.append(
                        f"| {database} | {shape.total} | {last.report.units.scanned} "
                        f"| **{last.spent.pages * 1e3:.2f}** | {PAGE_LIMIT} "
                        f"| {last.spent.all * 1e3:.1f} | {last.seconds:.3f} |"
                    )
    say()
    say("| database | runs | keys read | ms of pages | limit | ms of all statements | seconds in all |")
    say("|---" * 7 + "|")
    say("\n".join(empty))


@contextmanager
def locations(database: str, folder: Path) -> Iterator[Callable[[int], str]]:
    """Give what makes a place for a store of so many runs."""
    if database == "sqlite":
        yield lambda total: str(folder / f"runs-{total}.sqlite")
        return
    with Server(durable=True, settings=SETTINGS) as server:
        yield lambda _total: server.create_database().url()


if __name__ == "__main__":
    main()
