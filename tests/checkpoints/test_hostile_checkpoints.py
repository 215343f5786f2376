"""Content that no engine would write: it is never run, and at worst it keeps its own thread."""

from __future__ import annotations

import os
import pickle
import resource
from pathlib import Path

import pytest

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.profiles.loader import built_in_text
from checkpoints.hostile_kit import GENERATIONS, THREADS, Hostile, at
from checkpoints.packing import Ext, checkpoint, pack
from checkpoints.test_checkpoint_outline import Trap

MIB = 2**20


@pytest.fixture
def store(tmp_path: Path) -> Hostile:
    """Give a store with a thread that is old and in order."""
    made = Hostile(tmp_path / "checkpoints.sqlite")
    made.thread("good")
    return made


def planted(path: Path) -> dict[str, dict[str, object]]:
    """Return threads by name, each with columns of its newest checkpoint that mean harm."""
    trap = pickle.dumps(Trap(path))
    call = Ext(0, pack(["pathlib", "Path.touch", str(path)]))
    deep = pack(checkpoint(channel_values={"said": Ext(9, b"deep")})).replace(
        pack(Ext(9, b"deep")), b"\x91" * 200_000 + b"\xc0"
    )
    return {
        "pickle": {"type": "pickle", "checkpoint": trap},
        "pickle in disguise": {"checkpoint": trap},
        "deep": {"checkpoint": deep},
        "huge": {"checkpoint": pack(checkpoint(channel_values={"said": b"x" * (100 * MIB)}))},
        "text": {"checkpoint": "no bytes"},
        "number": {"checkpoint": 5},
        "nothing": {"checkpoint": None},
        "cut off": {"checkpoint": pack(checkpoint())[:-9]},
        "deep metadata": {"metadata": b"[" * 500_000},
        "huge metadata": {"metadata": b'{"a": "' + b"x" * (20 * MIB) + b'"}'},
        "no text": {"metadata": b"\xff\xfe"},
        "extension in the state": {"checkpoint": pack(checkpoint(channel_values={"said": [call, trap]}))},
    }


READABLE = {"good", "extension in the state"}
"""Threads that nothing is wrong with: what a state holds is its own affair."""


@pytest.mark.parametrize("policy", [GENERATIONS, THREADS], ids=["generations", "threads"])
def test_planted_payloads_are_never_run_and_block_their_thread_alone(
    store: Hostile, tmp_path: Path, policy: Policy
) -> None:
    """Nothing is made on disk, what is in order goes, and every thread that cannot be read stays whole."""
    sprung = tmp_path / "sprung"
    for thread, columns in planted(sprung).items():
        store.thread(thread, last=columns)
    unreadable = set(planted(sprung)) - READABLE
    if policy is THREADS:  # what is in metadata tells nothing of a head
        unreadable -= {"deep metadata", "huge metadata", "no text"}
    report = store.prune(policy)
    assert report.ended == "completed"
    assert not sprung.exists()
    for name, count in store.left().items():
        assert count == (4 if name in unreadable else 1)
    assert set(store.left()) >= unreadable
    assert report.units.blocked["unreadable-record"] >= len(unreadable) or policy is THREADS


def test_memory_stays_bounded_beside_huge_payloads(store: Hostile) -> None:
    """Forty payloads of 8 MiB are looked into one at a time."""
    payload = pack(checkpoint(channel_values={"said": b"x" * (8 * MIB)}))
    for number in range(40):
        store.thread(f"large-{number}", steps=1, last={"checkpoint": payload})
    child = os.fork()
    if child == 0:
        code = 1
        try:
            limit = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + 100 * 1_024
            done = store.prune(THREADS).units.removed == 41
            code = 0 if done and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < limit else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("policy", [GENERATIONS, THREADS], ids=["generations", "threads"])
@pytest.mark.parametrize("name", [b"\x00\xff", "nul\0in it", "", "-1", "'; DROP TABLE writes; --", "x/y//z"])
def test_a_strange_name_of_a_thread_harms_nobody(store: Hostile, policy: Policy, name: object) -> None:
    """Whatever a thread is called, the others go; itself it goes if its name can be bound, or it stays."""
    store.thread(name)
    report = store.prune(policy)
    assert report.ended == "completed", report.message
    left = store.left()
    assert left.get("good") == (1 if policy is GENERATIONS else None)
    if isinstance(name, str) and "\0" not in name:
        assert left.get(name) == left.get("good")
    else:
        assert left[name] == 4


def test_a_table_that_refers_to_a_checkpoint_holds_it(store: Hostile) -> None:
    """A table that the profile does not know, with a column of that name, blocks what it names."""
    with store.open() as database:
        database.execute("CREATE TABLE bookmarks (checkpoint_id TEXT)")
        database.execute("INSERT INTO bookmarks VALUES (?)", (at(1),))
    with store.retention() as retention:
        told = retention.explain(f"good//{at(1)}", GENERATIONS)
        assert [reason.name for reason in told.reasons] == ["unknown-reference:bookmarks"]
    with store.retention() as retention:
        plan = retention.plan(GENERATIONS)
    assert plan.others["generation"].blocked == {"unknown-reference:bookmarks": 1}


def test_one_that_cannot_be_removed_hides_nothing_and_is_no_fork(store: Hostile) -> None:
    """A checkpoint that a trigger refuses is deferred, all others go, and once it may go, it does."""
    for number in range(30):
        store.thread(f"thread-{number:02}", steps=6)
    trigger = (
        f"CREATE TRIGGER refuse BEFORE DELETE ON checkpoints WHEN old.thread_id = 'thread-07' "
        f"AND old.checkpoint_id = '{at(2)}' BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with store.open() as database:
        database.execute(trigger)
    with store.retention() as retention:
        assert retention.store.schema().problems  # a trigger that the profile does not know
    profile = store.path.with_suffix(".toml")
    _known_trigger(profile)
    for _ in range(2):
        report = _prune_with(store, profile)
        assert report.ended == "completed", report.message
        assert report.units.deferred == 1
    left = store.left()
    assert left.pop("thread-07") == 2
    assert set(left.values()) == {1}
    with store.open() as database:
        database.execute("DROP TRIGGER refuse")
    assert store.prune(GENERATIONS).units.removed == 1
    assert set(store.left().values()) == {1}


def _known_trigger(profile: Path) -> None:
    text = built_in_text("langgraph").replace("[detect.read]", 'triggers = ["refuse"]\n\n[detect.read]')
    profile.write_text(text, encoding="utf-8")


def _prune_with(store: Hostile, profile: Path) -> Report:
    state = store.path.parent / "state"
    with Retention(str(store.path), profile=str(profile), schema_unverified=True, state=state) as retention:
        return retention.prune(GENERATIONS, options=SweepOptions(offline=True))


def test_one_unit_at_a_time_comes_to_the_same(store: Hostile) -> None:
    """The smallest batches remove what the largest do, and leave links that lead to what is there."""
    for number in range(10):
        store.thread(f"thread-{number:02}", steps=5)
    report = store.prune(GENERATIONS, batch_units=1, offline=False)
    assert report.units.removed == 3 + 10 * 4
    assert not report.units.skipped
    assert set(store.left().values()) == {1}
    assert store.rows("SELECT count(*) FROM checkpoints WHERE parent_checkpoint_id IS NOT NULL") == [(0,)]


def test_links_are_led_on_to_what_is_left(store: Hostile) -> None:
    """A checkpoint whose parent went follows the nearest that is still there."""
    with store.open() as database:
        database.execute("CREATE TABLE bookmarks (checkpoint_id TEXT)")
        database.execute("INSERT INTO bookmarks VALUES (?)", (at(1),))
    with store.retention() as retention:
        retention.store._schema = retention.store.schema().__class__("x", read=True)  # as if it were known
        retention.store._read_version = lambda: "x"  # type: ignore[method-assign]
        assert retention.prune(GENERATIONS).units.removed == 2
    links = store.rows("SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints ORDER BY checkpoint_id")
    assert links == [(at(1), None), (at(3), at(1))]
