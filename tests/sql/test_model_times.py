"""End times in every spelling, and pages over them: nothing is older than it says, and none is missed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun import Budget, Policy, SweepOptions
from afterrun.core.facts import UNREADABLE, Scalar
from afterrun.core.store import Cursor
from afterrun.core.times import to_instant
from afterrun.profiles.registry import TimeFormat
from afterrun.stores.sql import candidates
from afterrun.stores.sql.sqlite.dialect import SQLite
from own_store import PLAIN, OwnStore, own_store
from sql_kit import FAR, pages, rows, sqlite, traced

NOON = to_instant(datetime(2026, 1, 1, 12, tzinfo=UTC))
SECOND = 1_000_000
TEXT_TREE = PLAIN.replace('format = "epoch_ms"', 'format = "text_utc"')


@pytest.fixture
def dialect(tmp_path: Path) -> Iterator[SQLite]:
    """Open some database, for its expressions."""
    path = tmp_path / "any.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    opened = SQLite(path, writable=True)
    yield opened
    opened.close()


def read(dialect: SQLite, value: Scalar, spelling: TimeFormat) -> int | None:
    """Return what the dialect makes of one stored value."""
    statement = sa.select(dialect.instant(sa.literal_column("x"), spelling)).select_from(sa.table("t"))
    driver = dialect._driver
    driver.execute("DELETE FROM t")
    driver.execute("INSERT INTO t VALUES (?)", (value,))
    found = dialect.execute(statement)[0][0]
    return None if found is None else int(found)


@pytest.mark.parametrize(
    ("text", "after_noon"),
    [
        ("2026-01-01T12:00:00", 0.0),
        ("2026-01-01 12:00:00", 0.0),
        ("2026-01-01T12:00:00Z", 0.0),
        ("2026-01-01 12:00:00Z", 0.0),
        ("2026-01-01T12:00:00z", 0.0),
        ("2026-01-01T12:00:00+00:00", 0.0),
        ("2026-01-01T14:00:00+02:00", 0.0),
        ("2026-01-01 06:30:00-05:30", 0.0),
        ("2026-01-02T01:00:00+13:00", 0.0),
        ("2026-01-01T12:00:00.5", 0.5),
        ("2026-01-01T12:00:00.123", 0.123),
        ("2026-01-01 12:00:00.123456", 0.123456),
        ("2026-01-01T12:00:00.123456789Z", 0.123456789),
        ("2026-01-01T12:00:59.999999", 59.999999),
        ("2026-01-01T12:00:12.9996Z", 12.9996),
        ("2026-01-01T14:00:00.000001+02:00", 0.000001),
    ],
)
def test_a_text_is_the_instant_it_spells(dialect: SQLite, text: str, after_noon: float) -> None:
    """ISO 8601 with T or space, fraction, Z or offset: read to a millisecond, and never as older."""
    found = read(dialect, text, "text_utc")
    exact = NOON + after_noon * SECOND
    assert found is not None
    assert exact <= found < exact + 2_000


@pytest.mark.parametrize(
    "value",
    [
        *("", "now", "12:00", "12:00:00", "2026-01-01", "2026-01-01T12:00", "20260101T120000", "2026-001"),
        *("2026-13-01 00:00:00", "2026-02-30 00:00:00", "2025-02-29T00:00:00", "2026-01-32 00:00:00"),
        *("2026-01-01 25:00:00", "2026-01-01 12:60:00", "2026-01-01 12:00:60", "1999-12-31 23:59:59"),
        *("2026-01-01 12:00:00 UTC", "2026-01-01 12:00:00+0200", "2026-01-01 12:00:00+99:00"),
        *("2026-01-01 12:00:00 +1 day", "2026-01-01 12:00:00garbage", "+2026-01-01 12:00:00"),
        *(" 2026-01-01 12:00:00", "2026/01/01 12:00:00", "01.01.2026 12:00:00", "2461042.0", "1767268800"),
        *("2026-01-01\u00a012:00:00", "\uff12026-01-01 12:00:00", "12026-01-01 12:00:00"),
        *(1_767_268_800, 1_767_268_800_000, 2_461_042.0, b"2026-01-01 12:00:00"),
    ],
)
def test_a_text_that_spells_no_instant_is_unreadable(dialect: SQLite, value: Scalar) -> None:
    """Promise 3: what SQLite itself would take for a time, such as `now`, is none."""
    assert read(dialect, value, "text_utc") == UNREADABLE


def test_random_texts_are_never_read_as_older(dialect: SQLite) -> None:
    """Fractions of any length and zones of any quarter of an hour agree with Python's own reading."""
    chance = random.Random(1)
    for _ in range(300):
        moment = datetime(2000, 1, 2, tzinfo=UTC) + timedelta(microseconds=chance.randrange(3 * 10**15))
        zone = timedelta(minutes=15 * chance.randrange(-48, 57))
        local = (moment + zone).replace(tzinfo=None)
        hours, minutes = divmod(abs(zone) // timedelta(minutes=1), 60)
        sign = "-" if zone < timedelta() else "+"
        spelt = local.isoformat(sep=chance.choice(" T"), timespec="microseconds")
        text = f"{spelt}{sign}{hours:02}:{minutes:02}"
        found = read(dialect, text, "text_utc")
        assert found is not None
        assert 0 <= found - to_instant(moment) < 2_000, text


@pytest.mark.parametrize(("spelling", "scale"), [("epoch_s", SECOND), ("epoch_ms", 1_000), ("epoch_us", 1)])
def test_numbers_are_instants_from_the_year_2000_on(
    dialect: SQLite, spelling: TimeFormat, scale: int
) -> None:
    """Seconds, milliseconds and microseconds; an earlier number is most likely in another unit."""
    first = 946_684_800 * SECOND // scale
    assert read(dialect, first, spelling) == 946_684_800 * SECOND
    assert read(dialect, NOON // scale, spelling) == NOON
    assert read(dialect, None, spelling) is None
    for value in (first - 1, 0, -first, str(NOON // scale), b"1", "", "abc", float("-inf")):
        assert read(dialect, value, spelling) == UNREADABLE, value
    assert read(dialect, NOON / scale + 0.5, spelling) == NOON + scale // 2


@pytest.mark.parametrize("value", [float("inf"), 2**63 - 1, 1e300])
def test_a_huge_number_is_a_far_future(dialect: SQLite, value: float) -> None:
    """No number overflows into the past."""
    assert read(dialect, value, "epoch_s") == 253_402_300_799 * SECOND


# Around the cutoff, on one day


def text_store(folder: Path, texts: dict[str, str], *, index: bool) -> OwnStore:
    """Make a store of runs that ended at these texts."""
    values = ", ".join(f"('{run}', 'done', '{text}', NULL)" for run, text in texts.items())
    indexed = "CREATE INDEX runs_ended ON runs (ended);" if index else ""
    return own_store(
        folder,
        f"CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended DATETIME, parent TEXT); {indexed}"
        f"INSERT INTO runs VALUES {values};",
        TEXT_TREE,
    )


@pytest.mark.parametrize("index", [True, False], ids=["indexed", "unindexed"])
def test_texts_of_one_day_are_compared_as_instants(tmp_path: Path, index: bool) -> None:
    """B35: a space sorts before T, and offsets before both; only what truly ended earlier goes."""
    texts = {
        "before-t": "2026-01-01T11:59:59",
        "before-space": "2026-01-01 11:59:59",
        "before-fraction": "2026-01-01 11:59:59.998",
        "before-zulu": "2026-01-01T11:59:59Z",
        "before-east": "2026-01-02T00:59:59+13:00",
        "before-west": "2026-01-01T00:59:59-11:00",
        "after-t": "2026-01-01T12:00:00",
        "after-space": "2026-01-01 12:00:00",
        "after-fraction": "2026-01-01 12:00:00.001",
        "after-zulu": "2026-01-01T12:00:00Z",
        "after-east": "2026-01-02T01:00:00+13:00",
        "after-west": "2026-01-01T01:00:00-11:00",
        "word": "now",
        "clock": "12:00",
        "date": "2026-01-01",
        "no-day": "2026-02-30T00:00:00",
        "empty": "",
    }
    store = text_store(tmp_path, texts, index=index)
    policy = Policy(before=datetime(2026, 1, 1, 12, tzinfo=UTC))
    found = store.verdicts(*texts, policy=policy)
    assert {run for run, words in found.items() if words == "expired"} == {
        run for run in texts if run.startswith("before")
    }
    assert {run for run, words in found.items() if words == "recent before"} == {
        run for run in texts if run.startswith("after")
    }
    report = store.plan(policy)
    assert (report.units.expired, report.units.recent) == (6, 6)
    assert report.units.blocked == {"unreadable-end-time": 5}
    assert store.prune(policy).units.removed == 6
    assert store.left() == sorted(run for run in texts if not run.startswith("before"))


SPELLINGS = {
    "t": "T{0}",
    "space": " {0}",
    "fraction": " {0}.000",
    "zulu": "T{0}Z",
    "offset": "T{0}+00:00",
    "early": " {0}.000000Z",
}
"""Six ways in which an engine may write a moment of a day."""


@pytest.mark.parametrize("index", [True, False], ids=["indexed", "unindexed"])
def test_periods_and_caps_take_texts_as_instants(tmp_path: Path, index: bool) -> None:
    """B35: in six spellings around midnight, the day is that of the instant, and so is the place in a cap."""
    texts = {
        f"{name}-{place}": f"2025-12-{day:02}{spelling.format(clock)}"
        for day, (name, spelling) in enumerate(SPELLINGS.items(), start=10)
        for place, clock in (("first", "00:00:00"), ("last", "23:59:59"))
    }
    texts |= {"east": "2025-12-21T00:30:00+13:00", "west": "2025-12-20T23:59:58-11:00"}
    store = text_store(tmp_path, texts, index=index)
    days = store.verdicts(*texts, policy=Policy(keep_daily=30))
    kept = {run for run, words in days.items() if words == "recent keep-daily"}
    assert kept == {*(f"{name}-last" for name in SPELLINGS), "east", "west"}
    capped = store.verdicts(*texts, policy=Policy(cap_units=3))
    assert {run for run, words in capped.items() if words == "recent within-cap"} == {
        *("early-last", "east", "west")
    }
    assert store.prune(Policy(cap_units=3)).units.removed == len(texts) - 3


# Pages


def end_store(
    folder: Path, script: str, tree: str = PLAIN, *, columns: str = "", options: str = ""
) -> OwnStore:
    """Make a store of runs that only have an end."""
    return own_store(
        folder,
        f"""
        CREATE TABLE runs (id INTEGER PRIMARY KEY, status TEXT, ended INTEGER, other INTEGER{columns})
        {options};
        {script}
        """,
        tree,
    )


SAME = 1_600_000_000_000
MANY = f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO runs (id, status, ended) SELECT i, CASE i % 3 WHEN 0 THEN 'running' ELSE 'done' END,
    {SAME} FROM n;
"""
INDEX = "CREATE INDEX runs_ended ON runs (ended);"
SHAPES = {
    "rowid": {"columns": "", "options": ""},
    "no rowid": {"columns": "", "options": " WITHOUT ROWID"},
    "a column named rowid": {"columns": ", rowid TEXT", "options": ""},
    "rowid by all its names taken": {"columns": ", rowid TEXT, _rowid_ TEXT, oid TEXT", "options": ""},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("index", [INDEX, ""], ids=["indexed", "unindexed"])
def test_runs_that_ended_at_the_same_time_come_once_each(tmp_path: Path, shape: str, index: str) -> None:
    """20,000 equal end times in pages of 700: none is missed, none comes twice, the cursor always grows."""
    store = end_store(tmp_path, MANY + index, **SHAPES[shape]).open()
    read = [key for page in pages(store, stream=0, cutoff=FAR, limit=700) for key in page]
    store.close()
    assert read == [key for key in range(1, 20_001) if key % 3]


def test_pages_of_equal_times_cost_the_same_each(tmp_path: Path) -> None:
    """The work of a page does not grow with the number of runs that ended at the same time before it."""
    store = end_store(tmp_path, MANY + INDEX).open()
    steps: list[int] = []
    cursor: Cursor | None = Cursor(0)

    def count() -> int:
        steps[-1] += 1
        return 0

    sqlite(store)._driver.set_progress_handler(count, 100)
    while cursor is not None:
        steps.append(0)
        cursor = store.candidates.page(cursor, cutoff=FAR, limit=1_000).cursor
    store.close()
    assert len(steps) == 21
    assert max(steps[:-1]) < 1.5 * steps[0]


def test_an_unindexed_end_is_read_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One scan serves many pages: 20,000 runs in windows of 5,000 and pages of 700 take few statements."""
    monkeypatch.setattr(candidates, "WINDOW", 5_000)
    store = end_store(tmp_path, MANY).open()
    with traced(store) as seen:
        read = [key for page in pages(store, stream=0, cutoff=FAR, limit=700) for key in page]
    store.close()
    assert read == [key for key in range(1, 20_001) if key % 3]
    assert len(seen) <= 8  # three windows of ended runs, each of ties and later ones


@pytest.mark.parametrize("index", [INDEX, ""], ids=["indexed", "unindexed"])
def test_raw_keys_are_counted_and_passed_and_the_cursor_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """Promise 6: children and live runs in front of a root use up pages and never hold one back."""
    monkeypatch.setattr(candidates, "WINDOW", 50)
    script = f"""
    CREATE INDEX runs_parent ON runs (parent);
    INSERT INTO runs VALUES (1, 'running', NULL, NULL, NULL);
    WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
    INSERT INTO runs SELECT i, 'done', {SAME} + i / 7, NULL, 1 FROM n;
    INSERT INTO runs VALUES (900, 'done', {SAME} + 999, NULL, NULL);
    """
    tree = PLAIN + 'edges = [{ column = "parent" }]\n'
    own = end_store(tmp_path, script + index, tree, columns=", parent INTEGER")
    store = own.open()
    cursor: Cursor | None = Cursor(0)
    scanned, roots, places = 0, [], []
    while cursor is not None:
        page = store.page(cursor, cutoff=FAR, limit=20)
        scanned += page.scanned
        roots += [unit.key for unit in page.units]
        cursor = page.cursor
        places += [(cursor.end, cursor.tie)] if cursor else []
    store.close()
    assert (scanned, roots) == (500, [900])
    assert places == sorted(set(places))
    own.prune()
    assert len(own.left()) == 500


@pytest.mark.parametrize("shape", SHAPES)
def test_a_removal_in_between_moves_no_page(tmp_path: Path, shape: str) -> None:
    """A real removal deletes behind its cursor; all that expired is gone after one pass."""
    own = end_store(tmp_path, MANY + INDEX, **SHAPES[shape])
    assert own.prune().units.removed == 13_334
    assert rows(own.path, "SELECT count(*), sum(id % 3) FROM runs") == [(6_666, 0)]


def test_a_cut_off_sweep_goes_on_at_its_cursor(tmp_path: Path) -> None:
    """Promise 6: sweeps of 1,000 units each see all of 20,000 equal end times in turn."""
    own = end_store(tmp_path, MANY + INDEX)
    options = SweepOptions(offline=True, budget=Budget(units=3_000))
    removed = []
    for _ in range(6):
        with own.retention() as retention:
            report = retention.sweep(Policy(keep_for=timedelta(days=1)), options=options, always=True)
        removed.append((report.ended, report.units.removed))
    assert removed == [*[("budget", 3_000)] * 4, ("completed", 1_334), ("completed", 0)]


def test_a_second_source_serves_runs_without_the_first(tmp_path: Path) -> None:
    """The first source that is set decides, readable or not; each run comes in one stream."""
    tree = PLAIN.replace(
        'format = "epoch_ms" }]',
        'format = "epoch_ms" }, { column = "other", format = "epoch_s", rare = true }]',
    )
    script = f"""
    INSERT INTO runs VALUES (1, 'done', {SAME}, 1), (2, 'done', NULL, {SAME // 1000}), (3, 'done', NULL,
        NULL),
        (4, 'done', 'soon', {SAME // 1000}), (5, 'done', NULL, 'soon'), (6, 'running', NULL, {SAME // 1000}),
        (7, 'done', {SAME}, 'x');
    """
    own = end_store(tmp_path, script + INDEX, tree)
    assert own.verdicts(*"1234567") == {
        "1": "expired",
        "2": "expired",
        "3": "blocked unknown-end-time",
        "4": "blocked unreadable-end-time",
        "5": "blocked unreadable-end-time",
        "6": "protected live-member",
        "7": "expired",
    }
    own.prune()
    assert own.left() == [3, 4, 5, 6]


def test_a_text_that_is_no_utf8_holds_up_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end whose bytes are no text is unreadable, and the cursor passes it even where a page ends there."""
    values = ", ".join(f"('{i}', 'done', CAST(x'31{i:02x}ff' AS TEXT), NULL)" for i in range(20))
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended TEXT, parent TEXT) WITHOUT ROWID;
    {INDEX}
    INSERT INTO runs VALUES {values}, (CAST(x'61ff' AS TEXT), 'done', '2020-01-01 00:00:00', NULL),
        ('b', 'done', '2020-01-01 00:00:00', NULL), (x'00ff', 'done', '2020-01-01 00:00:00', NULL),
        ('c', 'done', '2020-01-01 00:00:01', NULL);
    """
    own = own_store(tmp_path, script, TEXT_TREE)
    for limit in (1, 2, 3):
        store = own.open()
        assert sum(len(page) for page in pages(store, stream=0, cutoff=FAR, limit=limit)) == 24
        store.close()
    own.prune()
    assert rows(own.path, "SELECT count(*) FROM runs") == [(22,)]
    assert rows(own.path, "SELECT count(*) FROM runs WHERE id IN ('b', 'c')") == [(0,)]
