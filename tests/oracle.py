"""An independent judge of DBOS stores: what the product must decide, written as plainly as possible.

It knows nothing of the product and walks a dump naively. Instants are integer microseconds since the epoch,
UTC. A key is the plain value of ``workflow_uuid``; equality of keys is Python's, which is SQLite's for the
values that ``dumps.dump_sqlite`` reads.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from typing import Literal
from zoneinfo import ZoneInfo

from dumps import Dump, Row, Value

Verdict = Literal["expired", "recent", "protected", "blocked"]
Place = tuple[int, bytes]

RUNS = "workflow_status"
TERMINAL = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
LIVE = ("ENQUEUED", "PENDING", "DELAYED")
SUCCESSFUL = ("SUCCESS",)
MAX_DEPTH = 1000
OWNER_COLUMN = {  # of every table that a unit owns, optional tables included
    RUNS: "workflow_uuid",
    "operation_outputs": "workflow_uuid",
    "workflow_input": "workflow_uuid",
    "workflow_output": "workflow_uuid",
    "transaction_outputs": "workflow_uuid",
    "datasource_outputs": "workflow_id",
    "workflow_events": "workflow_uuid",
    "workflow_events_history": "workflow_uuid",
    "streams": "workflow_uuid",
    "notifications": "destination_uuid",
}
YEAR_2000_MS = 946_684_800_000
BEYOND_ALL_MS = 10**16  # keeps infinity and huge reals within what int() takes
MAX_AHEAD_US = 5 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class OracleRule:
    """An age for roots with one of these statuses and one of these names; `None` is any, `inf` for ever."""

    statuses: tuple[str, ...] | None
    names: tuple[str, ...] | None
    keep_for_us: float


@dataclass(frozen=True, slots=True)
class OraclePolicy:
    """How long and how many to keep; `None` is no rule."""

    keep_for_us: int | None
    before_us: int | None
    keep_last: int | None
    keep_last_counts: Literal["successful", "any"]
    group_by: tuple[str, ...]
    grace_us: int
    pins: frozenset[str]
    periods: tuple[tuple[str, int], ...] = ()  # `hourly` to `yearly`, and how many
    zone: str = "UTC"
    cap_units: int | None = None
    keep_keys_us: float | None = None
    rules: tuple[OracleRule, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty policy: it would remove everything."""
        if not self.keeps and self.cap_units is None:
            message = "an empty policy judges nothing"
            raise ValueError(message)

    @property
    def keeps(self) -> bool:
        """Whether it has a keep rule, and not a cap alone."""
        ages = self.keep_for_us is not None or self.before_us is not None
        return ages or self.keep_last is not None or bool(self.periods)


@dataclass(frozen=True, slots=True)
class Unit:
    """One run tree and its verdict, with the reasons of each kind apart."""

    root: Value
    verdict: Verdict
    blocked: frozenset[str]
    protected: frozenset[str]
    kept: frozenset[str]
    members: frozenset[Value]
    rows: int  # of the run table; more than len(members) when several members have a NULL key
    end_us: int | None  # None when any member's end is not known

    @property
    def reasons(self) -> frozenset[str]:
        """All reasons."""
        return self.blocked | self.protected | self.kept


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All units of a store, in the order of their root rows, and what an apply must do."""

    units: tuple[Unit, ...]
    unrooted: tuple[Value, ...]  # one entry a row, so that NULL keys count
    refused: bool

    @property
    def by_root(self) -> dict[Value, Unit]:
        """The units by root key, without those whose root key is NULL."""
        return {unit.root: unit for unit in self.units if unit.root is not None}

    @property
    def expired(self) -> frozenset[Value]:
        """The root keys of the units that are expired, refused or not."""
        return frozenset(unit.root for unit in self.units if unit.verdict == "expired")

    def planned_rows(self, dump: Dump) -> dict[str, int]:
        """Count the rows of the expired units in each table of the dump, refused or not."""
        kept = self._without_expired(dump)
        return {table: len(rows) - len(kept[table]) for table, rows in dump.items()}

    def removed_rows(self, dump: Dump) -> dict[str, int]:
        """Count the rows that one complete apply must remove from each table of the dump."""
        return dict.fromkeys(dump, 0) if self.refused else self.planned_rows(dump)

    def after(self, dump: Dump) -> Dump:
        """Build the dump that one complete apply must leave."""
        return dump if self.refused else self._without_expired(dump)

    def _without_expired(self, dump: Dump) -> Dump:
        gone = {key for unit in self.units if unit.verdict == "expired" for key in unit.members}
        return {
            table: [row for row in rows if table not in OWNER_COLUMN or row[OWNER_COLUMN[table]] not in gone]
            for table, rows in dump.items()
        }


@dataclass(frozen=True, slots=True)
class _Held:
    named: set[Value]  # by a step of a live run
    forked: set[Value]  # the base of a live fork


@dataclass(frozen=True, slots=True)
class _Tree:
    root: Row
    members: list[Row]
    depths: list[int]


def judge(dump: Dump, policy: OraclePolicy, now_us: int) -> Verdicts:
    """Judge every run tree of a store."""
    trees, unrooted = _grow(dump[RUNS])
    roots, held = [tree.root for tree in trees], _keys_held_by_live_runs(dump)
    boundary = cap_boundary(roots, policy, now_us)
    units = tuple(_unit(tree, roots, held, policy, now_us, boundary) for tree in trees)
    refused = any(row["status"] not in TERMINAL + LIVE for row in dump[RUNS])
    return Verdicts(units, tuple(row["workflow_uuid"] for row in unrooted), refused)


def _unit(
    tree: _Tree, roots: list[Row], held: _Held, policy: OraclePolicy, now_us: int, boundary: Place | None
) -> Unit:
    ends = [end for row in tree.members if (end := _row_end(row, now_us)) is not None]
    end_us = max(ends) if len(ends) == len(tree.members) else None
    blocked = _blocked(tree, now_us)
    protected = _protected(tree, held, policy) | _protected_by_key(end_us, policy, now_us)
    kept = _kept_by_age(tree.root, end_us, policy, now_us)
    kept |= _kept_by_count(tree.root, roots, policy, now_us) | _kept_by_period(
        tree.root, roots, policy, now_us
    )
    place = _place(tree.root, now_us)
    if boundary is not None and place is not None and place < boundary:  # the cap takes their say
        kept &= {"grace"}
    verdict: Verdict = "blocked" if blocked else "protected" if protected else "recent" if kept else "expired"
    root, members = tree.root["workflow_uuid"], frozenset(row["workflow_uuid"] for row in tree.members)
    return Unit(root, verdict, blocked, protected, kept, members, len(tree.members), end_us)


def _grow(runs: list[Row]) -> tuple[list[_Tree], list[Row]]:
    """Climb from every row to its root; a row that reaches none is unrooted."""
    by_key = {row["workflow_uuid"]: row for row in runs}  # a NULL parent is never looked up
    climbs = [(row, *_climb(row, by_key)) for row in runs]
    trees = [_Tree(row, [], []) for row, root, _ in climbs if root is row]
    tree_of = {id(tree.root): tree for tree in trees}
    for row, root, depth in climbs:
        if root is not None:
            tree_of[id(root)].members.append(row)
            tree_of[id(root)].depths.append(depth)
    return trees, [row for row, root, _ in climbs if root is None]


def _climb(row: Row, by_key: dict[Value, Row]) -> tuple[Row | None, int]:
    """Follow parents up to a row whose parent is not set or missing; `None` on a cycle."""
    seen = {id(row)}
    while row["parent_workflow_id"] is not None and row["parent_workflow_id"] in by_key:
        row = by_key[row["parent_workflow_id"]]
        if id(row) in seen:
            return None, 0
        seen.add(id(row))
    return row, len(seen) - 1


def _read_end(row: Row, now_us: int) -> int | str:
    """Read the end of a terminal row; a reason name where it is not known."""
    source = row["completed_at"] if row["completed_at"] is not None else row["updated_at"]
    if source is None:
        return "unknown-end-time"
    if not isinstance(source, int | float) or source < YEAR_2000_MS:
        return "unreadable-end-time"
    end_us = int(min(source, BEYOND_ALL_MS) * 1000)
    return "future-end-time" if end_us > now_us + MAX_AHEAD_US else end_us


def _row_end(row: Row, now_us: int) -> int | None:
    end = _read_end(row, now_us) if row["status"] in TERMINAL else None
    return end if isinstance(end, int) else None


def _is_readable_key(key: Value) -> bool:
    is_text = (
        isinstance(key, str) and "\0" not in key and not any("\ud800" <= char <= "\udfff" for char in key)
    )
    return is_text or isinstance(key, int)


def _blocked(tree: _Tree, now_us: int) -> frozenset[str]:
    reasons: set[str] = set()
    if max(tree.depths) > MAX_DEPTH:
        reasons.add("too-deep")
    for row in tree.members:
        if not _is_readable_key(row["workflow_uuid"]):
            reasons.add("unreadable-key")
        if row["status"] not in TERMINAL + LIVE:
            reasons.add("unknown-status")
        end = _read_end(row, now_us) if row["status"] in TERMINAL else None
        if isinstance(end, str):
            reasons.add(end)
    return frozenset(reasons)


def _protected(tree: _Tree, held: _Held, policy: OraclePolicy) -> frozenset[str]:
    keys = {row["workflow_uuid"] for row in tree.members}
    rules = {
        "live-member": any(row["status"] in LIVE for row in tree.members),
        "cross-tree-reference": any(key in held.named for key in keys),
        "fork-base": any(key in held.forked for key in keys),
        "pinned": any(key in policy.pins for key in keys),
    }
    return frozenset(reason for reason, protects in rules.items() if protects)


def _keys_held_by_live_runs(dump: Dump) -> _Held:
    runs = [row for row in dump[RUNS] if row["status"] in LIVE and row["workflow_uuid"] is not None]
    live = {row["workflow_uuid"] for row in runs}
    named = {row["child_workflow_id"] for row in dump["operation_outputs"] if row["workflow_uuid"] in live}
    return _Held(named - {None}, {row.get("forked_from") for row in runs} - {None})


def _protected_by_key(end_us: int | None, policy: OraclePolicy, now_us: int) -> frozenset[str]:
    """Every run's id is its idempotency key."""
    age = policy.keep_keys_us
    protects = age == inf or (age is not None and end_us is not None and not end_us + age < now_us)
    return frozenset({"idempotency-key"} if protects else ())


def keep_for_of(root: Row, policy: OraclePolicy) -> float | None:
    """Find the age that is for a root: that of the rule with most conditions, on a tie the longest."""
    found = []
    for rule in policy.rules:
        conditions = [(rule.statuses, root["status"]), (rule.names, root["name"])]
        asked = [(words, value) for words, value in conditions if words is not None]
        if all(value in words for words, value in asked):
            found.append((len(asked), rule.keep_for_us))
    return max(found)[1] if found else policy.keep_for_us


def _kept_by_age(root: Row, end_us: int | None, policy: OraclePolicy, now_us: int) -> frozenset[str]:
    """Name the rules of age that keep a unit; an end that is not known gives them nothing to say."""
    age = keep_for_of(root, policy)
    rules = {"keep-for": age == inf, "within-cap": age is None and not policy.keeps}
    if end_us is not None:
        rules["keep-for"] = age is not None and not end_us + age < now_us
        rules["before"] = policy.before_us is not None and not end_us < policy.before_us
        rules["grace"] = not end_us + policy.grace_us < now_us
    return frozenset(reason for reason, keeps in rules.items() if keeps)


def _kept_by_count(root: Row, roots: list[Row], policy: OraclePolicy, now_us: int) -> frozenset[str]:
    """Keep a root with an end when fewer than `keep_last` counted ones of its group are newer."""
    place = _place(root, now_us)
    if policy.keep_last is None or place is None:
        return frozenset()
    newer = sum(other > place for other in _counted_beside(root, roots, policy, now_us))
    return frozenset({"keep-last"} if newer < policy.keep_last else ())


def _counted_beside(root: Row, roots: list[Row], policy: OraclePolicy, now_us: int) -> list[Place]:
    """Return the places of the counted roots of a root's group."""
    group = [other for other in roots if all(other[column] == root[column] for column in policy.group_by)]
    counted = [other for other in group if policy.keep_last_counts == "any" or other["status"] in SUCCESSFUL]
    return [place for other in counted if (place := _place(other, now_us)) is not None]


def _kept_by_period(root: Row, roots: list[Row], policy: OraclePolicy, now_us: int) -> frozenset[str]:
    """Keep a counted root that is the newest of its period, if fewer than so many periods are later."""
    place = _place(root, now_us)
    if not policy.periods or place is None:
        return frozenset()
    if policy.keep_last_counts != "any" and root["status"] not in SUCCESSFUL:
        return frozenset()
    beside = _counted_beside(root, roots, policy, now_us)
    kept = set()
    for name, count in policy.periods:
        own = _period(name, place[0], policy.zone)
        later = {_period(name, other[0], policy.zone) for other in beside if other > place}
        if own not in later and len(later) < count:
            kept.add(f"keep-{name}")
    return frozenset(kept)


@lru_cache(maxsize=100_000)
def _period(name: str, end_us: int, zone: str) -> str:
    """Spell the period of a moment on the clock of a zone; its offset tells the hour that comes twice."""
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=end_us)).astimezone(ZoneInfo(zone))
    spelled = {"hourly": "%Y-%m-%d %H %z", "daily": "%Y-%m-%d", "weekly": "%G %V", "monthly": "%Y-%m"}
    return moment.strftime(spelled.get(name, "%Y"))


def cap_boundary(roots: list[Row], policy: OraclePolicy, now_us: int) -> Place | None:
    """Return the place of the last ended root that the cap leaves, if there are so many."""
    if policy.cap_units is None:
        return None
    places = sorted(place for root in roots if (place := _place(root, now_us)) is not None)
    return places[-policy.cap_units] if len(places) >= policy.cap_units else None


def _place(root: Row, now_us: int) -> Place | None:
    """Order roots by their own end, then by key as SQLite orders text: byte by byte, NULL first."""
    end, key = _row_end(root, now_us), root["workflow_uuid"]
    as_text = "" if key is None else str(key)
    text = key if isinstance(key, bytes) else as_text.encode("utf-8", "surrogateescape")
    return None if end is None else (end, text)
