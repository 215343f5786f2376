from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

import afterrun.runs
from afterrun.core.errors import StoreFailure, StoreUnreadable, UsageError
from afterrun.core.times import SECOND
from afterrun.runs import Attempt, RunError, RunStore, UpgradeNeeded, UpgradeRefused
from runs.runs_kit import Home, running

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text("utf-8")


def _calls(store: RunStore) -> Iterator[str]:
    """Yield the names of all that can be called of a store and its parts."""
    for owner in (store, *(part for name, part in vars(store).items() if name[0] != "_" and part)):
        yield from (name for name in dir(owner) if name[0] != "_" and callable(getattr(owner, name)))


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader who copies it gets a run that completed."""
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "runs.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "completed b'hello, world'\n"


def test_the_effect_of_the_page_happens_once(home: Home, store: RunStore) -> None:
    """Its lines are those of any attempt: after one that got no answer, the next owner waits for a person."""
    [lines] = re.findall(r"```\n(effect = .*?)```", PAGE, re.DOTALL)
    run = running(store)
    paid: list[str] = []

    def pay(_: bytes, *, idempotency_key: str) -> bytes:
        paid.append(idempotency_key)
        raise TimeoutError

    def attempted(attempt: Attempt) -> None:
        lease = store.leases.acquire(run, owner="w", keep_for=timedelta(seconds=1))
        names = {"store": store, "attempt": attempt, "lease": lease, "pay": pay}
        exec(compile(lines, "runs.md", "exec"), names)  # noqa: S102 - our own page

    attempt = store.steps.start(run, "pay")
    with pytest.raises(TimeoutError):
        attempted(attempt)
    home.clock.now += 60 * SECOND
    attempted(attempt)
    assert store.get(run).status == "waiting"
    [effect] = store.effects.unsettled()
    store.effects.settle(effect, applied=True, by="ops", receipt=b"paid")
    store.start(run)
    attempted(attempt)
    assert [store.steps.output_of(step) for step in store.steps.of(run)] == [b"paid"]
    assert paid == [effect.key]


def test_every_call_and_every_error_is_documented(store: RunStore) -> None:
    """What can be called, and what is refused, stands in the page."""
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    errors = {
        name
        for name, part in vars(afterrun.runs).items()
        if isinstance(part, type) and issubclass(part, RunError)
    }
    assert (set(_calls(store)) | errors) <= words


@pytest.mark.parametrize("location", ["", ":memory:", "sqlite://", "mysql://host/db", "no/such://url at all"])
def test_a_place_that_can_hold_no_store_is_refused(location: str) -> None:
    """The message says what a place is."""
    with pytest.raises((UsageError, StoreUnreadable)):
        RunStore.open(location)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    """No folder is made for a store."""
    with pytest.raises(StoreUnreadable, match="there is no folder"):
        RunStore.open(str(tmp_path / "missing" / "runs.sqlite"))


def test_looking_makes_no_file(tmp_path: Path) -> None:
    """Neither a question nor a refusal leaves a database behind."""
    path = tmp_path / "runs.sqlite"
    told = RunStore.pending(str(path))
    assert told is not None
    assert told.before is None
    with pytest.raises(UpgradeNeeded):
        RunStore.open(str(path), migrate=False)
    assert list(tmp_path.iterdir()) == []


def test_tables_of_another_application_are_left_alone(empty_home: Home) -> None:
    """A table that is called as one of ours, in a database that is no run store, is somebody's."""
    with empty_home.database() as database, database.writing() as transaction:
        database.dialect.make_schema(transaction.connection)
        sa.Table("runs", sa.MetaData(), sa.Column("id", sa.Integer())).create(transaction.connection)
    with pytest.raises(UpgradeRefused, match=r"called as ours \(runs\)"):
        empty_home.open()


def test_a_file_that_is_no_database_is_told_without_its_content(tmp_path: Path) -> None:
    """The message has a kind, and nothing of what is in the file."""
    path = tmp_path / "notes.txt"
    path.write_text("my secret notes " * 100, encoding="utf-8")
    with pytest.raises(StoreFailure, match="corrupt") as refused:
        RunStore.open(str(path))
    assert "secret" not in str(refused.value)


def test_a_store_that_stays_locked_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that cannot get the file is told that it is busy, and may try again."""
    if home.name != "sqlite":
        return
    monkeypatch.setattr("afterrun.runs.sqlite.BUSY_SECONDS", 0.0)
    with home.open() as store, closing(sqlite3.connect(home.location, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailure, match="busy"):
            store.create("agent")
        other.execute("ROLLBACK")
        store.create("agent")
