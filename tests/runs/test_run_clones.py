"""Stores that are made fast for measurements are stores as the calls make them, only larger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from afterrun.core.times import DAY
from afterrun.runs import RunStore
from afterrun.runs.schema import blobs, runs
from fakes import NOW
from runs.run_clones import EVERYBODY, Cloning, Model, fill_postgres, fill_sqlite, model_of
from runs.runs_kit import LONG_AGO, Home

OLD, KEPT = 4, 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Give the rows that the calls made once."""
    return model_of(tmp_path_factory.mktemp("model"), began=LONG_AGO)


@pytest.fixture
def cloned(empty_home: Home, model: Model) -> Home:
    """Give a store with four repetitions that are old and two that are not."""
    cloning = Cloning(model, old=OLD, kept=KEPT, now=NOW)
    if empty_home.name == "sqlite":
        fill_sqlite(Path(empty_home.location), cloning)
    else:
        fill_postgres(empty_home.location, empty_home.superuser, cloning)
    return empty_home


def _told(store: RunStore, root: str) -> Iterator[object]:
    """Yield what the store tells of a tree, but for ids, times and the end of content, which differ."""
    tree = store.tree(root)
    assert tree is not None
    places = {run.id: place for place, run in enumerate(tree.runs)}
    for run in tree.runs:
        above = None if run.above is None else places[run.above]
        lasted = None if run.ended_at is None else run.ended_at - run.created_at
        yield run.name, run.status, run.reason, run.generation, above, lasted, _head(store.input_of(run.id))
        for step in store.steps.of(run.id):
            yield (
                step.name,
                step.status,
                step.attempt,
                step.attempt_status,
                _head(store.steps.output_of(step)),
            )
        yield list(store.tasks.of(run.id).values()), list(store.approvals.of(run.id).values())
        yield list(store.decisions.of(run.id).values()), _head(store.output_of(run.id))
    yield tree.open, tree.work


def _head(content: bytes | None) -> tuple[object, ...] | None:
    return None if content is None else (content.split()[0][:6], len(content) // 50)


def _roots(home: Home) -> list[str]:
    with home.database() as database, database.reading() as transaction:
        wanted = sa.select(runs.c.id).where(runs.c.id == runs.c.root_id).order_by(runs.c.id)
        return [row[0] for row in transaction.rows(wanted)]


def test_each_repetition_reads_as_what_the_calls_made(cloned: Home, model: Model, tmp_path: Path) -> None:
    """Trees, steps, tasks, questions and content are the same but for ids and times; nothing is broken."""
    made = Home("sqlite", str(tmp_path / "model.sqlite"), tmp_path, "")
    model_of(tmp_path, began=LONG_AGO)
    roots, theirs = _roots(made), _roots(cloned)
    assert (len(roots), len(theirs)) == (model.roots, model.roots * (OLD + KEPT))
    with made.open() as store, cloned.open() as clone:
        expected = [list(_told(store, root)) for root in roots]
        assert [list(_told(clone, root)) for root in theirs] == expected * (OLD + KEPT)
    with cloned.retention() as retention:
        assert list(retention.verify()) == []


def test_content_is_shared_as_it_says(cloned: Home, model: Model) -> None:
    """Each address is that of its content; that of everybody is there once."""
    rows = cloned.rows(blobs)
    assert len({row["address"] for row in rows}) == len(rows) < len(model.rows["blobs"]) * (OLD + KEPT)
    assert sum(bytes(row["content"]).startswith(EVERYBODY) for row in rows) == 1
    assert all(row["size"] == len(row["content"]) for row in rows)


def test_what_is_old_goes_with_its_content_and_what_is_shared_stays(cloned: Home, model: Model) -> None:
    """The plan, the report and the tables agree; the store is whole afterwards, and is used again."""
    report = cloned.prune()
    assert report.units.removed == model.roots * OLD
    assert report.units.members == model.runs * OLD
    with cloned.retention() as retention:
        assert list(retention.verify()) == []
    assert len(_roots(cloned)) == model.roots * KEPT
    assert sum(bytes(row["content"]).startswith(EVERYBODY) for row in cloned.rows(blobs)) == 1
    later = cloned.prune(now=NOW + 40 * DAY)
    assert later.units.removed == model.roots * KEPT
    assert set(cloned.counts()) == {"idempotency_tombstones"}
    with cloned.open() as store:
        assert store.create("again", content=b"new").new
