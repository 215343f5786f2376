"""SQLite's own behaviour, caused for real: errors, locks, deadlines, hints, and what messages may say."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun.core.errors import MESSAGE_LIMIT, AfterrunError, StoreFailure, UnitFailure
from afterrun.stores.sql.sqlite import dialect as module
from afterrun.stores.sql.sqlite.dialect import SQLite
from sql_kit import make, rows

SECRET = "hunter2-sk-4711"  # noqa: S105 - stands for a value that no message may show
SCHEMA = f"""
CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT UNIQUE, y INTEGER CHECK (y < 100));
CREATE TABLE child (t INTEGER REFERENCES t(id));
CREATE TABLE later (t INTEGER REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE guarded (x TEXT); CREATE TABLE rolled (x TEXT);
CREATE TRIGGER no BEFORE DELETE ON guarded BEGIN SELECT RAISE(ABORT, '{SECRET}'); END;
CREATE TRIGGER back BEFORE DELETE ON rolled BEGIN SELECT RAISE(ROLLBACK, '{SECRET}'); END;
INSERT INTO t VALUES (1, '{SECRET}', 1), (2, 'two', 2), (3, 'three', 3);
INSERT INTO child VALUES (1); INSERT INTO later VALUES (2); INSERT INTO guarded VALUES ('{SECRET}');
INSERT INTO rolled VALUES ('{SECRET}');
"""
LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
"""A statement that does not end by itself."""

Open = Callable[..., SQLite]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a small database."""
    return make(tmp_path / "store.sqlite", SCHEMA)


@pytest.fixture
def opened(path: Path) -> Iterator[SQLite]:
    """Open it for removal."""
    dialect = SQLite(path, writable=True)
    yield dialect
    dialect.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits for locks be short."""
    monkeypatch.setattr(module, "BUSY_MS", 1)
    monkeypatch.setattr(module, "BEGIN_TRIES", 3)


def change(dialect: SQLite, statement: str, **values: object) -> int:
    """Run a statement that changes rows."""
    return dialect.change(sa.text(statement), values)


def batch(
    dialect: SQLite, *statements: str, seconds: float = 5, then: type[BaseException] | None = None
) -> None:
    """Run a batch of statements, and raise an exception at its end if one is given."""
    with dialect.locked(seconds):
        for statement in statements:
            change(dialect, statement, **({"secret": SECRET} if ":secret" in statement else {}))
        if then:
            raise then


FAULTS = {
    "unique": ("INSERT INTO t VALUES (9, :secret, 1)", UnitFailure, "constraint"),
    "check": ("UPDATE t SET y = 100, x = :secret WHERE id = 1", UnitFailure, "constraint"),
    "foreign key": ("DELETE FROM t WHERE x = :secret", UnitFailure, "constraint"),
    "trigger": ("DELETE FROM guarded WHERE x = :secret", UnitFailure, "trigger"),
    "trigger that rolls back": ("DELETE FROM rolled WHERE x = :secret", UnitFailure, "trigger"),
    "no such table": ("DELETE FROM gone WHERE x = :secret", StoreFailure, "schema-changed"),
    "no such column": ("DELETE FROM t WHERE gone = :secret", StoreFailure, "schema-changed"),
    "malformed": ("DELETE FROM t WHERE x IN (SELECT value FROM json_each(:secret))", StoreFailure, None),
    "too large": ("DELETE FROM t WHERE x = zeroblob(3000000000) || :secret", StoreFailure, None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_real_error_is_told_by_its_kind_and_holds_no_value(opened: SQLite, path: Path, fault: str) -> None:
    """Promise 12: each error is a unit's or the store's, rolls the batch back, and shows no data."""
    statement, family, kind = FAULTS[fault]
    with pytest.raises(AfterrunError) as caught:
        batch(opened, "UPDATE t SET y = 50 WHERE id = 3", statement)
    assert type(caught.value) is family
    assert kind in (None, getattr(caught.value, "kind", ""))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert len(str(caught.value)) <= MESSAGE_LIMIT
    assert rows(path, "SELECT y FROM t WHERE id = 3") == [(3,)]
    with opened.locked(5):
        assert change(opened, "UPDATE t SET y = 4 WHERE id = 3") == 1
    assert rows(path, "SELECT y FROM t WHERE id = 3") == [(4,)]


def test_no_cause_of_an_error_carries_the_statement_or_its_values(opened: SQLite) -> None:
    """Whoever prints a whole traceback prints no value: the database's own error is cut off."""
    with pytest.raises(UnitFailure) as caught:
        change(opened, "INSERT INTO t VALUES (9, :x, 1)", x=SECRET)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert SECRET not in str(caught.value.__context__)
    assert "hidden" in str(caught.value.__context__)


def test_a_foreign_key_that_is_checked_at_the_end_fails_the_commit(opened: SQLite, path: Path) -> None:
    """An error of COMMIT itself is a unit's, and rolls back."""
    with pytest.raises(UnitFailure, match="constraint"), opened.locked(5):
        assert change(opened, "DELETE FROM t WHERE id = 2") == 1
    assert rows(path, "SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_any_exception_rolls_back_and_goes_on_as_it_is(
    opened: SQLite, path: Path, error: type[BaseException]
) -> None:
    """Promise 4: an interrupted batch is undone, and nothing masks what interrupted it."""
    with pytest.raises(error):
        batch(opened, "DELETE FROM t WHERE id = 3", then=error)
    assert rows(path, "SELECT count(*) FROM t") == [(3,)]


def test_a_failing_rollback_does_not_mask_the_first_error(opened: SQLite) -> None:
    """What went wrong first is what is told."""

    def lose_the_connection() -> None:
        with opened.locked(5):
            opened.close()
            raise KeyError

    with pytest.raises(KeyError):
        lose_the_connection()


def test_a_full_disk_is_the_stores_failure(opened: SQLite, path: Path) -> None:
    """A batch that does not fit is undone and the store still opens."""
    pages = opened.execute(sa.text("PRAGMA page_count"))[0][0]
    opened.execute(sa.text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreFailure, match="disk-full") as caught, opened.locked(5):
        change(opened, "UPDATE t SET x = x || :more WHERE id = 3", more="x" * 1_000_000)
    assert caught.value.kind == "disk-full"
    assert rows(path, "SELECT x FROM t WHERE id = 3") == [("three",)]
    assert list(opened.problems()) == []


def test_a_store_that_was_opened_for_looking_cannot_be_changed(path: Path) -> None:
    """Without the wish to remove, the connection itself refuses to write."""
    dialect = SQLite(path, writable=False)
    with pytest.raises(StoreFailure, match="read-only"), dialect.locked(5):
        change(dialect, "DELETE FROM t WHERE id = 3")
    dialect.close()
    assert rows(path, "SELECT count(*) FROM t") == [(3,)]


def test_a_damaged_page_is_the_stores_failure(tmp_path: Path) -> None:
    """Reading a page of noise ends the sweep, and verify tells of it."""
    path = make(
        tmp_path / "store.sqlite",
        """CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        INSERT INTO t SELECT i, hex(randomblob(50)) FROM n;""",
    )
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xff" * 4096)
    dialect = SQLite(path, writable=True)
    with pytest.raises(StoreFailure, match="corrupt") as caught:
        dialect.execute(sa.text("SELECT count(x) FROM t"))
    assert caught.value.kind == "corrupt"
    assert any(line.startswith("integrity: ") for line in dialect.problems())
    dialect.close()


def test_tables_that_were_changed_meanwhile_end_the_sweep(opened: SQLite, path: Path) -> None:
    """Statements made for other tables are not run on the new ones."""
    make(path, "CREATE TRIGGER new AFTER DELETE ON t BEGIN DELETE FROM child; END")
    with pytest.raises(StoreFailure, match="schema-changed"), opened.locked(5):
        change(opened, "DELETE FROM t WHERE id = 3")
    assert rows(path, "SELECT count(*) FROM t") == [(3,)]


def test_a_new_index_does_not_end_the_sweep(opened: SQLite, path: Path) -> None:
    """A change that alters no table or trigger is none."""
    make(path, "CREATE INDEX new ON t (y)")
    with opened.locked(5):
        assert change(opened, "DELETE FROM t WHERE id = 3") == 1


# Deadlines


def test_a_batch_past_its_deadline_is_stopped_and_undone(opened: SQLite, path: Path) -> None:
    """Promise 6: a statement that runs on is interrupted, the batch leaves nothing, the next one works."""
    with pytest.raises(UnitFailure, match="timeout") as caught:
        batch(opened, "DELETE FROM t WHERE id = 3", LONG, seconds=0.05)
    assert caught.value.kind == "timeout"
    assert rows(path, "SELECT count(*) FROM t") == [(3,)]
    with opened.locked(60):
        change(opened, "DELETE FROM t WHERE id = 3")
    assert rows(path, "SELECT count(*) FROM t") == [(2,)]


def test_a_deadline_ends_with_its_batch(opened: SQLite) -> None:
    """What is read outside a batch has no deadline left from it."""
    with pytest.raises(UnitFailure), opened.locked(0):
        opened.execute(sa.text(LONG))
    count = sa.text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
        "SELECT count(*) FROM n"
    )
    assert opened.execute(count)[0][0] == 50_000


# Locks


def test_the_write_lock_is_waited_for(impatient: None, path: Path) -> None:
    """Another writer that lets go in time is only waited for."""
    dialect = SQLite(path, writable=True)
    asked: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def release(statement: str) -> None:
            asked.append(statement)
            if asked.count("BEGIN IMMEDIATE") == 3 and other.in_transaction:
                other.execute("COMMIT")

        dialect._driver.set_trace_callback(release)
        with dialect.locked(5):
            change(dialect, "DELETE FROM t WHERE id = 3")
    dialect.close()
    assert asked.count("BEGIN IMMEDIATE") == 3
    assert rows(path, "SELECT count(*) FROM t") == [(2,)]


def test_a_lock_that_is_never_free_is_the_stores_failure(impatient: None, path: Path) -> None:
    """After all tries the store counts as busy, and nothing was changed or left locked."""
    dialect = SQLite(path, writable=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailure) as caught, dialect.locked(5):
            raise AssertionError("the lock was had")
        other.execute("COMMIT")
    assert caught.value.kind == "busy"
    with dialect.locked(5):
        assert change(dialect, "DELETE FROM t WHERE id = 3") == 1
    dialect.close()


def test_a_reader_that_keeps_a_batch_from_committing_costs_that_batch(impatient: None, path: Path) -> None:
    """With a rollback journal a reader blocks COMMIT: the batch is undone, and can be tried again."""
    dialect = SQLite(path, writable=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchone()
        with pytest.raises(UnitFailure) as caught, dialect.locked(5):
            change(dialect, "DELETE FROM t WHERE id = 3")
        assert caught.value.kind == "lock"
        other.execute("COMMIT")
    with dialect.locked(5):
        change(dialect, "DELETE FROM t WHERE id = 3")
    dialect.close()
    assert rows(path, "SELECT count(*) FROM t") == [(2,)]


def test_a_read_leaves_no_lock(opened: SQLite, path: Path) -> None:
    """The engine can commit right after any read of ours, though our connection stays open."""
    opened.execute(sa.text("SELECT * FROM t"))
    opened.sizes()
    list(opened.problems())
    with closing(sqlite3.connect(path, timeout=0)) as other, other:
        other.execute("DELETE FROM t WHERE id = 3")


# Hints and indexes

SPARSE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, parent INTEGER, "100%" INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO t SELECT i, CASE WHEN i < 5 THEN 1 END, i FROM n;
CREATE INDEX "by ""parent"" 100% %(name)s" ON t (parent);
CREATE INDEX "by percent" ON t ("100%");
ANALYZE;
"""


def test_a_hint_makes_a_statement_use_its_index(tmp_path: Path) -> None:
    """Statistics call an index that is mostly NULL useless; the hint is there, whatever its name."""
    dialect = SQLite(make(tmp_path / "store.sqlite", SPARSE), writable=True)
    table = sa.table("t", sa.column("id"), sa.column("parent")).alias("u")
    (index, _) = sorted(dialect.indexes("t"), key=lambda index: index.name)
    statement = sa.select(table.c.id).where(dialect.keys_in(table.c.parent))
    hinted = dialect.hint(statement, table, index.name)
    assert 'INDEXED BY "by ""parent"" 100% %(name)s"' in dialect.sql(hinted)
    assert dialect.explain(hinted, {})[0].startswith("SEARCH u USING")
    assert [row[0] for row in dialect.execute(hinted, {"keys": "[1]"})] == [1, 2, 3, 4]
    assert dialect.sql(dialect.hint(statement, table, None)) == dialect.sql(statement)
    dialect.close()


def test_indexes_are_listed_if_they_find_every_value(tmp_path: Path) -> None:
    """Left out are indexes on an expression, in another collation, or on some rows only."""
    dialect = SQLite(
        make(
            tmp_path / "store.sqlite",
            """CREATE TABLE t (a TEXT UNIQUE, b TEXT COLLATE NOCASE, c INTEGER, d INTEGER, PRIMARY KEY (a, c))
            WITHOUT ROWID;
            CREATE INDEX two ON t (b, c);
            CREATE INDEX half ON t (c) WHERE a = 'x'; CREATE INDEX sum ON t (c + 1);
            CREATE INDEX other ON t (b COLLATE BINARY); CREATE INDEX set_ ON t (d) WHERE d IS NOT NULL;
            CREATE UNIQUE INDEX mixed ON t (b, c + 1);""",
        ),
        writable=False,
    )
    found = {index.columns: index.unique for index in dialect.indexes("t")}
    dialect.close()
    assert found == {("b", "c"): False, ("d",): False, ("a",): True, ("a", "c"): True, ("b", ""): True}


# Values


def test_text_that_is_no_utf8_is_read_and_bound_again_exactly(tmp_path: Path) -> None:
    """Bytes that are no text become lone surrogates, and go back as the bytes they were."""
    path = make(
        tmp_path / "store.sqlite",
        "CREATE TABLE t (x TEXT); INSERT INTO t VALUES (CAST(x'61ff62' AS TEXT)), (CAST(x'61fe' AS TEXT)),"
        "('ä'), (x'61ff62')",
    )
    dialect = SQLite(path, writable=False)
    column: sa.ColumnClause[object] = sa.column("x")
    found = [row[0] for row in dialect.execute(sa.select(column).select_from(sa.table("t")))]
    assert found == ["a\udcffb", "a\udcfe", "\u00e4", b"a\xffb"]
    for value in found:
        same = (
            sa.select(sa.func.count())
            .select_from(sa.table("t"))
            .where(column == dialect.parameter("v", value))
        )
        assert dialect.execute(same, {"v": dialect.bind(value)})[0][0] == 1
    dialect.close()


def test_keys_are_one_parameter_whatever_their_number(opened: SQLite) -> None:
    """100,000 keys, hostile ones among them, go in one statement."""
    column: sa.ColumnClause[object] = sa.column("x")
    statement = sa.select(column).select_from(sa.table("t")).where(opened.keys_in(column))
    keys = [*(f"key-{i}" for i in range(100_000)), "two", "'); DROP TABLE t; --", '"]', "\U0001f980", "\\"]
    assert [row[0] for row in opened.execute(statement, {"keys": opened.bind_keys(keys)})] == ["two"]


def test_content_is_measured_in_bytes(tmp_path: Path) -> None:
    """Text counts in UTF-8, blobs as they are, numbers as their digits, NULL as nothing."""
    path = make(
        tmp_path / "store.sqlite",
        "CREATE TABLE t (a, b); INSERT INTO t VALUES ('ä', x'000102'), (1234, NULL), (NULL, NULL),"
        "('a' || char(0) || 'b', '')",
    )
    dialect = SQLite(path, writable=False)
    length = dialect.length([sa.column("a"), sa.column("b")])
    assert [row[0] for row in dialect.execute(sa.select(length).select_from(sa.table("t")))] == [5, 4, 0, 3]
    dialect.close()
