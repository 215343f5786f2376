"""Each kind of open work keeps a tree, alone; without its rule in the profile the tree goes."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun.core.times import DAY
from afterrun.profiles import load_built_in
from afterrun.profiles.loader import built_in_text
from afterrun.runs import (
    Pin,
    RunStatus,
    RunStore,
    Work,
    checkpoints,
    effect_rows,
    follow_ups,
    pins,
    resources,
    results,
    turns,
)
from afterrun.runs.schema import obligations, runs
from afterrun.runs.words import SETTLED_AT_END
from fakes import NOW
from runs.runs_kit import Home, any_address, ended_run, machine_for, owe, running


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


def _left_by_calls(store: RunStore, kind: Work) -> str:
    """Make a run that ended long ago and, by the calls of the store alone, owes one piece of work."""
    run = running(store)
    match kind:
        case Work.EFFECT:
            store.effects.propose(store.steps.start(run, "pay"), "pay", begin=True)
        case Work.TURN:
            store.turns.answer(store.turns.open(run, "user"), b"yes")
        case Work.FOLLOW_UP:
            store.follow_ups.add(run, "call back")
        case Work.CHECKPOINT:
            store.checkpoints.save(run, b"state")
        case Work.RESOURCE:
            store.cancel_tree(str(machine_for(store, run).starter), reason="made by hand")
    deliver_to = "asker" if kind is Work.RESULT else None
    store.finish(run, RunStatus.FAILED, output=b"none", deliver_to=deliver_to)
    if kind is Work.PIN:
        store.pins.add(run, any_address(store), holder="audit")
    return run


LASTING = sorted(set(Work) - set(SETTLED_AT_END))
"""Work that outlives the run: for somebody else to settle."""


def test_what_calls_leave_open_keeps_its_tree_alone_and_goes_without_it(
    home: Home, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each kind that outlives a run; a call that forgot to write the obligation would lose the tree."""
    kept = {kind: _left_by_calls(store, kind) for kind in LASTING}
    assert home.verdicts(kept.values()) == [["protected", kind] for kind in kept]
    for module in (effect_rows, turns, follow_ups, checkpoints, resources, results, pins):
        monkeypatch.setattr(module, "open_work", lambda *_, **__: None)
    lost = [_left_by_calls(store, kind) for kind in LASTING]
    assert home.verdicts(lost) == [["expired"]] * len(lost)
    assert home.prune().units.removed == len(lost)
    assert {row["root_id"] for row in home.rows(runs)} == set(kept.values())


def test_what_calls_settle_keeps_nothing(home: Home, store: RunStore) -> None:
    """Each kind has a call that ends it after the run has ended."""
    kept = {kind: _left_by_calls(store, kind) for kind in LASTING}
    [effect] = store.effects.unsettled()
    store.effects.settle(effect, applied=True, by="ops")
    [turn] = store.turns.due()
    store.turns.close(turn)
    [follow_up] = store.follow_ups.due()
    store.follow_ups.done(follow_up)
    store.checkpoints.forget(kept[Work.CHECKPOINT])
    [resource] = store.resources.held()
    store.resources.release(resource)
    [result] = store.results.due("asker")
    store.results.acknowledge(result)
    store.pins.release(Pin(kept[Work.PIN], 1))
    assert home.prune().units.removed == len(kept)
    assert set(home.counts()) <= {"idempotency_tombstones"}


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
    owe(home, run, Work.PIN, lease_until=NOW + DAY)
    assert home.verdict(run) == ["protected", "pinned-content"]
    with home.behind() as transaction:
        transaction.change(sa.update(obligations).values(lease_until=NOW - DAY))
    assert home.verdict(run) == ["expired"]


def test_reasons_are_documented() -> None:
    """Each kind of open work stands in the page on run stores."""
    page = (Path(__file__).parents[2] / "docs" / "runs.md").read_text("utf-8")
    assert [kind for kind in Work if f"`{kind}`" not in page] == []
    assert load_built_in("native").units.tree.max_depth == 32
