"""A store whose engine leaves hardly a moment for anyone else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun import Retention, SweepOptions
from afterrun.core.errors import StoreFailure, UnitFailure
from afterrun.state import StateDirectory
from afterrun.stores.sql.sqlite import dialect as dialect_module
from crash.aged import MONTH, kept, make_aged, standing
from dumps import dump_sqlite
from engines.stores import ENGINES
from sql_kit import sqlite

pytestmark = pytest.mark.engine


class Busy:
    """A connection that answers the next few statements with SQLITE_BUSY, as after its timeout."""

    def __init__(self, connection: Any, times: int) -> None:  # noqa: ANN401 - stands in for SQLAlchemy's
        self._connection = connection
        self.left = times

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever SQLAlchemy's has
        return getattr(self._connection, name)

    def execute(self, *given: Any) -> Any:  # noqa: ANN401 - passed through
        if self.left:
            self.left -= 1
            cause = sqlite3.OperationalError("database is locked")
            cause.sqlite_errorname = "SQLITE_BUSY"
            raise sa.exc.OperationalError("", {}, cause)
        return self._connection.execute(*given)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a real store in which three trees are expired."""
    path = tmp_path / "store.sqlite"
    make_aged(ENGINES[0], path, "delete")
    return path


@pytest.fixture
def retention(store: Path) -> Iterator[Retention]:
    """Open the store."""
    with Retention(str(store), state=store.parent / "state") as opened:
        yield opened


@contextmanager
def busy(retention: Retention, times: int) -> Iterator[Busy]:
    """Put a busy connection in the place of the real one."""
    dialect = sqlite(retention.store)
    real = dialect._connection
    wrapped = Busy(real, times)
    dialect._connection = wrapped  # type: ignore[assignment]
    yield wrapped
    dialect._connection = real


def test_read_waits_as_long_as_the_write_lock_does(retention: Retention) -> None:
    """Five busy timeouts in a row end no plan: a saturated engine leaves a reader only moments."""
    with busy(retention, dialect_module.BEGIN_TRIES - 1) as connection:
        assert retention.plan(MONTH).units.expired == 3
        assert connection.left == 0


def test_read_that_never_gets_through_says_that_the_store_is_busy(retention: Retention) -> None:
    """After 30 s it is the store's failure, not a unit's."""
    with busy(retention, dialect_module.BEGIN_TRIES) as connection:
        with pytest.raises(StoreFailure, match="another process") as caught:
            retention.plan(MONTH)
        assert (caught.value.kind, connection.left) == ("busy", 0)


def test_statement_within_a_batch_is_not_tried_again(retention: Retention) -> None:
    """There the lock is held: waiting longer would keep the engine out, so the batch is rolled back."""
    dialect = sqlite(retention.store)
    with pytest.raises(UnitFailure) as caught, dialect.locked(5.0), busy(retention, 1):
        dialect.execute(sa.text("SELECT 1"))
    assert caught.value.kind == "lock"


def test_sweep_that_fails_on_a_locked_store_is_on_record(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes nothing, says why, and leaves a record, although nothing can be measured (promise 12)."""
    monkeypatch.setattr(dialect_module, "BUSY_MS", 1)
    before, state = dump_sqlite(store), store.parent / "state"
    with closing(sqlite3.connect(store, isolation_level=None)) as engine:

        def lock() -> bool:
            engine.execute("BEGIN EXCLUSIVE")
            return True

        with Retention(str(store), state=state) as retention:
            report = retention.prune(MONTH, options=SweepOptions(gate=lock))
        engine.execute("COMMIT")
    assert (report.ended, report.units.removed) == ("failed", 0)
    assert "busy" in report.message
    assert report.file_before == report.file_after
    record = StateDirectory(state).load(f"sqlite:{store.resolve()}").records[-1]
    assert (record.command, record.ended) == ("prune", "failed")
    assert standing(dump_sqlite(store), before) == [True] * 3
    assert kept(dump_sqlite(store)) == kept(before)
