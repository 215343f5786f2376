"""Every rule that keeps a unit is needed: here it alone keeps one, and without the rule that unit goes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import FOREVER, MatchRule, Policy, Refused, Retention
from afterrun.core import judge, resolve, sweep, tree
from afterrun.core.times import to_datetime
from afterrun.profiles.loader import built_in_text
from afterrun.stores.sql.binding import Binding
from dumps import Row, dump_sqlite, insert_row, open_unchecked
from fakes import NOW, retention_at, stand_still
from fakes import sweep as sweep_once
from memory import RUNS, STEPS, Racing
from random_stores import create_store

NOW_MS = NOW // 1000
HOUR = 3_600_000
DAY = 24 * HOUR
OLD = NOW_MS - 100 * DAY
MONTH = Policy(keep_for=timedelta(days=30))
ALL_ENDED = Policy(before=to_datetime(NOW + 1))
COMPLETED_AT = ('{ column = "completed_at", format = "epoch_ms" },\n  {', "{")
TERMINAL = 'terminal = ["SUCCESS",'


def run(key: str, parent: str | None = None, **columns: str | int | None) -> Row:
    """Make a finished run that ended long ago, but for the given columns."""
    row: Row = {"workflow_uuid": key, "parent_workflow_id": parent, "status": "SUCCESS", "name": "import"}
    row |= {"completed_at": OLD, "updated_at": OLD, "created_at": OLD}
    return row | columns


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A store in which one rule alone keeps the unit of ``kept``, and how to do without the rule."""

    reason: str
    rows: tuple[Row, ...]
    kept: str = "root"
    policy: Policy = MONTH
    ddl: str = ""
    steps: tuple[tuple[str, str], ...] = ()
    profile: tuple[str, str] = ("", "")  # the profile has no such entry: it is added, then taken away
    without_profile: tuple[tuple[str, str], ...] = ()
    without_policy: Policy | None = None
    without_part: tuple[object, str, Callable[..., object]] | None = None

    @property
    def id(self) -> str:
        policy = "" if self.policy is MONTH else f" by {' '.join(self.policy.canonical())}"
        return f"{self.reason} ({', '.join(str(row['workflow_uuid']) for row in self.rows)}){policy}"


RULES = [  # each differs from a unit that goes in one thing
    Rule(
        reason="live-member",
        rows=(run("root"), run("child", "root", status="PENDING")),
        without_profile=(
            ('live = [["ENQUEUED", "PENDING"], ["DELAYED"]]', 'live = [["ENQUEUED"], ["DELAYED"]]'),
            (TERMINAL, 'terminal = ["PENDING", "SUCCESS",'),
        ),
    ),
    Rule(
        reason="cross-tree-reference",
        rows=(run("root"), run("child", "root"), run("waiter", status="PENDING")),
        steps=(("waiter", "child"),),
        without_profile=(('by_live = "workflow_uuid"', "where = { output = { null = true } }"),),
    ),
    Rule(
        reason="fork-base",
        rows=(run("root"), run("child", "root"), run("fork", status="ENQUEUED", forked_from="child")),
        without_profile=(('column = "forked_from", by_live = "workflow_uuid"', 'column = "request"'),),
    ),
    Rule(
        reason="pinned",
        rows=(run("root"), run("child", "root")),
        policy=Policy(keep_for=timedelta(days=30), pins=frozenset({"child"})),
        without_part=(judge, "_pins", lambda *_: []),
    ),
    Rule(
        reason="grace",
        rows=(run("root"), run("child", "root", completed_at=NOW_MS - HOUR // 2)),
        policy=ALL_ENDED,
        without_policy=Policy(before=to_datetime(NOW + 1), grace=timedelta()),
    ),
    Rule(
        reason="grace",
        rows=(run("root", completed_at=NOW_MS - HOUR // 2),),
        policy=ALL_ENDED,
        without_policy=Policy(before=to_datetime(NOW + 1), grace=timedelta()),
    ),
    Rule(
        reason="keep-for",
        rows=(run("root"), run("child", "root", completed_at=NOW_MS - 10 * DAY)),
        policy=Policy(keep_for=timedelta(days=30), before=to_datetime(NOW + 1)),
        without_policy=ALL_ENDED,
    ),
    Rule(
        reason="keep-for",
        rows=(run("root", completed_at=NOW_MS - 10 * DAY),),
        policy=Policy(keep_for=timedelta(days=30), before=to_datetime(NOW + 1)),
        without_policy=ALL_ENDED,
    ),
    Rule(
        reason="before",
        rows=(run("root"), run("child", "root", completed_at=NOW_MS - 40 * DAY)),
        policy=Policy(keep_for=timedelta(days=30), before=to_datetime(NOW - 50 * DAY * 1000)),
        without_policy=MONTH,
    ),
    Rule(
        reason="keep-last",
        rows=(run("root", completed_at=OLD + 1), run("older")),
        policy=Policy(keep_for=timedelta(days=30), keep_last=1, group_by=("name",)),
        without_policy=MONTH,
    ),
    *(
        Rule(
            reason=f"keep-{period}",
            rows=(run("root", completed_at=OLD + 1), run("older")),
            policy=Policy(keep_for=timedelta(days=30), group_by=("name",), **{f"keep_{period}": 1}),  # type: ignore[arg-type]
            without_policy=MONTH,
        )
        for period in ("hourly", "daily", "weekly", "monthly", "yearly")
    ),
    Rule(
        reason="keep-for",
        rows=(run("root", status="ERROR"), run("older")),
        policy=Policy(
            keep_for=timedelta(days=30),
            rules=(MatchRule(match={"status": ["failed"], "name": ["import"]}, keep_for=FOREVER),),
        ),
        without_part=(resolve, "matchers", lambda *_, **__: ()),
    ),
    Rule(
        reason="within-cap",
        rows=(run("root", completed_at=OLD + 1),),
        policy=Policy(cap_units=1),
        without_policy=MONTH,
    ),
    Rule(
        reason="pinned",
        rows=(run("root", completed_at=OLD - DAY),),
        policy=Policy(cap_units=1, pins=frozenset({"root"})),
        without_part=(judge, "_pins", lambda *_: []),
    ),
    Rule(
        reason="grace",
        rows=(run("root", completed_at=NOW_MS - HOUR // 2), run("newest", completed_at=NOW_MS)),
        policy=Policy(cap_units=1),
        without_policy=Policy(cap_units=1, grace=timedelta()),
    ),
    Rule(
        reason="live-member",
        rows=(run("root", completed_at=OLD - DAY), run("child", "root", status="PENDING")),
        policy=Policy(cap_units=1),
        without_profile=(
            ('live = [["ENQUEUED", "PENDING"], ["DELAYED"]]', 'live = [["ENQUEUED"], ["DELAYED"]]'),
            (TERMINAL, 'terminal = ["PENDING", "SUCCESS",'),
        ),
    ),
    Rule(
        reason="idempotency-key",
        rows=(run("root"), run("child", "root", completed_at=NOW_MS - 40 * DAY)),
        policy=Policy(keep_for=timedelta(days=30), keep_keys=timedelta(days=50)),
        without_part=(judge, "_keys", lambda *_: []),
    ),
    Rule(
        reason="unknown-status",
        rows=(run("root"), run("child", "root", status="ARCHIVED")),
        without_profile=((TERMINAL, 'terminal = ["ARCHIVED", "SUCCESS",'),),
    ),
    Rule(
        reason="unknown-end-time",
        rows=(run("root"), run("child", "root", completed_at=None, updated_at=None)),
        without_profile=(
            ("rare = true },", 'rare = true }, { column = "created_at", format = "epoch_ms" },'),
        ),
    ),
    Rule(
        reason="unreadable-end-time",
        rows=(run("root"), run("child", "root", completed_at="long ago")),
        without_profile=(COMPLETED_AT,),
    ),
    Rule(
        reason="unreadable-end-time",
        rows=(run("root", completed_at=OLD // 1000),),  # seconds in a column of milliseconds
        without_profile=(COMPLETED_AT,),
    ),
    Rule(
        reason="future-end-time",
        rows=(run("root"), run("child", "root", completed_at=NOW_MS + DAY)),
        without_part=(judge, "_future", lambda *_: []),
    ),
    Rule(
        reason="cycle",
        rows=(run("root", "child"), run("child", "root")),
        without_profile=(('edges = [{ column = "parent_workflow_id" }]', "edges = []"),),
    ),
    Rule(
        reason="missing-parent",
        rows=(run("root", "gone"),),
        profile=('missing = "root"', 'missing = "block"'),
        without_profile=(('missing = "block"', 'missing = "root"'),),
    ),
    Rule(
        reason="too-deep",
        rows=(run("root"), run("child", "root"), run("grandchild", "child")),
        profile=("[units.tree]", "[units.tree]\nmax_depth = 1"),
        without_profile=(("max_depth = 1", "max_depth = 2"),),
    ),
    Rule(
        reason="unreadable-key",
        rows=(run("root"), run("chi\0ld", "root")),
        without_part=(tree, "readable", lambda _key: True),
    ),
    Rule(
        reason="unknown-reference:audit",
        rows=(run("root"), run("child", "root")),
        ddl="CREATE TABLE audit (of TEXT REFERENCES workflow_status(workflow_uuid) ON DELETE CASCADE);"
        "INSERT INTO audit VALUES ('child')",
        without_part=(Binding, "unknown_references", lambda _: iter(())),
    ),
    Rule(
        reason="unknown-reference:notes",
        rows=(run("root"), run("child", "root")),
        ddl="CREATE TABLE notes (workflow_uuid TEXT, note TEXT); INSERT INTO notes VALUES ('child', 'why')",
        without_profile=(("[detect]", '[detect]\nknown = ["notes"]'),),
    ),
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def build(tmp_path: Path, rule: Rule) -> Path:
    """Write the rule's store; a run beside it always goes, so that a store where nothing goes fails."""
    path = tmp_path / "app.sqlite"
    create_store(path, 125, nullable_updated_at=True)
    with open_unchecked(path) as connection:
        for row in (*rule.rows, run("bystander", name="report"), run("newer bystander", name="report")):
            insert_row(connection, RUNS, row)
        for number, (owner, child) in enumerate(rule.steps):
            step: Row = {
                "workflow_uuid": owner,
                "function_id": number,
                "child_workflow_id": child,
                "output": "o",
            }
            insert_row(connection, STEPS, step | {"function_name": "step"})
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(rule.ddl)
    return path


def profile(tmp_path: Path, *edits: tuple[str, str]) -> Path:
    """Write the built-in profile with some words replaced."""
    text = built_in_text("dbos")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "edited.toml"
    path.write_text(text, encoding="utf-8")
    return path


def left(path: Path) -> set[object]:
    """Return the ids that are in the store."""
    return {row["workflow_uuid"] for row in dump_sqlite(path)[RUNS]}


def prune(retention: Retention, policy: Policy, *, refused: bool = False) -> None:
    """Prune, or be refused for a status that nobody knows."""
    if refused:
        with pytest.raises(Refused) as caught:
            retention.prune(policy)
        assert caught.value.reason == "unknown-status"
    else:
        assert retention.prune(policy).ended == "completed"


@each_rule
def test_the_rule_alone_keeps_its_unit(tmp_path: Path, rule: Rule) -> None:
    """Promises 1, 3, 11: explain names this rule and no other, and the unit stays whole."""
    path = build(tmp_path, rule)
    with retention_at(NOW, path, profile=profile(tmp_path, rule.profile)) as retention:
        told = retention.explain(rule.kept, rule.policy)
        prune(retention, rule.policy, refused=rule.reason == "unknown-status")
    assert {reason.name for reason in told.reasons} == {rule.reason}
    assert {row["workflow_uuid"] for row in rule.rows} - left(path) <= {"older"}
    assert ("bystander" in left(path)) == (rule.reason == "unknown-status")


@each_rule
def test_without_the_rule_the_unit_goes(tmp_path: Path, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would have kept it: the test above fails when the rule is lost."""
    path = build(tmp_path, rule)
    if rule.without_part is not None:
        monkeypatch.setattr(*rule.without_part)
    changed = profile(tmp_path, rule.profile, *rule.without_profile)
    with retention_at(NOW, path, profile=changed) as retention:
        prune(retention, rule.without_policy or rule.policy)
    assert {rule.kept, "bystander"}.isdisjoint(left(path))


@dataclass(frozen=True, kw_only=True)
class Race:
    """What an engine may do between the page that found the unit of ``root`` and the batch that takes it."""

    why: str
    change: str
    part: tuple[object, str, Callable[..., object]] = (sweep, "changed", lambda *_: "")


NEW_RUN = "INSERT INTO workflow_status (workflow_uuid, parent_workflow_id, status, completed_at, updated_at)"
UPDATE = "UPDATE workflow_status SET"
RACES = [
    Race(why="live-member", change=f"{UPDATE} status = 'PENDING' WHERE workflow_uuid = 'root'"),
    Race(
        why="keep-for",
        change=f"{UPDATE} completed_at = {NOW_MS - 2 * HOUR} WHERE workflow_uuid = 'child'",
    ),
    Race(why="members changed", change=f"{NEW_RUN} VALUES ('new', 'child', 'SUCCESS', {OLD}, {OLD})"),
    Race(
        why="cross-tree-reference",
        change="INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, child_workflow_id)"
        " VALUES ('waiter', 9, 'get_result', 'child')",
    ),
    Race(
        why="not-a-root",
        change=f"{NEW_RUN} VALUES ('gone', NULL, 'PENDING', NULL, {OLD})",
        part=(tree, "_check_parents", lambda *_: None),
    ),
    Race(
        why="not-a-root",
        change=f"{NEW_RUN} VALUES ('new', NULL, 'PENDING', NULL, {OLD});"
        "UPDATE workflow_status SET parent_workflow_id = 'new' WHERE workflow_uuid = 'root'",
        part=(tree, "_check_parents", lambda *_: None),
    ),
    Race(
        why="unknown-end-time",
        change=f"{UPDATE} completed_at = NULL, updated_at = NULL WHERE workflow_uuid = 'child'",
    ),
    Race(why="unknown-status", change=f"{UPDATE} status = 'NEW' WHERE workflow_uuid = 'child'"),
]


def race(tmp_path: Path, case: Race, monkeypatch: pytest.MonkeyPatch) -> tuple[set[object], dict[str, int]]:
    """Let the engine change the store once the unit was found; return the ids left and what was skipped."""
    rows = (run("root", "gone"), run("child", "root"), run("waiter", status="PENDING"))
    path = build(tmp_path, Rule(reason="", rows=rows))
    # The census would refuse a status that is unknown in time; here it comes too late for that.
    monkeypatch.setattr(sweep, "check_census", lambda *_, **__: None)

    def change() -> None:
        with open_unchecked(path) as connection:
            for statement in case.change.split(";"):
                connection.execute(statement)

    with retention_at(NOW, path) as retention:
        racing = Racing(retention.store, "root", change)
        report = sweep_once(racing, MONTH).report
    assert (racing.raced, report.ended) == (True, "completed")
    return left(path), dict(report.units.skipped)


each_race = pytest.mark.parametrize("case", RACES, ids=lambda case: f"{case.why}: {case.change[:30]}")


@each_race
def test_the_recheck_skips_a_unit_that_changed(
    tmp_path: Path, case: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 2: what changed after it was found stays, alone, and the report says why."""
    ids, skipped = race(tmp_path, case, monkeypatch)
    assert skipped == {f"recheck: {case.why}": 1}
    assert {"root", "child"} <= ids
    assert {"bystander", "newer bystander"}.isdisjoint(ids)


@each_race
def test_without_the_recheck_the_changed_unit_goes(
    tmp_path: Path, case: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would have kept it: the test above fails when the recheck is lost."""
    monkeypatch.setattr(*case.part)
    ids, skipped = race(tmp_path, case, monkeypatch)
    assert skipped == {}
    assert "root" not in ids


@pytest.mark.parametrize("noticed", [True, False])
def test_the_census_refuses_for_the_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noticed: bool
) -> None:
    """Promise 3: a status nobody knows, even of a young run, keeps all; without the census, it goes."""
    young = run("young", status="NEW", completed_at=NOW_MS)
    path = build(tmp_path, Rule(reason="", rows=(young,)))
    if not noticed:
        monkeypatch.setattr(sweep, "check_census", lambda *_, **__: None)
    with retention_at(NOW, path) as retention:
        prune(retention, MONTH, refused=noticed)
    assert ("bystander" in left(path)) is noticed


@pytest.mark.parametrize(
    ("ddl", "known"),
    [
        (
            "CREATE TRIGGER copy AFTER DELETE ON workflow_events BEGIN DELETE FROM queues; END",
            ("[detect]", '[detect]\ntriggers = ["copy"]'),
        ),
        ("UPDATE dbos_migrations SET version = 999; ALTER TABLE streams ADD COLUMN fresh", None),
    ],
)
def test_a_schema_that_was_not_read_is_refused(
    tmp_path: Path, ddl: str, known: tuple[str, str] | None
) -> None:
    """Promise 3: a trigger or version nobody looked at keeps everything, until somebody vouches for it."""
    path = build(tmp_path, Rule(reason="", rows=(), ddl=ddl))
    with retention_at(NOW, path) as retention, pytest.raises(Refused) as refused:
        retention.prune(MONTH)
    assert refused.value.reason == "schema"
    assert "bystander" in left(path)
    vouched = profile(tmp_path, *([known] if known else []))
    with Retention(
        str(path), profile=str(vouched), schema_unverified=known is None, state=tmp_path / "state"
    ) as retention:
        stand_still(retention, NOW)
        retention.prune(MONTH)
    assert "bystander" not in left(path)
