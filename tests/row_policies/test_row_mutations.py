"""Every rule that keeps a row is needed: here it alone keeps one, and without the rule that row goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from afterrun.core.facts import Key
from afterrun.core.row_rules import RowRules
from afterrun.core.row_tables import RowsGone
from afterrun.profiles.rows import RowTable
from afterrun.stores.sql import rows as sql_rows
from afterrun.stores.sql.literals import literal
from afterrun.stores.sql.row_statements import RowStatements
from afterrun.stores.sql.row_verdict import GOES, RowVerdict
from afterrun.stores.sql.rows import SqlRows
from row_policies.tables import PROFILE, Shop, ago, keep, log, policy, written

Mutate = Callable[[pytest.MonkeyPatch, Shop], None]


def profile(old: str, new: str) -> Mutate:
    """Return what changes one part of the profile."""

    def mutate(_patch: pytest.MonkeyPatch, shop: Shop) -> None:
        assert old in PROFILE
        (shop.store.folder / "shop.toml").write_text(PROFILE.replace(old, new, 1), encoding="utf-8")

    return mutate


def part(owner: object, name: str, value: object) -> Mutate:
    """Return what takes one part of the code out."""

    def mutate(patch: pytest.MonkeyPatch, _shop: Shop) -> None:
        patch.setattr(owner, name, value)

    return mutate


def is_never_kept(_self: SqlRows, _row: object) -> bool:
    """Keep no row for its rank."""
    return False


def any_time(_self: RowVerdict, _table: object, *, then: object) -> object:
    """Let every row through, whatever its time."""
    return then


def any_state(_name: str, profile: RowTable, _rules: RowRules) -> tuple[str, ...]:
    """Take every terminal state for one that goes."""
    return profile.terminal


@dataclass(frozen=True)
class Rule:
    """One row that one rule alone keeps, and how to do without the rule."""

    name: str
    table: str
    row: tuple[object, ...]
    without: Mutate
    rules: RowRules = field(default_factory=lambda: keep(7))
    more: str = ""


WAIT = """protect = [
  { reason = "wait", table = "waits", column = "task", where = { until = { future = "epoch_ms" } } },
]"""
NO_TIME = part(RowVerdict, "_aged", any_time)
RULES = [  # each row differs from one that goes in one thing
    Rule(
        "terminal",
        "tasks",
        ("a", "odd", ago(30), None, None),
        profile('"ok", "failed"', '"ok", "odd"'),
    ),
    Rule(
        "statuses",
        "tasks",
        ("a", "failed", ago(30), None, None),
        part(sql_rows, "_statuses", any_state),
        keep(7, None, "ok"),
    ),
    Rule("run", "tasks", ("a", "ok", ago(30), "r", None), profile("run = { null = true }, ", "")),
    Rule("request", "tasks", ("a", "ok", ago(30), None, "k"), profile(", request = { null = true }", "")),
    Rule(
        "protect",
        "tasks",
        ("a", "ok", ago(30), None, None),
        profile(WAIT, ""),
        more=f"INSERT INTO waits VALUES ('a', {ago(-9)})",
    ),
    Rule("age", "events", ("a", written(6), "x"), NO_TIME),  # the raw bound of text is two days late
    Rule("unknown end", "results", (1, "a", None), NO_TIME),  # without an index every row is met
    Rule("unreadable end", "results", (1, "a", 5), NO_TIME),
    Rule("future end", "results", (1, "a", ago(-30)), NO_TIME),
    Rule("latest", "results", (1, "a", ago(30)), part(SqlRows, "_is_kept", is_never_kept), keep(7, 1)),
    Rule(
        "grace",
        "results",
        (1, "a", ago(0.01)),
        NO_TIME,
        keep(None, 1),
        f"INSERT INTO results VALUES (2, 'a', {ago(0)})",
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_alone_keeps_a_row(shop: Shop, rule: Rule) -> None:
    """With the rule, the row stays."""
    assert rule.row[0] in _left(shop, rule)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_the_rule_it_goes(shop: Shop, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the row goes: so nothing else kept it."""
    rule.without(monkeypatch, shop)
    assert rule.row[0] not in _left(shop, rule)


def _left(shop: Shop, rule: Rule) -> list[object]:
    shop.store.insert(rule.table, [rule.row])
    shop.store.run(*([rule.more] if rule.more else []))
    shop.prune(policy(**{rule.table: rule.rules}))
    return shop.ids(rule.table)


def test_without_the_look_within_the_batch_a_changed_row_would_go(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict in the removal itself is needed: without it, a row that is young by then goes."""
    real = SqlRows.remove

    def remove(self: SqlRows, keys: Sequence[Key], *, seconds: float) -> RowsGone:
        shop.store.run(f"UPDATE logs SET at = {ago(1)}")
        may_go = self.verdict.of
        monkeypatch.setattr(self.verdict, "of", lambda _table: literal(GOES))
        self.statements = RowStatements(self.binding, self.verdict, ranked=False)
        monkeypatch.setattr(self.verdict, "of", may_go)
        return real(self, keys, seconds=seconds)

    monkeypatch.setattr(SqlRows, "remove", remove)
    log(shop.store, [30])
    shop.prune(policy(logs=keep(7)))
    assert shop.ids("logs") == []
