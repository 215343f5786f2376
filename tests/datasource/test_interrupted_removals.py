"""What a removal from two databases left when it was cut off, and how the next start ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from afterrun import Policy, Refused
from afterrun.service.locking import sweep_lock
from datasource.leaving import between, recorded, run_file_cli
from datasource.pairs import (
    CLEAN,
    CRASHED,
    DONE,
    EXPIRED,
    HELD,
    MONTH,
    ROWS,
    WAITING,
    Pair,
    Side,
)

pytestmark = pytest.mark.engine


def test_interrupted_removal_is_ended_before_the_guard_asks(pair: Pair) -> None:
    """Also by a sweep that then asks: what it removed was removed by halves before."""
    between(pair)
    with pair.retention() as retention:
        report = retention.sweep(MONTH)
    assert report.ended == "guard"
    assert report.interrupted is not None
    assert report.interrupted["finished"] == len(HELD)
    assert pair.runs() == {CLEAN, WAITING}
    assert pair.intents() == []


def test_verify_finds_an_interrupted_removal_and_no_running_one(pair: Pair) -> None:
    """It is a leftover, unless a sweep holds the lock: then it is work."""
    recorded(pair)
    with pair.retention() as looking, pair.retention() as sweeping:
        assert [line for line in looking.verify() if line.startswith("leftover: 2 units")]
        with sweep_lock(sweeping.store):
            assert not list(looking.verify())
        sweeping.prune(MONTH)
        assert not list(looking.verify())


def test_interrupted_removal_forbids_one_that_does_not_reach_the_datasource(pair: Pair) -> None:
    """It would end the work on one side only: refused, with the place and what to do."""
    between(pair)
    with pair.retention(reaching=False) as retention:
        assert any("was interrupted" in notice for notice in retention.plan(MONTH).notices)
        for remove in (retention.prune, retention.sweep):
            with pytest.raises(Refused, match="give that database with --datasource") as refusal:
                remove(MONTH)
            assert refusal.value.reason == "interrupted"
            assert "***" in str(refusal.value) or not pair.datasource.on_server
    assert pair.runs() == EXPIRED | {WAITING}


@pytest.mark.parametrize(
    "policy",
    [Policy(keep_for=timedelta(days=60)), replace(MONTH, pins=frozenset(EXPIRED))],
    ids=["longer", "pinned"],
)
def test_run_that_may_no_longer_go_is_left_and_reported_until_it_may(pair: Pair, policy: Policy) -> None:
    """The word of today counts: such a run stays without its rows, and every report says so."""
    between(pair)
    for _ in range(2):
        with pair.retention() as retention:
            report = retention.prune(policy)
            assert report.interrupted is not None
            assert (report.interrupted["left"], retention.history()[-1].left) == (len(HELD), len(HELD))
        assert any("ATTENTION" in notice for notice in report.notices)
        assert pair.runs() == EXPIRED | {WAITING}
    with pair.retention() as retention:
        assert retention.prune(MONTH).units.removed == len(EXPIRED)
    assert pair.intents() == []


def test_with_a_backup_what_was_interrupted_goes_only_once_it_is_in_it(file_pair: Pair) -> None:
    """Nothing goes that the backup lacks; and the report says what no backup has."""
    between(file_pair)
    backup = file_pair.state.parent / "backup.sqlite"
    words = ("--keep-for", "30d", "--apply", "--yes", "--backup", str(backup), "--json")
    answer = run_file_cli("prune", file_pair, *words)
    assert answer["units"]["tree"]["removed"] == len(EXPIRED)
    assert answer["interrupted"]["finished"] == answer["interrupted"]["left"] == 0
    assert any("not in it" in notice for notice in answer["notices"])
    assert Side(str(backup)).ids("SELECT workflow_uuid FROM workflow_status") == EXPIRED
    assert file_pair.intents() == []


def test_rows_whose_runs_somebody_removed_meanwhile_go(pair: Pair) -> None:
    """Killed before the first commit, and then the engine's own delete took the runs: a reused id runs."""
    recorded(pair)
    pair.leave(*HELD)
    with pair.retention() as retention:
        report = retention.prune(MONTH)
    assert report.interrupted is not None
    assert report.interrupted["leftover_rows"] == len(HELD)
    assert report.rows[ROWS] == len(HELD)
    assert pair.held() == {WAITING}
    assert pair.engine("rerun", CRASHED)[CRASHED]["charges"] != [CRASHED]


def test_id_that_was_used_again_meanwhile_keeps_its_rows(pair: Pair) -> None:
    """Killed after the last commit; the new run of that id is nobody's leftover, and stays whole."""
    recorded(pair)
    pair.leave(*HELD)
    pair.lose(*HELD)
    pair.engine("crash", CRASHED)
    with pair.retention() as retention:
        retention.prune(MONTH)
    assert pair.runs() == pair.held() == {CRASHED, WAITING}
    assert pair.intents() == []


def test_id_used_again_while_leftovers_go_keeps_its_rows(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked once more after rows were removed and before that is committed."""
    recorded(pair)
    pair.leave(*HELD)
    with pair.retention() as retention:
        answers = iter([frozenset[str](), frozenset({CRASHED})])
        monkeypatch.setattr(retention.store, "known", lambda _texts: next(answers, frozenset()))
        report = retention.prune(MONTH, only=[DONE])
    assert report.interrupted is not None
    assert report.interrupted["left"] == 1
    assert CRASHED in pair.held() or DONE in pair.held()


def test_damaged_list_of_intents_stops_everything(file_pair: Pair) -> None:
    """Unknown means keep: an unreadable list forbids a removal, and says where it is."""
    between(file_pair)
    (file,) = file_pair.intents()
    file.write_text("{", encoding="utf-8")
    with file_pair.retention() as retention:
        for call in (retention.plan, retention.prune, retention.sweep):
            with pytest.raises(Exception, match=r"intents\.json is damaged"):
                call(MONTH)
    assert file_pair.runs() == EXPIRED | {WAITING}
