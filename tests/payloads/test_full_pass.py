"""The full pass: what an interrupted sweep left is found, once it is a day old."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import afterrun.core.blobs
from afterrun import Budget, SweepOptions
from afterrun.state import StateDirectory
from fakes import NOW
from payloads.blob_kit import (
    CREATED,
    DAY_MS,
    HOUR_MS,
    MONTH,
    NOW_MS,
    Shop,
    add_blobs,
    add_runs,
    between,
    dangling,
    execute,
    left,
    opened,
    prune,
    refer,
)
from payloads.blob_kit import counts as rows_of

TESTS = Path(__file__).resolve().parent.parent
HOUR, DAY = HOUR_MS * 1_000, DAY_MS * 1_000


def test_a_kill_between_the_two_commits_leaves_only_blobs_that_the_full_pass_takes(shop: Shop) -> None:
    """Rows are gone, their blobs are all there; after a day they go, and nothing ever dangles."""
    add_runs(shop, "a", "b")
    add_runs(shop, "live", live=True)
    add_blobs(shop, "x", "y", "z", stored=NOW_MS - 2 * HOUR_MS)
    refer(shop, ("a", "x"), ("b", "y"), ("a", "z"), ("live", "z"))
    killed = subprocess.run(
        [
            sys.executable,
            str(TESTS / "payloads" / "blob_victim.py"),
            *(shop.location, str(shop.profile), str(shop.folder / "state")),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert (left(shop, "runs", "id"), left(shop)) == (["live"], ["x", "y", "z"])
    assert dangling(shop) == []
    with opened(shop) as retention:
        assert list(retention.verify()) == [], "they are young, so their writer may still be about"
        assert retention.prune(MONTH).blobs.count == 0
    with opened(shop, now=NOW + 23 * HOUR) as retention:
        assert list(retention.verify()) == [
            "blobs: 2 rows of blobs are referred to by nothing; a sweep looks for them now and then"
        ]
        assert retention.prune(MONTH).blobs.count == 0, "the last full pass is not a day old"
    with opened(shop, now=NOW + 24 * HOUR) as retention:
        assert retention.prune(MONTH).as_json()["blobs"] == {"count": 2, "bytes": 20}
        assert list(retention.verify()) == []
    assert left(shop) == ["z"]


@pytest.mark.parametrize(("age", "goes"), [(DAY_MS, False), (DAY_MS + 1, True)])
def test_only_what_is_older_than_a_day_goes(shop: Shop, age: int, goes: bool) -> None:
    """Its writer may be about to refer to it."""
    add_blobs(shop, "stray", stored=NOW_MS - age)
    assert prune(shop).blobs.count == goes
    assert left(shop) == ([] if goes else ["stray"])


def test_a_blob_of_unknown_age_stays_and_is_told(shop: Shop) -> None:
    """NULL, or no time at all: it may be young."""
    add_blobs(shop, "null", stored=None)
    add_blobs(shop, "senseless", stored=17)
    report = prune(shop)
    assert report.blobs.count == 0
    assert "2 blobs that nothing refers to stay, since nothing tells how old they are" in report.notices
    assert left(shop) == ["null", "senseless"]


def test_without_a_column_of_their_age_blobs_are_only_reported(shop: Shop) -> None:
    """The candidates of a sweep go; what an earlier one left is counted, by the sweep and by verify."""
    shop.profile.write_text(shop.profile.read_text(encoding="utf-8").replace(CREATED, ""), encoding="utf-8")
    add_runs(shop, "a")
    add_blobs(shop, "x", "stray")
    refer(shop, ("a", "x"))
    report = prune(shop)
    assert report.blobs.count == 1
    assert "1 blobs that nothing refers to stay, since nothing tells how old they are" in report.notices
    with opened(shop) as retention:
        assert list(retention.verify()) == [
            "blobs: 1 rows of blobs are referred to by nothing; nothing tells their age"
        ]


def test_a_full_pass_is_made_once_a_week(shop: Shop) -> None:
    """Its last time is remembered with the store; a sweep in between looks at candidates only."""
    assert prune(shop).ended == "completed"
    add_blobs(shop, "stray")
    assert prune(shop, now=NOW + 7 * DAY - 1).blobs.count == 0
    assert prune(shop, now=NOW + 7 * DAY).blobs.count == 1


def test_a_failed_sweep_brings_the_next_full_pass_forward(shop: Shop) -> None:
    """It may have left blobs behind: the next one looks for them after a day."""
    assert prune(shop).ended == "completed"
    add_blobs(shop, "stray")
    with opened(shop, now=NOW + HOUR) as retention:
        state = StateDirectory(shop.folder / "state").load(retention.store.identity)
        state.begin("prune", now=NOW + HOUR, fingerprint="")  # and there was no end
    assert prune(shop, now=NOW + 23 * HOUR).blobs.count == 0
    assert prune(shop, now=NOW + 24 * HOUR).blobs.count == 1


def test_a_sweep_that_is_cut_off_makes_no_full_pass(shop: Shop) -> None:
    """A spent budget and a closed gate end it first; the pass stays due."""
    add_runs(shop, "a", "b")
    add_blobs(shop, "x", "stray")
    refer(shop, ("a", "x"))
    with opened(shop) as retention:
        report = retention.prune(MONTH, options=SweepOptions(budget=Budget(units=1)))
    assert (report.ended, report.blobs.count) == ("budget", 1)
    assert left(shop) == ["stray"]
    assert prune(shop).blobs.count == 1


def test_a_full_pass_that_is_cut_off_stays_due(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate closes between two pages of it: what was found until then is gone, the rest goes later."""
    monkeypatch.setattr(afterrun.core.blobs, "LOOK_BLOBS", 2)
    add_blobs(shop, *(f"b{number}" for number in range(6)))
    looks = iter([True, True, False])
    with opened(shop) as retention:
        report = retention.prune(MONTH, options=SweepOptions(gate=lambda: next(looks)))
    assert (report.ended, report.blobs.count) == ("completed", 2)
    assert prune(shop).blobs.count == 4


def test_a_full_pass_goes_over_all_pages(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needed and unneeded blobs, in whatever order: each is looked at once."""
    monkeypatch.setattr(afterrun.core.blobs, "LOOK_BLOBS", 3)
    names = [f"{number:02}" for number in range(20)]
    add_runs(shop, "live", live=True)
    add_blobs(shop, *names)
    refer(shop, *(("live", name) for name in names[::3]))
    assert prune(shop).blobs.count == 13
    assert left(shop) == names[::3]
    assert prune(shop).blobs.count == 0


def test_what_is_referred_to_between_look_and_removal_stays(shop: Shop) -> None:
    """The look is a read; the transaction that removes checks again."""
    add_runs(shop, "live", live=True)
    add_blobs(shop, "x", "y")
    with opened(shop) as retention:
        blobs = retention.store.blobs
        assert blobs is not None
        plain = blobs.look

        def look(*arguments: object, **words: object) -> object:
            found = plain(*arguments, **words)  # type: ignore[arg-type]
            if rows_of(shop)["steps"] == 0:
                refer(shop, ("live", "x"))
            return found

        blobs.look = look  # type: ignore[method-assign,assignment]
        assert retention.prune(MONTH).blobs.count == 1
    assert left(shop) == ["x"]


def test_a_plan_file_that_narrows_a_prune_narrows_its_blobs(shop: Shop) -> None:
    """With ``only`` no full pass is made: what is not listed stays."""
    add_runs(shop, "a", "b")
    add_blobs(shop, "x", "y", "stray")
    refer(shop, ("a", "x"), ("b", "y"))
    with opened(shop) as retention:
        report = retention.prune(MONTH, only={"a"})
    assert (report.units.removed, report.blobs.count) == (1, 1)
    assert left(shop) == ["stray", "y"]


def test_candidates_never_pile_up(shop: Shop) -> None:
    """However many blobs go, those that wait are fewer than fill one transaction beside one batch's."""
    runs = [f"r{number:03}" for number in range(60)]
    blobs = [f"b{number:04}" for number in range(600)]
    add_runs(shop, *runs)
    add_blobs(shop, *blobs)
    refer(shop, *((runs[number // 10], blob) for number, blob in enumerate(blobs)))
    most = 0
    with opened(shop) as retention:
        waiting = retention.store.blobs
        assert waiting is not None

        def note(_event: object) -> None:
            nonlocal most
            most = max(most, waiting.waiting)

        report = retention.prune(MONTH, options=SweepOptions(batch_units=2, observer=note))
        assert waiting.waiting == 0
    assert report.blobs.count == 600
    assert most <= 300 + 20, "a transaction that has grown once, and the last batch"


def test_a_store_that_fails_while_blobs_go_ends_the_sweep_failed(shop: Shop) -> None:
    """What was committed stays on the report; the rest is left for a full pass."""
    add_runs(shop, "a")
    add_blobs(shop, "x")
    refer(shop, ("a", "x"))

    def change() -> None:
        execute(shop, "UPDATE version SET number = 2")

    with opened(shop) as retention:
        blobs = retention.store.blobs
        assert blobs is not None
        plain = blobs.take

        def take(most: int) -> object:
            change()
            return plain(most)

        blobs.take = take  # type: ignore[method-assign,assignment]
        report = retention.prune(MONTH)
    assert report.ended == "failed"
    assert "schema-changed" in report.message
    assert (report.units.removed, report.blobs.count) == (1, 0)
    assert left(shop) == ["x"]


def test_nothing_is_removed_while_the_host_shuts_down(shop: Shop) -> None:
    """A halt after the last batch leaves its blobs."""
    add_runs(shop, "a")
    add_blobs(shop, "x")
    refer(shop, ("a", "x"))
    halted = [False]
    with opened(shop) as retention:

        def stop() -> None:
            halted[0] = True

        with between(retention.store, "after", "^DELETE FROM .*runs", stop):
            report = retention.prune(MONTH, options=SweepOptions(halt=lambda: halted[0]))
    assert report.ended == "interrupted"
    assert left(shop) == ["x"]
