"""Each kind of open work keeps a tree, alone; without its rule in the profile the tree goes."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun.core.times import DAY
from afterrun.profiles import load_built_in
from afterrun.profiles.loader import built_in_text
from afterrun.runs import RunStore, Work
from afterrun.runs.schema import obligations, runs
from fakes import NOW
from runs.runs_kit import Home, ended_run, owe


def _without(folder: Path, reason: str) -> str:
    """Write the profile without the rules of one reason; return its file."""
    head, *rules = built_in_text("native").split("[[units.tree.protect]]")
    *rest, last = rules
    tail = last[last.index("# What a run leaves") :]
    kept = [rule for rule in (*rest, last.removesuffix(tail)) if f'reason = "{reason}"' not in rule]
    assert len(kept) < len(rules)
    path = folder / "without.toml"
    path.write_text("[[units.tree.protect]]".join([head, *kept]) + tail, encoding="utf-8")
    return str(path)


def test_the_profile_has_a_reason_for_each_kind_of_work_and_no_other() -> None:
    """A kind that is added to the store cannot be forgotten by retention."""
    told: Sequence[Any] = tomllib.loads(built_in_text("native"))["units"]["tree"]["protect"]
    assert {rule["reason"] for rule in told} == set(Work)
    assert all(rule["where"]["kind"] == {"equals": rule["reason"]} for rule in told)


@pytest.fixture
def owing(home: Home, store: RunStore) -> dict[Work, str]:
    """Give a run for each kind of work, ended long ago, that has this one piece of it open."""
    owing = {kind: ended_run(store) for kind in Work}
    for kind, run in owing.items():
        owe(home, run, kind)
    return owing


def test_each_kind_of_open_work_alone_keeps_its_tree(
    home: Home, store: RunStore, owing: dict[Work, str]
) -> None:
    """It is the only reason, and a run beside them that owes nothing goes."""
    plain = ended_run(store)
    assert home.verdicts(owing.values()) == [["protected", kind] for kind in owing]
    assert home.prune().units.removed == 1
    left = {row["id"] for row in home.rows(runs)}
    assert left == set(owing.values())
    assert plain not in left


def test_without_the_rule_of_a_kind_just_its_tree_goes(home: Home, owing: dict[Work, str]) -> None:
    """Each rule of the profile is needed: nothing else keeps the tree."""
    for kind in Work:
        told = home.verdicts(owing.values(), profile=_without(home.folder, kind))
        expected = [["expired"] if other is kind else ["protected", other] for other in owing]
        assert told == expected, kind
    last = home.prune(profile=_without(home.folder, Work.PIN))
    assert last.units.removed == 1
    assert owing[Work.PIN] not in {row["id"] for row in home.rows(runs)}


def test_work_that_is_closed_keeps_nothing(home: Home, owing: dict[Work, str]) -> None:
    """Once somebody has ended the work, whatever its kind, the trees go with all their rows."""
    with home.behind() as transaction:
        transaction.change(sa.update(obligations).values(closed_at=NOW - DAY))
    assert home.prune().units.removed == len(owing)
    assert set(home.counts()) == set()


def test_open_work_of_a_child_keeps_the_whole_tree(home: Home, store: RunStore) -> None:
    """The reason names the tree's root as its unit, whoever has the work."""
    root = store.create("root").run.id
    store.start(root)
    step = store.steps.start(root, "delegate")
    child = ended_run(store, parent=step)
    store.steps.complete(step)
    store.finish(root)
    owe(home, child, Work.EFFECT, root_id=root)
    assert home.verdict(child) == ["protected", "unsettled-effect"]
    assert home.prune().units.removed == 0


def test_a_pin_for_a_time_keeps_the_tree_until_then(home: Home, store: RunStore) -> None:
    """The same pin keeps the tree while its time is still to come, and not a moment longer."""
    run = ended_run(store)
    now = time.time_ns() // 1_000  # leases go by the database's own clock
    owe(home, run, Work.PIN, lease_until=now + DAY)
    assert home.verdict(run) == ["protected", "pinned-content"]
    with home.behind() as transaction:
        transaction.change(sa.update(obligations).values(lease_until=now - DAY))
    assert home.verdict(run) == ["expired"]


def test_reasons_are_documented() -> None:
    """Each kind of open work stands in the page on run stores."""
    page = (Path(__file__).parents[2] / "docs" / "runs.md").read_text("utf-8")
    assert [kind for kind in Work if f"`{kind}`" not in page] == []
    assert load_built_in("native").units.tree.max_depth == 32
