"""Random small DBOS stores, written with the real engine's schema, and random policies to judge them by.

Most runs are healthy. A run that is not differs from a healthy one in a single column, so that a judge that
misreads one column is found by that column. Everything comes from the `random.Random` that is handed in: the
same seed writes the same rows.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from math import inf
from pathlib import Path
from random import Random

from dumps import Row, Value, insert_row, open_unchecked
from oracle import LIVE, TERMINAL, OraclePolicy, OracleRule

SCHEMAS = Path(__file__).parent / "schemas"
VERSIONS = (108, 123, 125)
PAYLOADS_SPLIT = 123  # from here on: workflow_input, workflow_output, retention_timestamp
MAX_RUNS = 60
KNOWN_STATUS_SHARE = 0.7  # one unknown status refuses a whole apply: most stores must have none
FORKED_SHARE = 0.12  # runs that are forks of some other run, or of one that is gone

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
# The ages that policies cut at are also the ages that runs sit on, one millisecond before and one after.
CUT_AGES_US = (HOUR_US, 6 * HOUR_US, DAY_US, 7 * DAY_US, 30 * DAY_US)
RULES = (
    *("keep_for", "before", "keep_last"),
    *("keep_for keep_last", "before keep_last", "keep_for before", "keep_for before keep_last"),
)
PERIODS = ("hourly", "daily", "weekly", "monthly", "yearly")
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu")
GRACES_US = (0, HOUR_US, 3 * DAY_US, 400 * DAY_US)

NAMES = ("import", "report", "mail")
APPLICATIONS = ("shop", "desk")
BAD_TEXT = "\udcff\udcfe"  # stored as the bytes FF FE
ESCAPE = "\x1b[31mred\x1b[0m"
Palette = dict[str, Value]

NO_TIME: Palette = {"null": None}
HOSTILE_STATUS: Palette = {
    "null": None,
    "empty": "",
    "lower case": "success",
    "title case": "Success",
    "spaces": " SUCCESS ",
    "number": 1,
    "blob": b"SUCCESS",
    "non-ascii": "SUCC\u00c8S",
    "control": "SUCCESS\n",
    "escape": ESCAPE,
    "nul": "SUCCESS\0",
    "bad utf-8": "SUCCESS" + BAD_TEXT,
    "other word": "ARCHIVED",
}
HOSTILE_NAME: Palette = {
    "null": None,
    "empty": "",
    "upper case": "IMPORT",
    "trailing space": "import ",
    "number": 7,
    "blob": b"import",
    "emoji": "\U0001f980",
    "nul": "import\0",
    "bad utf-8": BAD_TEXT,
    "markup": "[red]import[/red]",
}
HOSTILE_ID: Palette = {
    "null": None,
    "empty": "",
    "integer": 4711,
    "leading zeros": "007",
    "non-ascii": "l\u00e4uft-\u8d70",
    "decomposed": "la\u0308uft",
    "emoji": "\U0001f3c3\u200d\u2642\ufe0f",
    "single quote": "o'clock",
    "double quote": 'say "hi"',
    "sql": "'); DROP TABLE workflow_status; --",
    "newline": "two\nlines",
    "escape": ESCAPE,
    "markup": "[red]run[/red]",
    "json": '["a", {"b": 1}]',
    "backslash": "c:\\u0041\\n",
    "wildcards": "%_*?[a-z]",
    "surrounding spaces": " run ",
    "very long": "long-" * 1000,
    "nul": "before\0after",
    "bad utf-8": "run-" + BAD_TEXT,
    "blob": b"run-0",
    "upper case": "RUN-0",
}


def hostile_times(now_us: int) -> Palette:
    """List end times in milliseconds that a judge could misread, by what is odd about them."""
    now = now_us // 1000
    old = now - 100 * DAY_US // 1000
    palette: Palette = {
        "empty": "",
        "word": "abc",
        "date": "2026-01-01",
        "digits as text": str(old),
        "padded digits": f" {old} ",
        "digits with letters": f"{old}ms",
        "hexadecimal": hex(old),
        "zero": 0,
        "negative": -old,
        "seconds": old // 1000,
        "last of 1999": 946_684_799_999,
        "first of 2000": 946_684_800_000,
        "microseconds": old * 1000,
        "now": now,
        "just before now": now - 1,
        "just after now": now + 1,
        "five minutes ahead": now + 300_000,
        "past five minutes ahead": now + 300_001,
        "year 9999": 253_402_300_799_000,
        "huge": 2**62,
        "largest": 2**63 - 1,
        "real": old + 0.5,
        "real before 2000": 946_684_799_999.5,
        "real ahead": now + 300_000.5,
        "infinity": float("inf"),
        "minus infinity": float("-inf"),
        "blob": str(old).encode(),
        "bad utf-8": BAD_TEXT,
    }
    for age_us in (*CUT_AGES_US, *(grace for grace in GRACES_US if grace)):
        cut = (now_us - age_us) // 1000
        palette |= {f"cut {age_us}": cut, f"before cut {age_us}": cut - 1, f"after cut {age_us}": cut + 1}
    return palette


@dataclass(slots=True)
class RandomStore:
    """The rows of a store before they are written, and how often each kind of oddity was put in."""

    version: int
    rows: list[tuple[str, Row]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, table: str, row: Row) -> None:
        """Add a row; no column is left to a default that reads the clock."""
        if self.version >= PAYLOADS_SPLIT and table in _PAYLOADS:
            row |= {"retention_timestamp": 1_700_000_000_000}
        self.rows.append((table, row))


@dataclass(slots=True)
class _Run:
    key: Value
    parent: "_Run | Value" = None  # a run, so that a child follows its parent's odd id; or a raw value
    row: Row = field(default_factory=dict)

    @property
    def parent_key(self) -> Value:
        return self.parent.key if isinstance(self.parent, _Run) else self.parent


def write_store(
    rng: Random, path: Path, now_us: int, *, version: int, weird: float, nullable_updated_at: bool = False
) -> None:
    """Write one random store to a new file.

    `weird` is the share of runs with one odd column. `nullable_updated_at` loosens the engine's schema, so
    that a run can have no time at all; the engine itself refuses that.
    """
    store = random_store(rng, now_us, version=version, weird=weird, nullable_updated_at=nullable_updated_at)
    create_store(path, version, nullable_updated_at=nullable_updated_at)
    with open_unchecked(path) as connection:
        for table, row in store.rows:
            insert_row(connection, table, row)


def create_store(path: Path, version: int, *, nullable_updated_at: bool = False) -> None:
    """Make an empty store as the engine makes it."""
    schema = (SCHEMAS / f"dbos-{version}.sql").read_text(encoding="utf-8")
    if nullable_updated_at:
        schema = schema.replace("    updated_at INTEGER NOT NULL", "    updated_at INTEGER", 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA synchronous = OFF; BEGIN; {schema} COMMIT;")


def random_store(
    rng: Random, now_us: int, *, version: int, weird: float, nullable_updated_at: bool = False
) -> RandomStore:
    """Make the rows of one random store."""
    store = RandomStore(version)
    runs = _forest(rng, store)
    known_only = rng.random() < KNOWN_STATUS_SHARE
    _fill_healthy(rng, runs, now_us)
    oddity = _Oddity(rng, store, runs, now_us, known_only=known_only, nullable_updated_at=nullable_updated_at)
    for run in runs:
        if rng.random() < weird:
            oddity.put(run)
    for run in rng.sample(runs, len(runs)):  # row order says nothing about tree order
        keys: Row = {"workflow_uuid": run.key, "parent_workflow_id": run.parent_key}
        if rng.random() < FORKED_SHARE:
            keys["forked_from"] = rng.choice((rng.choice(runs).key, "no-such-run"))
        store.add("workflow_status", keys | run.row)
    _own(rng, store, runs)
    return store


def random_policy(rng: Random, now_us: int, keys: tuple[str, ...] = ()) -> OraclePolicy:
    """Make a policy that is never empty; pins come from `keys`, common ids and ids that no store has."""
    chosen = rng.choice(RULES).split()
    before_us = now_us - rng.choice((-DAY_US, 0, *CUT_AGES_US))
    plain = OraclePolicy(
        keep_for_us=rng.choice(CUT_AGES_US) if "keep_for" in chosen else None,
        before_us=before_us if "before" in chosen else None,
        keep_last=rng.choice((1, 1, 2, 3, 10)) if "keep_last" in chosen else None,
        keep_last_counts=rng.choice(("successful", "any")),
        group_by=rng.choice(((), ("name",), ("application_name",), ("name", "application_name"))),
        grace_us=rng.choices(GRACES_US, (4, 8, 2, 1))[0],
        pins=_random_pins(rng, keys),
    )
    return plain if rng.random() < 0.4 else _refined(rng, plain)


def _refined(rng: Random, plain: OraclePolicy) -> OraclePolicy:
    """Add some of the rarer rules, or put them in place of the plain ones."""
    refined = replace(plain, keep_keys_us=rng.choice((None, None, None, None, 40 * DAY_US, inf)))
    if rng.random() < 0.5:
        names = rng.sample(PERIODS, rng.randint(1, 3))
        periods = tuple((name, rng.choice((1, 2, 3, 7))) for name in names)
        refined = replace(refined, periods=periods, zone=rng.choice(ZONES))
    if rng.random() < 0.4:
        refined = replace(refined, cap_units=rng.choice((1, 2, 3, 5, 10, 40)))
    if rng.random() < 0.4:
        refined = replace(refined, rules=_random_rules(rng))
    if rng.random() < 0.4 and (refined.periods or refined.cap_units is not None):
        return replace(refined, keep_for_us=None, before_us=None, keep_last=None)
    return refined


def _random_rules(rng: Random) -> tuple[OracleRule, ...]:
    """Make narrower rules, no two of which have the same conditions."""
    rules = {}
    for _ in range(rng.randint(1, 3)):
        statuses = rng.choice((None, ("SUCCESS",), ("ERROR", "CANCELLED"), ("ERROR",)))
        names = rng.choice((None, ("import",), ("mail", "report")))
        if statuses or names:
            rules[statuses, names] = OracleRule(statuses, names, rng.choice((*CUT_AGES_US, inf)))
    return tuple(rules.values())


def _random_pins(rng: Random, keys: tuple[str, ...]) -> frozenset[str]:
    if rng.random() < 0.5:
        return frozenset()
    known = rng.sample(keys, min(len(keys), rng.randint(0, 2))) if keys else []
    return frozenset([*known, *rng.sample(("run-0", "run-1", "run-5", "no-such-run"), rng.randint(0, 2))])


# Shapes: each adds runs until its size is reached


def _forest(rng: Random, store: RandomStore) -> list[_Run]:
    wanted = rng.choice((rng.randint(1, 5), rng.randint(1, 20), rng.randint(1, MAX_RUNS)))
    keys = (f"run-{number}" for number in count())
    runs: list[_Run] = []
    while len(runs) < wanted:
        shape, grow = rng.choices(_SHAPES, _SHAPE_WEIGHTS)[0]
        room = wanted - len(runs)
        added = grow(
            rng, [_Run(next(keys)) for _ in range(min(room, rng.choice((1, 2, 3, 4, 8, 30, MAX_RUNS))))]
        )
        store.kinds.append(f"shape: {shape}")
        runs += added
    return runs


def _singles(_rng: Random, runs: list[_Run]) -> list[_Run]:
    return runs


def _chain(_rng: Random, runs: list[_Run]) -> list[_Run]:
    for parent, child in pairwise(runs):
        child.parent = parent
    return runs


def _fan(_rng: Random, runs: list[_Run]) -> list[_Run]:
    for child in runs[1:]:
        child.parent = runs[0]
    return runs


def _tree(rng: Random, runs: list[_Run]) -> list[_Run]:
    for number, child in enumerate(runs[1:], start=1):
        child.parent = rng.choice(runs[:number])
    return runs


def _missing_parent(rng: Random, runs: list[_Run]) -> list[_Run]:
    _tree(rng, runs)[0].parent = f"gone-{runs[0].key!r}"
    return runs


def _siblings_without_parent(_rng: Random, runs: list[_Run]) -> list[_Run]:
    for run in runs:
        run.parent = "gone"
    return runs


def _self_cycle(rng: Random, runs: list[_Run]) -> list[_Run]:
    _tree(rng, runs)[0].parent = runs[0]
    return runs


def _two_node_cycle(rng: Random, runs: list[_Run]) -> list[_Run]:
    _tree(rng, runs)[0].parent = runs[min(1, len(runs) - 1)]
    return runs


def _long_cycle(_rng: Random, runs: list[_Run]) -> list[_Run]:
    _chain(_rng, runs)[0].parent = runs[-1]
    return runs


_SHAPES: tuple[tuple[str, Callable[[Random, list[_Run]], list[_Run]]], ...] = (
    ("singles", _singles),
    ("chain", _chain),
    ("fan", _fan),
    ("tree", _tree),
    ("missing parent", _missing_parent),
    ("siblings without parent", _siblings_without_parent),
    ("self cycle, with tail", _self_cycle),
    ("two-node cycle, with tail", _two_node_cycle),
    ("long cycle", _long_cycle),
)
_SHAPE_WEIGHTS = (5, 3, 3, 6, 2, 1, 1, 1, 1)


def _fill_healthy(rng: Random, runs: list[_Run], now_us: int) -> None:
    """Fill all columns as the engine does, with mostly finished runs, mostly old, live ones anywhere."""
    live_share = rng.choice((0.0, 0.0, 0.03, 0.3))
    oldest_days = rng.choice((1, 10, 100, 100, 1000))
    tree_age_us: dict[int, int] = {}
    for run in runs:
        age_us = tree_age_us.setdefault(id(_top(run)), rng.randint(0, oldest_days * DAY_US))
        end = (now_us - max(0, age_us - rng.randint(0, HOUR_US))) // 1000
        status = rng.choice(LIVE) if rng.random() < live_share else rng.choices(TERMINAL, (6, 2, 1, 1))[0]
        run.row = {
            "status": status,
            "name": rng.choice(NAMES),
            "application_name": rng.choice((*APPLICATIONS, None)),
            "created_at": end - 5000,
            "updated_at": end + rng.choice((0, 0, 7)),
            "completed_at": None
            if status in LIVE or rng.random() < 0.15
            else end,  # NULL: ended before migration 36
        }


def _top(run: _Run) -> _Run:
    seen = {id(run)}
    while isinstance(run.parent, _Run) and id(run.parent) not in seen:
        run = run.parent
        seen.add(id(run))
    return run


# Oddities: one column of one run


@dataclass(slots=True)
class _Oddity:
    rng: Random
    store: RandomStore
    runs: list[_Run]
    now_us: int
    known_only: bool
    nullable_updated_at: bool

    def put(self, run: _Run) -> None:
        """Change one column of one run."""
        makers = [self._completed_at, self._updated_at, self._key, self._parent, self._group]
        if not self.known_only:
            makers += [self._status, self._status]
        self.rng.choice(makers)(run)

    def _status(self, run: _Run) -> None:
        run.row["status"] = self._draw("status", HOSTILE_STATUS)

    def _completed_at(self, run: _Run) -> None:
        run.row["completed_at"] = self._draw("completed_at", NO_TIME | hostile_times(self.now_us))

    def _updated_at(self, run: _Run) -> None:
        """Make `updated_at` odd: half the time as the only time there is, half the time behind a good one."""
        if self.rng.random() < 0.5:
            run.row["completed_at"] = None
        no_time = self.nullable_updated_at and self.rng.random() < 0.5
        run.row["updated_at"] = self._draw("updated_at", NO_TIME if no_time else hostile_times(self.now_us))

    def _key(self, run: _Run) -> None:
        key = self._draw("id", HOSTILE_ID)
        taken = {str(other.key) for other in self.runs}
        if key is None:
            for child in self.runs:  # nothing can point at a NULL key: its children keep the id that is gone
                child.parent = run.key if child.parent is run else child.parent
        if key is None or str(key) not in taken:
            run.key = key

    def _parent(self, run: _Run) -> None:
        other = self.rng.choice(self.runs).key
        palette: Palette = {
            "null": None,
            "empty": "",
            "own id": run.key,
            "missing": "no-such-run",
            "other case": other.upper() if isinstance(other, str) else "RUN-0",
            "space": f"{other!s} " if isinstance(other, str) else "run-0 ",
            "blob": b"run-0",
            "bad utf-8": BAD_TEXT,
            "nul": "run-0\0",
            "number": 4711,
            "another run": other,
        }
        run.parent = self._draw("parent", palette)

    def _group(self, run: _Run) -> None:
        column = self.rng.choice(("name", "application_name"))
        run.row[column] = self._draw(column, HOSTILE_NAME)

    def _draw(self, column: str, palette: Palette) -> Value:
        label = self.rng.choice(sorted(palette))
        self.store.kinds.append(f"{column}: {label}")
        return palette[label]


# Owned rows and references

_Maker = Callable[[Random, Value, int], Row]


def _own(rng: Random, store: RandomStore, runs: list[_Run]) -> None:
    """Add owned rows of runs, orphans of no run, and references, in every table of the version."""
    keys = [run.key for run in runs if run.key is not None]
    orphans: list[Value] = [
        key for key in ("no-such-run", "", "RUN-1", "x" + BAD_TEXT, b"orphan") if key not in keys
    ]
    owners = [*keys, *rng.sample(orphans, rng.choice((0, 0, 1, 3)))]
    serial = count(1)
    for table, (most, make) in _TABLES.items():
        if store.version < PAYLOADS_SPLIT and table in _SINCE_SPLIT:
            continue
        for owner in owners:
            for _ in range(rng.randint(0, most)):
                store.kinds.append(f"owned: {table}" if owner in keys else f"orphan: {table}")
                store.add(table, make(rng, owner, next(serial)))
    _refer(rng, store, runs, owners, serial)


def _refer(
    rng: Random, store: RandomStore, runs: list[_Run], owners: list[Value], serial: Iterator[int]
) -> None:
    """Add steps that name another run: children as the engine does, and any run at all."""
    for run in runs:
        parent = run.parent_key
        if isinstance(run.parent, _Run) and parent is not None and rng.random() < 0.5:
            store.add("operation_outputs", _step(parent, run.key, next(serial)))
    live = [run.key for run in runs if run.row["status"] in LIVE and run.key is not None]
    for _ in range(rng.choice((0, 0, 1, 3, len(runs) // 3))):
        owner = rng.choice(live if live and rng.random() < 0.5 else owners or ["no-such-run"])
        child = rng.choice(
            (rng.choice(runs).key, rng.choice(runs).key, owner, "no-such-run", "", "RUN-0", None)
        )
        store.kinds.append(f"reference: {'live' if owner in live else 'other'}")
        store.add("operation_outputs", _step(owner, child, next(serial)))


def _step(owner: Value, child: Value, serial: int) -> Row:
    return {
        "workflow_uuid": owner,
        "function_id": serial,
        "function_name": "step",
        "output": f"out {serial}",
        "child_workflow_id": child,
    }


def _event(_rng: Random, owner: Value, serial: int) -> Row:
    return {"workflow_uuid": owner, "key": f"key {serial}", "value": "v"}


def _numbered_event(rng: Random, owner: Value, serial: int) -> Row:
    return _event(rng, owner, serial) | {"function_id": rng.randint(0, 9)}


def _chunk(rng: Random, owner: Value, serial: int) -> Row:
    return _event(rng, owner, serial) | {"offset": rng.randint(0, 9)}


def _message(rng: Random, owner: Value, serial: int) -> Row:
    return {
        "message_uuid": f"message {serial}",
        "destination_uuid": owner,
        "topic": rng.choice(("topic", None)),
        "message": "m",
        "created_at_epoch_ms": 1_700_000_000_000 + serial,
        "consumed": rng.randint(0, 1),
    }


def _payload(column: str) -> _Maker:
    def make(_rng: Random, owner: Value, serial: int) -> Row:
        return {"workflow_uuid": owner, column: f"payload {serial}"}

    return make


def _plain_step(_rng: Random, owner: Value, serial: int) -> Row:
    return _step(owner, None, serial)


_SINCE_SPLIT = ("workflow_input", "workflow_output")
_PAYLOADS = (*_SINCE_SPLIT, "operation_outputs")
_TABLES: dict[str, tuple[int, _Maker]] = {
    "operation_outputs": (3, _plain_step),
    "workflow_input": (1, _payload("inputs")),
    "workflow_output": (1, _payload("output")),
    "workflow_events": (2, _event),
    "workflow_events_history": (2, _numbered_event),
    "streams": (2, _chunk),
    "notifications": (2, _message),
}
