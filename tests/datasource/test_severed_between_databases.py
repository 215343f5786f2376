"""A removal from two databases that is cut off at any step: what is left, and how the next start ends it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import pytest

from datasource.pairs import CRASHED, DONE, EXPIRED, HELD, MONTH, WAITING, Pair, Pairs, ServerPairs
from datasource.severed import Cut, How
from datasource.severing import Course, Severer, severing

pytestmark = [pytest.mark.engine, pytest.mark.slow]

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
READING: Final = ("store: SELECT", "store: PRAGMA")
"""Steps that change nothing; without a soak only those beside a commit are cut off at."""

Left = Literal["untouched", "between", "done"]
ORDER: Final[tuple[Left, ...]] = ("untouched", "between", "done")


@pytest.fixture(scope="module")
def severer() -> Iterator[Severer]:
    """Give the process that forks removals."""
    with severing() as made:
        yield made


def cut_off(
    severer: Severer, pair: Pair, log: Path, *, at: int | None = None, how: How = "kill", admin: str = ""
) -> Course:
    """Run a removal from both databases of a pair, cut off before a step."""
    return severer.run(cut_of(pair, log, at=at, how=how, admin=admin))


def cut_of(pair: Pair, log: Path, *, at: int | None = None, how: How = "kill", admin: str = "") -> Cut:
    """Describe a removal from both databases of a pair, cut off before a step."""
    return Cut(
        store=pair.store.location,
        datasource=pair.datasource.location,
        state=str(pair.state),
        log=str(log),
        at=at,
        how=how,
        admin=admin,
    )


@contextmanager
def fresh(pairs: Pairs, folder: Path) -> Iterator[Pair]:
    """Make a pair in a folder of its own, and drop it."""
    folder.mkdir()
    pair = pairs.make(folder)
    yield pair
    pairs.drop(pair)


def left(pair: Pair) -> Left:
    """Say how far a removal got; fail if it left anything it must not."""
    runs, held = pair.runs(), pair.held()
    assert WAITING in runs & held
    assert pair.owners() == runs, "a run is half removed"
    if not runs & EXPIRED:
        assert not held & EXPIRED, "rows are left in the datasource, and a reused id would get their output"
        return "done"
    assert runs >= EXPIRED, "one batch, torn apart"
    if held >= HELD:
        return "untouched"
    assert not held & HELD, "one batch, torn apart in the datasource"
    assert pair.intents(), "rows are gone, their runs are not, and nobody knows"
    return "between"


def finish(pair: Pair, before: Left) -> None:
    """Start again: a dry run says what is pending, a removal ends it, and nothing more is remembered."""
    with pair.retention(writable=False) as retention:
        plan = retention.plan(MONTH)
    assert (plan.interrupted is not None) == bool(pair.intents())
    assert any("interrupted" in notice for notice in plan.notices) == bool(pair.intents())
    assert left(pair) == before
    with pair.retention() as retention:
        report = retention.prune(MONTH)
    assert (report.ended, report.units.removed) == ("completed", 0 if before == "done" else len(EXPIRED))
    if before == "between":
        assert report.interrupted is not None
        assert (report.interrupted["finished"], report.interrupted["left"]) == (len(HELD), 0)
    assert left(pair) == "done"
    assert pair.intents() == []


def go_on(pair: Pair) -> None:
    """Start the real engine: reused ids run their bodies, and what waited is charged once."""
    for order in pair.engine("rerun", CRASHED, DONE).values():
        assert order["result"].startswith(f"charged {order['value']}")
        assert order["value"] in order["charges"]
    recovered = pair.engine("recover")
    assert recovered["charges"] == [WAITING]


def near_a_commit(steps: tuple[str, ...], at: int) -> bool:
    """Say whether a commit is this step or the one before."""
    return any("COMMIT" in step for step in steps[max(at - 2, 0) : at])


def points(steps: tuple[str, ...]) -> list[int]:
    """Return the numbers of the steps to cut off at: all, or those that change something, once each."""
    return [
        at
        for at, step in enumerate(steps, 1)
        if SOAK
        or near_a_commit(steps, at)
        or not (step.startswith(READING) or (at > 1 and step == steps[at - 2]))
    ]


@pytest.mark.timeout(900)
def test_killed_before_any_step_the_next_start_ends_it(
    pairs: Pairs, severer: Severer, tmp_path: Path
) -> None:
    """Whichever statement it dies at: ids run their bodies afterwards, and what waits goes on (promise 4)."""
    with fresh(pairs, tmp_path / "whole") as pair:
        whole = cut_off(severer, pair, tmp_path / "log")
        assert (whole.code, left(pair), pair.intents()) == (0, "done", [])
    courses: list[Left] = []
    for at in points(whole.steps):
        with fresh(pairs, tmp_path / f"at-{at}") as pair:
            killed = cut_off(severer, pair, tmp_path / "log", at=at)
            assert (killed.code, killed.steps) == (-signal.SIGKILL, whole.steps[:at])
            course = left(pair)
            finish(pair, course)
            if course not in courses or (SOAK and near_a_commit(whole.steps, at)):
                go_on(pair)
            courses.append(course)
    assert courses == sorted(courses, key=ORDER.index)
    assert set(courses) == set(ORDER)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["end store", "end datasource"])
def test_session_ended_before_any_step_the_next_start_ends_it(
    how: How, on_server: ServerPairs, severer: Severer, tmp_path: Path
) -> None:
    """The same when the server ends a session and the removal goes on to its report."""
    with fresh(on_server, tmp_path / "whole") as pair:
        steps = cut_off(severer, pair, tmp_path / "log").steps
    courses: set[Left] = set()
    first = next(at for at, step in enumerate(steps, 1) if step.startswith("datasource"))
    for at in points(steps):
        if at < first:
            continue  # a session is known from its first step on
        with fresh(on_server, tmp_path / f"at-{at}") as pair:
            ended = cut_off(severer, pair, tmp_path / "log", at=at, how=how, admin=on_server.admin)
            course = left(pair)
            assert ended.code >= 0
            assert ended.code != 0 or course == "done"
            courses.add(course)
            finish(pair, course)
    assert courses >= {"untouched", "done"}
    assert ("between" in courses) == (how == "end store")


def commit_of(steps: tuple[str, ...], side: str) -> int:
    """Return the number of the step that commits on one side."""
    return steps.index(f"{side}: COMMIT") + 1


def test_run_resumed_before_the_next_start_repeats_nothing_unless_killed_between_the_commits(
    pairs: Pairs, severer: Severer, tmp_path: Path
) -> None:
    """Before the first commit all is as it was; between them lies the documented window: it is reported."""
    with fresh(pairs, tmp_path / "whole") as pair:
        steps = cut_off(severer, pair, tmp_path / "log").steps
    for side, charges in (("datasource", [CRASHED]), ("store", [CRASHED, CRASHED])):
        with fresh(pairs, tmp_path / side) as pair:
            cut_off(severer, pair, tmp_path / "log", at=commit_of(steps, side))
            resumed = pair.engine("resume", CRASHED, DONE)
            assert resumed[CRASHED] == {"status": "SUCCESS", "charges": charges}
            assert resumed[DONE]["charges"] == [DONE]
            with pair.retention() as retention:
                report = retention.prune(MONTH)
                record = retention.history()[-1]
            assert pair.runs() == {CRASHED, WAITING}, "a run that came back stays"
            assert report.interrupted is not None
            assert (report.interrupted["ids"], record.came_back) == ([CRASHED], 1)
            assert any("ATTENTION" in notice for notice in report.notices)
            assert pair.intents() == []


def test_resumed_after_the_next_start_nothing_is_repeated(
    pairs: Pairs, severer: Severer, tmp_path: Path
) -> None:
    """Killed between the commits and ended by the next start, there is no run left to resume."""
    with fresh(pairs, tmp_path / "whole") as pair:
        steps = cut_off(severer, pair, tmp_path / "log").steps
    with fresh(pairs, tmp_path / "between") as pair:
        cut_off(severer, pair, tmp_path / "log", at=commit_of(steps, "store"))
        finish(pair, "between")
        resumed = pair.engine("resume", CRASHED)
        assert resumed[CRASHED] == {"status": "missing", "charges": [CRASHED]}


@pytest.mark.parametrize("side", ["datasource", "store"])
def test_locks_of_a_stopped_process_end_within_seconds_on_both_sides(
    side: str, on_server: ServerPairs, severer: Severer, tmp_path: Path
) -> None:
    """Stopped before a commit, it holds locks in both databases; the servers take them back within 7 s."""
    with fresh(on_server, tmp_path / "whole") as pair:
        steps = cut_off(severer, pair, tmp_path / "log").steps
    with fresh(on_server, tmp_path / "stopped") as pair:
        cut = cut_of(pair, tmp_path / "log", at=commit_of(steps, side), how="stop")
        process = severer.start(cut)
        try:
            await_step(tmp_path / "log", cut.at or 0)
            began = time.monotonic()
            pair.store.rows(LOCK_RUN)
            pair.datasource.rows(LOCK_ROW)
            assert time.monotonic() - began < 7.0
        finally:
            os.kill(process, signal.SIGKILL)
            os.kill(process, signal.SIGCONT)
            severer.end(cut)
        finish(pair, left(pair))


LOCK_RUN: Final = f"SELECT 1 FROM {{s}}workflow_status WHERE workflow_uuid = '{CRASHED}' FOR UPDATE"
LOCK_ROW: Final = f"SELECT 1 FROM {{s}}datasource_outputs WHERE workflow_id = '{CRASHED}' FOR UPDATE"


def await_step(log: Path, number: int, seconds: float = 20.0) -> None:
    """Wait until a removal has come to a step."""
    end = time.monotonic() + seconds
    while not log.exists() or len(log.read_text(encoding="utf-8").splitlines()) < number:
        assert time.monotonic() < end
        time.sleep(0.01)
