"""The oracle judges small hand-made stores right, and the random stores contain what they promise."""

import sqlite3
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import random_stores
from dumps import Dump, Row, Value, canonical, dump_sqlite, load_sqlite, row_counts
from oracle import LIVE, OWNER_COLUMN, TERMINAL, OraclePolicy, Unit, Verdicts, judge
from random_stores import DAY_US, HOUR_US, create_store, random_policy, random_store, write_store

NOW = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
NOW_MS = NOW // 1000
OLD_MS = NOW_MS - 100 * DAY_US // 1000
DAY_MS = DAY_US // 1000
SEEDS = 500


def run(key: Value, parent: Value = None, **columns: Value) -> Row:
    """Make a healthy run that ended long ago, but for the given columns."""
    row: Row = {"workflow_uuid": key, "parent_workflow_id": parent, "status": "SUCCESS"}
    row |= {"completed_at": OLD_MS, "updated_at": OLD_MS, "name": "import", "application_name": None}
    return row | columns


def step(owner: Value, child: Value = None) -> Row:
    """Make a step of a run, which may name another run."""
    return {"workflow_uuid": owner, "child_workflow_id": child}


def store(*runs: Row, steps: tuple[Row, ...] = (), **tables: list[Row]) -> Dump:
    """Make the dump of a store."""
    return {"workflow_status": list(runs), "operation_outputs": list(steps)} | tables


def policy(
    *,
    keep_for_us: int | None = None,
    before_us: int | None = None,
    keep_last: int | None = None,
    group_by: tuple[str, ...] = ("name", "application_name"),
    grace_us: int = HOUR_US,
    pins: tuple[str, ...] = (),
) -> OraclePolicy:
    """Make a policy that counts successful units; `MONTH` is the usual one."""
    return OraclePolicy(keep_for_us, before_us, keep_last, "successful", group_by, grace_us, frozenset(pins))


MONTH = policy(keep_for_us=30 * DAY_US)


def judged(dump: Dump, by: OraclePolicy = MONTH) -> Verdicts:
    """Judge a dump now."""
    return judge(dump, by, NOW)


def told(unit: Unit) -> tuple[str, set[str]]:
    """Give what a unit is judged to be, and why."""
    return unit.verdict, set(unit.reasons)


def only(dump: Dump, by: OraclePolicy = MONTH) -> Unit:
    """Judge a dump that holds one unit."""
    (unit,) = judged(dump, by).units
    return unit


@pytest.mark.parametrize("status", ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
def test_an_old_run_of_every_terminal_status_is_expired(status: str) -> None:
    """Each status on the engine's list of ended ones lets a run go."""
    unit = only(store(run("a", status=status)))
    assert (*told(unit), unit.end_us) == ("expired", set(), OLD_MS * 1000)


@pytest.mark.parametrize("status", ["PENDING", "ENQUEUED", "DELAYED"])
def test_a_live_status_protects_and_has_no_end(status: str) -> None:
    """A live run is protected whatever its times say."""
    unit = only(store(run("a", status=status, completed_at="abc")))
    assert (*told(unit), unit.end_us) == ("protected", {"live-member"}, None)


@pytest.mark.parametrize(
    "status", [None, "", "success", " SUCCESS", 1, 1.5, b"SUCCESS", "SUCC\u00c8S", "SUCCESS\0"]
)
def test_any_other_status_blocks_the_unit_and_refuses_the_apply(status: Value) -> None:
    """What is in no list is unknown, its times are not looked at, and nothing at all may be removed."""
    dump = store(run("a", status=status, completed_at="abc"), run("b"), steps=(step("b"),))
    verdicts = judged(dump)
    assert told(verdicts.by_root["a"]) == ("blocked", {"unknown-status"})
    assert told(verdicts.by_root["b"]) == ("expired", set())
    assert verdicts.refused
    assert verdicts.planned_rows(dump) == {"workflow_status": 1, "operation_outputs": 1}
    assert verdicts.removed_rows(dump) == {"workflow_status": 0, "operation_outputs": 0}
    assert verdicts.after(dump) == dump


def test_an_unknown_status_of_an_unrooted_run_refuses_too() -> None:
    """The census looks at the whole table, not only at units."""
    verdicts = judged(store(run("a", "a", status="ARCHIVED"), run("b")))
    assert (verdicts.refused, verdicts.unrooted) == (True, ("a",))


LIMIT_MS = NOW_MS + 300_000
UNREADABLE_TEXT: list[Value] = ["", "abc", "2026-01-01", str(OLD_MS), b"1"]
UNREADABLE_NUMBERS = [0, -OLD_MS, OLD_MS // 1000, 946_684_799_999, 946_684_799_999.5, float("-inf")]
FUTURE: list[Value] = [LIMIT_MS + 1, LIMIT_MS + 0.5, 2**62, 1e306, float("inf")]
END_CASES: list[tuple[Value, Value, str | int]] = [
    *((value, OLD_MS, "unreadable-end-time") for value in (*UNREADABLE_TEXT, *UNREADABLE_NUMBERS)),
    *((value, OLD_MS, "future-end-time") for value in FUTURE),
    (None, None, "unknown-end-time"),
    (None, "abc", "unreadable-end-time"),
    (None, LIMIT_MS + 1, "future-end-time"),
    (OLD_MS, "abc", OLD_MS * 1000),
    (None, OLD_MS, OLD_MS * 1000),
    (946_684_800_000, OLD_MS, 946_684_800_000_000),
    (OLD_MS + 0.5, OLD_MS, OLD_MS * 1000 + 500),
    (NOW_MS, OLD_MS, NOW),
    (LIMIT_MS, OLD_MS, LIMIT_MS * 1000),
]


@pytest.mark.parametrize(("completed_at", "updated_at", "expected"), END_CASES)
def test_the_first_source_that_is_not_null_decides_the_end(
    completed_at: Value, updated_at: Value, expected: str | int
) -> None:
    """NULL falls through; anything else is a known end or blocks, and is never passed over."""
    unit = only(store(run("a", completed_at=completed_at, updated_at=updated_at)))
    if isinstance(expected, str):
        assert (*told(unit), unit.end_us) == ("blocked", {expected}, None)
    else:
        assert (unit.end_us, unit.blocked) == (expected, frozenset())


def test_an_end_a_little_ahead_of_now_is_recent() -> None:
    """Five minutes of clock difference are borne, and the unit is simply new."""
    unit = only(store(run("a", completed_at=LIMIT_MS)))
    assert told(unit) == ("recent", {"keep-for", "grace"})


def test_a_tree_ends_with_its_latest_member() -> None:
    """A child that ended later than its root decides the age."""
    unit = only(store(run("a"), run("b", "a", completed_at=NOW_MS - 2 * DAY_MS), run("c", "b")))
    assert (*told(unit), unit.end_us) == ("recent", {"keep-for"}, NOW - 2 * DAY_US)
    assert unit.members == {"a", "b", "c"}


@pytest.mark.parametrize("place", ["root", "middle", "leaf"])
def test_one_live_member_anywhere_protects_the_whole_tree(place: str) -> None:
    """Finished relatives of live work stay with it."""
    states: dict[str, Value] = {"root": "SUCCESS", "middle": "SUCCESS", "leaf": "SUCCESS", place: "PENDING"}
    parents = {"root": None, "middle": "root", "leaf": "middle"}
    unit = only(store(*(run(key, parents[key], status=states[key]) for key in states)))
    assert (*told(unit), unit.rows) == ("protected", {"live-member"}, 3)


@pytest.mark.parametrize("parent", [None, "", "gone", "A", "a ", "a\0", b"a"])
def test_a_run_without_a_parent_row_is_a_root(parent: Value) -> None:
    """Keys are equal byte for byte and type for type, and a parent that is missing makes a root."""
    verdicts = judged(store(run("a"), run("b", parent)))
    assert (verdicts.expired, verdicts.unrooted) == (frozenset({"a", "b"}), ())


def test_an_empty_parent_names_a_run_with_an_empty_key() -> None:
    """The empty text is a key like any other."""
    assert only(store(run(""), run("b", ""))).members == {"", "b"}


def test_cycles_and_all_below_them_are_unrooted_and_stay() -> None:
    """No root reaches a cycle, so it is in no unit."""
    cycles = [run("s", "s"), run("x", "y"), run("y", "x"), run("t", "x"), run("u", "t"), run("", "")]
    dump = store(run("a"), *cycles, steps=(step("u"),))
    verdicts = judged(dump)
    assert verdicts.expired == {"a"}
    assert verdicts.unrooted == ("s", "x", "y", "t", "u", "")
    assert verdicts.after(dump) == store(*cycles, steps=(step("u"),))


@pytest.mark.parametrize(("runs", "reasons"), [(1001, set()), (1002, {"too-deep"})])
def test_a_member_deeper_than_the_limit_blocks(runs: int, reasons: set[str]) -> None:
    """The root has depth 0, and depth 1000 is still read."""
    chain = [run("0"), *(run(str(number), str(number - 1)) for number in range(1, runs))]
    assert only(store(*chain)).reasons == reasons


READABLE_KEYS: list[Value] = ["", 7, 0, "\u8d70\U0001f3c3", "\x1b[31m'\"\n[red]", "x" * 100_000]
UNREADABLE_KEYS: list[Value] = [None, "a\0b", "\0", "a\udcff", b"a", 1.5]


@pytest.mark.parametrize("key", [*READABLE_KEYS, *UNREADABLE_KEYS], ids=lambda key: repr(key)[:20])
def test_a_key_that_cannot_be_named_safely_blocks(key: Value) -> None:
    """Odd text is a good key; NULL, a NUL character, broken UTF-8 and other types are not."""
    reasons = {"unreadable-key"} if key in UNREADABLE_KEYS else set()
    assert only(store(run(key))).reasons == reasons
    assert only(store(run("root"), run(key, "root"))).reasons == reasons


def test_every_root_with_a_null_key_is_a_unit_of_its_own() -> None:
    """NULL equals nothing: not another NULL key, not a NULL parent, not a NULL reference."""
    runs = [run(None), run(None, status="PENDING"), run("a"), run("p", status="PENDING")]
    verdicts = judged(store(*runs, steps=(step(None, "a"), step("p", None))))
    assert [unit.root for unit in verdicts.units] == [None, None, "a", "p"]
    assert [unit.verdict for unit in verdicts.units] == ["blocked", "blocked", "expired", "protected"]
    assert [len(unit.reasons) for unit in verdicts.units] == [1, 2, 0, 1]
    assert set(verdicts.by_root) == {"a", "p"}


def test_null_keys_below_a_root_are_counted_by_row() -> None:
    """Several members may share the key NULL."""
    unit = only(store(run("a"), run(None, "a"), run(None, "a")))
    assert unit.members == {"a", None}
    assert unit.rows == 3


REFERENCE_CASES: list[tuple[Value, Value, Value, bool]] = [
    ("PENDING", "other", "child", True),
    ("ENQUEUED", "other", "root", True),
    ("DELAYED", "other", "child", True),
    ("SUCCESS", "other", "child", False),
    ("ARCHIVED", "other", "child", False),
    ("PENDING", "gone", "child", False),
    ("PENDING", "other", "CHILD", False),
    ("PENDING", "other", b"child", False),
    ("PENDING", "other", "gone", False),
    ("PENDING", "other", None, False),
]


@pytest.mark.parametrize(("status", "owner", "child", "protects"), REFERENCE_CASES)
def test_a_reference_by_a_live_run_protects(
    status: Value, owner: Value, child: Value, *, protects: bool
) -> None:
    """Only a step of an existing live run holds what it names."""
    dump = store(run("root"), run("child", "root"), run("other", status=status), steps=(step(owner, child),))
    assert judged(dump).by_root["root"].reasons == ({"cross-tree-reference"} if protects else set())


@pytest.mark.parametrize("status", [*LIVE, *TERMINAL])
def test_a_live_fork_protects_its_base(status: str) -> None:
    """A fork that has not run holds the tree of its base; one that has ended holds nothing."""
    dump = store(run("root"), run("child", "root"), run("fork", status=status, forked_from="child"))
    assert judged(dump).by_root["root"].reasons == ({"fork-base"} if status in LIVE else set())


def test_a_reference_from_inside_the_tree_counts_too() -> None:
    """The rule asks only whether the referring run is live."""
    unit = only(store(run("a", status="PENDING"), run("b", "a"), steps=(step("a", "b"),)))
    assert unit.reasons == {"live-member", "cross-tree-reference"}


@pytest.mark.parametrize(
    ("pin", "pinned"), [("root", True), ("child", True), ("Root", False), ("gone", False)]
)
def test_a_pin_of_any_member_protects(pin: str, *, pinned: bool) -> None:
    """A pin names a run and keeps its whole tree."""
    unit = only(store(run("root"), run("child", "root")), policy(keep_for_us=DAY_US, pins=(pin,)))
    assert unit.reasons == ({"pinned"} if pinned else set())


AGE_CASES: list[tuple[int, OraclePolicy, set[str]]] = [
    (30 * DAY_MS, MONTH, {"keep-for"}),
    (30 * DAY_MS + 1, MONTH, set()),
    (30 * DAY_MS - 1, MONTH, {"keep-for"}),
    (DAY_MS, policy(before_us=NOW - DAY_US), {"before"}),
    (DAY_MS + 1, policy(before_us=NOW - DAY_US), set()),
    (60 * 60_000, policy(before_us=NOW), {"grace"}),
    (60 * 60_000 + 1, policy(before_us=NOW), set()),
    (0, policy(before_us=NOW + 1, grace_us=0), {"grace"}),
    (1, policy(before_us=NOW + 1, grace_us=0), set()),
    (1, policy(keep_for_us=DAY_US, before_us=NOW - DAY_US), {"keep-for", "before", "grace"}),
    (200 * DAY_MS, policy(before_us=NOW, grace_us=400 * DAY_US), {"grace"}),
]


@pytest.mark.parametrize(("age_ms", "by", "reasons"), AGE_CASES)
def test_every_rule_of_age_keeps_up_to_and_on_its_limit(
    age_ms: int, by: OraclePolicy, reasons: set[str]
) -> None:
    """A unit goes only when it is strictly past each limit."""
    unit = only(store(run("a", completed_at=NOW_MS - age_ms)), by)
    assert told(unit) == ("recent" if reasons else "expired", reasons)


def kept_last(dump: Dump, by: OraclePolicy) -> set[Value]:
    """Name the roots that `keep_last` keeps."""
    return {unit.root for unit in judged(dump, by).units if "keep-last" in unit.reasons}


def aged(key: Value, days: int, **columns: Value) -> Row:
    """Make a run that ended that many days ago."""
    return run(key, completed_at=NOW_MS - days * DAY_MS, **columns)


def test_keep_last_keeps_while_fewer_successful_ones_are_newer() -> None:
    """A failure takes no place, and is kept as long as it is among the newest."""
    dump = store(
        aged("1", 9), aged("2", 8), aged("f", 7, status="ERROR"), aged("3", 6), aged("g", 5, status="ERROR")
    )
    assert kept_last(dump, policy(keep_last=1)) == {"3", "g"}
    assert kept_last(dump, policy(keep_last=2)) == {"2", "f", "3", "g"}


def test_keep_last_may_count_every_ended_root() -> None:
    """With `any`, a failure takes a place; a live root takes none."""
    dump = store(aged("1", 9), aged("f", 7, status="ERROR"), aged("p", 1, status="PENDING"))
    by = OraclePolicy(None, None, 1, "any", (), 0, frozenset())
    assert kept_last(dump, by) == {"f"}


def test_keep_last_alone_lets_the_rest_go_after_grace() -> None:
    """Without a rule of age only grace is left."""
    dump = store(run("1", completed_at=NOW_MS - 5000), run("2", completed_at=NOW_MS - 1000), aged("3", 1))
    verdicts = judged(dump, policy(keep_last=1))
    assert [set(unit.reasons) for unit in verdicts.units] == [{"grace"}, {"grace", "keep-last"}, set()]


@pytest.mark.parametrize(
    ("group_by", "kept"),
    [("", "z"), ("name", "zb"), ("application_name", "zac"), ("name application_name", "zabc")],
)
def test_keep_last_counts_in_groups_of_the_root_and_null_is_a_value(group_by: str, kept: str) -> None:
    """Runs without an application are a group of their own, apart from the empty name."""
    dump = store(
        aged("z", 1, application_name="shop"),
        aged("a", 2),
        aged("b", 3, name="Import", application_name="shop"),
        aged("c", 4, application_name=""),
        run("child", "z", name="Import", application_name=None),
    )
    assert kept_last(dump, policy(keep_last=1, group_by=tuple(group_by.split()))) == set(kept)


def test_keep_last_breaks_ties_by_key_as_bytes_and_looks_at_the_root_alone() -> None:
    """The later key is newer, and a late child makes no root newer."""
    dump = store(
        aged("B", 5), aged("a", 5), aged("\U0001f3c3", 5), aged("\uffff", 5), aged("late", 2, status="ERROR")
    )
    assert kept_last(dump, policy(keep_last=1)) == {"\U0001f3c3", "late"}
    dump = store(aged("a", 5), aged("b", 4), run("c", "a", completed_at=NOW_MS))
    assert kept_last(dump, policy(keep_last=1)) == {"b"}


def test_keep_last_counts_what_is_blocked_or_protected_for_other_reasons() -> None:
    """Only the root's own status and end decide whether it takes a place."""
    dump = store(
        aged("old", 9),
        aged("blocked", 3),
        run("c", "blocked", completed_at="abc"),
        aged("pinned", 2),
        aged("nul\0", 1),
        aged("no end", 1, updated_at=5) | {"completed_at": None},
    )
    assert kept_last(dump, policy(keep_last=3, pins=("pinned",))) == {"blocked", "pinned", "nul\0"}


def test_reasons_of_every_kind_are_carried_and_blocked_beats_protected_beats_recent() -> None:
    """The verdict is the worst kind; nothing is left out."""
    new = run("a", completed_at=NOW_MS)
    by = policy(keep_for_us=DAY_US, keep_last=1, pins=("a",))
    pinned = only(store(new), by)
    assert told(pinned) == ("protected", {"pinned", "keep-for", "keep-last", "grace"})
    blocked = only(store(new, run("b", "a", status=None), run("c", "a", status="PENDING")), by)
    assert told(blocked) == ("blocked", {"unknown-status", "live-member", "pinned", "keep-last"})
    assert blocked.end_us is None
    assert [len(kind) for kind in (blocked.blocked, blocked.protected, blocked.kept)] == [1, 2, 1]


def test_an_empty_policy_is_refused() -> None:
    """Pins and grace are no rules: without one, everything else would go."""
    with pytest.raises(ValueError, match="empty policy"):
        policy(grace_us=DAY_US, pins=("a",))


def test_removal_takes_the_rows_of_members_in_every_owned_table_and_no_others() -> None:
    """Rows of kept runs, orphans and tables of other things stay, and optional tables may be absent."""
    by_run = "operation_outputs workflow_input workflow_output transaction_outputs workflow_events"
    owned = dict.fromkeys([*by_run.split(), "workflow_events_history", "streams"], "workflow_uuid")
    owned |= {"datasource_outputs": "workflow_id", "notifications": "destination_uuid"}
    tables: Dump = {
        table: [{column: key, "child_workflow_id": None} for key in ("a", "child", "kept", "orphan", "A")]
        for table, column in owned.items()
    }
    steps = tables.pop("operation_outputs")
    queues: list[Row] = [{"name": "a"}]
    dump = store(run("a"), run("child", "a"), aged("kept", 1), steps=tuple(steps), queues=queues, **tables)
    verdicts = judged(dump)
    expected = dict.fromkeys(owned, 2) | {"workflow_status": 2, "queues": 0}
    assert verdicts.removed_rows(dump) == verdicts.planned_rows(dump) == expected
    after = verdicts.after(dump)
    assert [row["workflow_uuid"] for row in after["workflow_status"]] == ["kept"]
    assert [row["destination_uuid"] for row in after["notifications"]] == ["kept", "orphan", "A"]
    assert after["queues"] == queues


def test_a_dump_is_written_back_exactly(tmp_path: Path) -> None:
    """Every kind of stored value survives reading and writing, broken text included."""
    for seed in range(20):
        random = Random(seed)
        first, second = tmp_path / f"{seed}-a.sqlite", tmp_path / f"{seed}-b.sqlite"
        write_store(random, first, NOW, version=125, weird=1.0)
        create_store(second, 125)
        dump = dump_sqlite(first)
        load_sqlite(second, {table: rows for table, rows in dump.items() if table != "dbos_migrations"})
        assert canonical(dump_sqlite(second)) == canonical(dump)


def test_canonical_dumps_tell_types_apart_and_ignore_order() -> None:
    """1, 1.0 and '1' are three values; the order of rows and columns is none."""
    assert canonical({"t": [{"a": 1}, {"a": 2}]}) == canonical({"t": [{"a": 2}, {"a": 1}]})
    assert len({str(canonical({"t": [{"a": value}]})) for value in (1, 1.0, "1", b"1", None)}) == 5


@pytest.mark.parametrize("version", random_stores.VERSIONS)
def test_the_schema_is_the_engines(tmp_path: Path, version: int) -> None:
    """An empty store is sound and carries its version."""
    create_store(tmp_path / "store.sqlite", version)
    dump = dump_sqlite(tmp_path / "store.sqlite")
    assert dump["dbos_migrations"] == [{"version": version}]
    assert ("workflow_input" in dump) == (version >= 123)
    assert sum(row_counts(dump).values()) == 1
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_the_same_seed_writes_the_same_store(tmp_path: Path) -> None:
    """A failure found by a seed can be made again from it."""
    for name in ("a", "b"):
        write_store(Random(3), tmp_path / name, NOW, version=123, weird=0.5)
    assert canonical(dump_sqlite(tmp_path / "a")) == canonical(dump_sqlite(tmp_path / "b"))


def test_a_store_that_is_not_weird_has_no_odd_column() -> None:
    """With a rate of 0 every oddity is one of shape."""
    kinds = {kind.split(":")[0] for seed in range(50) for kind in _random(seed, weird=0.0).kinds}
    assert kinds <= {"shape", "owned", "orphan", "reference"}


def _random(seed: int, weird: float) -> random_stores.RandomStore:
    return random_store(Random(seed), NOW, version=125, weird=weird, nullable_updated_at=True)


def _promised_kinds() -> set[str]:
    times = random_stores.hostile_times(NOW)
    palettes = {
        "status": random_stores.HOSTILE_STATUS,
        "completed_at": {"null": None} | times,
        "updated_at": {"null": None} | times,
        "id": random_stores.HOSTILE_ID,
        "name": random_stores.HOSTILE_NAME,
        "application_name": random_stores.HOSTILE_NAME,
    }
    owned = set(OWNER_COLUMN) - {"workflow_status", "transaction_outputs", "datasource_outputs"}
    return (
        {f"{column}: {label}" for column, palette in palettes.items() for label in palette}
        | {
            f"parent: {label}"
            for label in ("null", "empty", "own id", "missing", "other case", "another run")
        }
        | {f"{kind}: {table}" for kind in ("owned", "orphan") for table in owned}
        | {"reference: live", "reference: other"}
        | {
            f"shape: {shape}"
            for shape in ("chain", "fan", "self cycle, with tail", "two-node cycle, with tail")
        }
    )


def test_random_stores_hold_every_promised_kind() -> None:
    """Across the seeds, each hostile value of each column is put into some store."""
    kinds = Counter(kind for seed in range(SEEDS) for kind in _random(seed, weird=0.3).kinds)
    assert {kind for kind in _promised_kinds() if not kinds[kind]} == set()


REASONS = {
    *("unknown-status", "unknown-end-time", "unreadable-end-time", "future-end-time", "unreadable-key"),
    *("live-member", "cross-tree-reference", "fork-base", "pinned"),
    *("keep-for", "before", "grace", "keep-last", "within-cap", "idempotency-key"),
    *(f"keep-{period}" for period in random_stores.PERIODS),
}


def test_random_stores_and_policies_reach_every_verdict_and_reason(tmp_path: Path) -> None:
    """Across the seeds, each verdict and each reason but `too-deep` occurs, and the parts add up."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        random = Random(seed)
        path, version, nullable = tmp_path / "store", random_stores.VERSIONS[seed % 3], seed % 5 == 0
        write_store(random, path, NOW, version=version, weird=0.2, nullable_updated_at=nullable)
        dump = dump_sqlite(path)
        path.unlink()
        verdicts = judge(dump, random_policy(random, NOW), NOW)
        seen.update(refused=verdicts.refused, unrooted=len(verdicts.unrooted))
        rows = sum(unit.rows for unit in verdicts.units) + len(verdicts.unrooted)
        assert rows == len(dump["workflow_status"])
        for unit in verdicts.units:
            seen.update([unit.verdict, *unit.reasons])
    assert set(seen) == REASONS | {"expired", "recent", "protected", "blocked", "unrooted", "refused"}
    assert min(seen.values()) >= 5
    assert seen["refused"] < 0.3 * SEEDS


def test_random_policies_pin_given_keys() -> None:
    """Pins come from the keys that are handed in and from ids that may be absent."""
    pins = {pin for seed in range(100) for pin in random_policy(Random(seed), NOW, ("mine",)).pins}
    assert {"mine", "no-such-run", "run-0"} <= pins
