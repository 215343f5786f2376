"""Idempotency keys in a column of their own: which units hold one, and for how long that counts."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import FOREVER, MatchRule, Policy
from own_store import OLD, PLAIN, OwnStore, own_store
from pg_server import Database
from postgres.pg_own_store import OwnPgStore

NOW_MS = time.time_ns() // 1_000_000
DAY_MS = 86_400_000
KEYED = f"""{PLAIN}
edges = [{{ column = "parent" }}]
missing = "root"
group = ["kind"]
idempotency_key = "request"
"""
WEEK = timedelta(days=7)


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store of runs of which some hold a key; all but one are old."""
    rows = [
        f"('plain', 'done', {OLD}, NULL, NULL, 5)",
        f"('empty', 'done', {OLD}, NULL, '', 5)",
        f"('keyed', 'done', {OLD}, NULL, 'a', 5)",
        f"('parent', 'done', {OLD}, NULL, NULL, 5)",
        f"('keyed-child', 'done', {OLD}, 'parent', 'b', 5)",
        f"('young', 'done', {NOW_MS - 3 * DAY_MS}, NULL, 'c', 5)",
    ]
    return own_store(
        tmp_path,
        "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT, request TEXT, kind)"
        ";"
        "CREATE INDEX runs_ended ON runs (ended);"
        f"INSERT INTO runs VALUES {', '.join(rows)};",
        KEYED,
    )


def test_any_member_that_holds_a_key_protects_its_unit(store: OwnStore) -> None:
    """An empty text is a key as any other; NULL is none."""
    policy = Policy(keep_for=timedelta(days=1), keep_keys=FOREVER)
    assert store.verdicts("plain", "empty", "keyed", "parent", "keyed-child", "young", policy=policy) == {
        "plain": "expired",
        "empty": "protected idempotency-key",
        "keyed": "protected idempotency-key",
        "parent": "protected idempotency-key",
        "keyed-child": "in parent: protected idempotency-key",
        "young": "protected idempotency-key",
    }
    report = store.prune(policy)
    assert (report.units.removed, report.keys_forgotten) == (1, 0)
    assert store.left() == ["empty", "keyed", "keyed-child", "parent", "young"]


def test_a_key_protects_no_longer_than_it_is_kept(store: OwnStore) -> None:
    """What goes then forgets its keys, and the plan counts them."""
    report = store.prune(Policy(keep_for=timedelta(days=1), keep_keys=WEEK))
    assert (report.units.removed, report.keys_forgotten) == (4, 3)
    assert store.left() == ["young"]


def test_a_rule_matches_numbers_as_people_write_them(store: OwnStore) -> None:
    """A group column may hold anything."""
    narrow = (MatchRule(match={"kind": ["5"], "status": ["done"]}, keep_for=FOREVER),)
    found = store.verdicts("plain", policy=Policy(keep_for=WEEK, rules=narrow))
    assert found == {"plain": "recent keep-for"}


def test_keys_are_read_again_under_the_lock_on_postgresql(database: Database, tmp_path: Path) -> None:
    """There a batch locks each run and reads its row, from which the key is told, too."""
    made = OwnPgStore(database=database, folder=tmp_path)
    text = made.profile.read_text(encoding="utf-8")
    made.profile.write_text(text.replace('missing = "root"', 'missing = "root"\nidempotency_key = "request"'))
    made.run("ALTER TABLE {schema}.{runs} ADD COLUMN request text")
    made.add(("plain", "done", OLD, None), ("keyed", "done", OLD, None), ("child", "done", OLD, "keyed"))
    made.run("UPDATE {schema}.{runs} SET request = 'a' WHERE {id} = 'child'")
    with made.open() as retention:
        policy = Policy(keep_for=WEEK, keep_keys=FOREVER)
        assert retention.plan(policy).units.protected == {"idempotency-key": 1}
        assert retention.prune(policy).units.removed == 1
        assert made.left() == ["child", "keyed"]
        assert retention.prune(Policy(keep_for=WEEK, keep_keys=timedelta(days=10))).units.removed == 1
    assert made.left() == []
