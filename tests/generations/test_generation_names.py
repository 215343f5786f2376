"""An id that both a run and a generation have: plan files and deferrals tell which of them is meant."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from afterrun import Policy
from afterrun.state import StateDirectory
from cli.kit import run_cli
from generations.backed_loops import BOTH, OFFLINE
from generations.loops import Loops, fill, left, loop, open_loops

AGES = ("--keep-for", "7d", "--generations-keep-for", "7d")


@pytest.fixture
def both(loops: Loops) -> Loops:
    """Give a run called ``a/1`` that has ended, and a loop ``a`` with a first generation."""
    fill(loops, [*loop("a", 3), *loop("a/1", 2)[:1]], ended=["a/1"])
    return loops


def planned(loops: Loops, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Write a plan file; return its contents, too."""
    path = tmp_path / "plan.json"
    done = run_cli("plan", loops.location, "--profile", loops.folder / "loops.toml", *AGES, "--out", path)
    assert done.code == 0, done.err
    return path, json.loads(path.read_text())


def apply(loops: Loops, path: Path) -> None:
    """Remove what a plan file lists."""
    profile = ("--profile", loops.folder / "loops.toml")
    words = ("--plan", path, "--apply", "--no-backup", "--yes")
    done = run_cli("prune", loops.location, *profile, *AGES, *words)
    assert done.code == 0, done.err


def test_a_plan_file_has_the_kind_beside_the_id_of_a_generation(both: Loops, tmp_path: Path) -> None:
    """A whole run is its id alone, as before."""
    _, contents = planned(both, tmp_path)
    assert contents["format"] == "afterrun-plan/3"
    assert contents["units"] == ["a/1", ["generation", "a/1"], ["generation", "a/2"]]


def test_a_plan_of_superseded_ends_of_forks_is_read_again(both: Loops, tmp_path: Path) -> None:
    """Every rule of a policy may stand in the file."""
    path, contents = planned(both, tmp_path)
    rules = {"keep_for": "7d", "keep_forks": False, "grace": "1h"}
    path.write_text(json.dumps({**contents, "policy": {"grace": "1h", "generations": rules}}))
    apply(both, path)
    assert left(both) == {("a", 3)}


@pytest.mark.parametrize(
    ("format_of", "units", "stays"),
    [
        (2, [["generation", "a/1"]], {("a", 2), ("a", 3), ("a/1", 1)}),
        (2, ["a/1"], {("a", 1), ("a", 2), ("a", 3)}),
        (1, ["a/1"], {("a", 2), ("a", 3)}),
        (2, [["tree", "a/1"], ["generation", "a/2"]], {("a", 1), ("a", 3)}),
    ],
)
def test_only_what_is_listed_goes(
    both: Loops, tmp_path: Path, format_of: int, units: list[object], stays: set[tuple[str, int]]
) -> None:
    """Where the file tells kinds apart; one of the first format means whatever has the id."""
    path, contents = planned(both, tmp_path)
    path.write_text(json.dumps({**contents, "format": f"afterrun-plan/{format_of}", "units": units}))
    apply(both, path)
    assert left(both) == stays


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("generation a/1", {("a", 1), ("a", 3)}),
        ("a/1", {("a", 1), ("a", 3), ("a/1", 1)}),
    ],
)
def test_a_deferral_is_of_one_kind(both: Loops, name: str, stays: set[tuple[str, int]]) -> None:
    """A generation that failed holds up no run of the same id; an old entry may mean either, so both wait."""
    with open_loops(both) as retention:
        state = StateDirectory(both.folder / "state").load(retention.store.identity)
        state.now = retention.store.now()
        for _ in range(2):  # after the first time it is tried in the next sweep
            state.defer(name, "timeout")
        state.save()
        report = retention.sweep(BOTH, options=OFFLINE, always=True)
    assert report.ended == "completed"
    assert left(both) == stays


def test_a_generation_that_failed_is_remembered_with_its_kind(
    both: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And forgotten once it went, under its old name, too."""
    monkeypatch.setattr("afterrun.core.sweep.MAX_UNIT_ROWS", 2)  # each has a row of its own and two events
    with open_loops(both) as retention:
        assert retention.sweep(Policy(generations=BOTH.generations), options=OFFLINE, always=True).deferred
        state = StateDirectory(both.folder / "state").load(retention.store.identity)
        assert set(state._contents.deferrals) == {"generation a/1", "generation a/2"}
        monkeypatch.undo()
        assert retention.prune(Policy(generations=BOTH.generations), options=OFFLINE).removed == 2
        state = StateDirectory(both.folder / "state").load(retention.store.identity)
        assert not state.any()


@pytest.mark.parametrize(("count", "said"), [(1, False), (2, True)])
def test_no_advice_about_a_count_that_keeps_what_stays_anyway(
    loops: Loops, count: int, *, said: bool
) -> None:
    """The current generation is no candidate, so ``keep_last = 1`` cannot decide; a larger one may not."""
    fill(loops, loop("a", 2) if count == 1 else loop("a", 1))
    ages = Policy(keep_for=timedelta(days=7), keep_last=count)
    with open_loops(loops) as retention:
        notices = retention.plan(Policy(generations=ages)).notices
    assert any("keep_last decided nothing" in notice for notice in notices) == said
