"""Big stores in seconds: copies of one real finished run, written with set-based SQL.

The schema, the settings and every row come from a store the engine made. What varies is
the id, the times and, for trees, the links between parent and child.
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict, Unpack

Shape = Literal["flat", "tree"]

DAY_MS = 86_400_000
MARGIN_MS = 3_600_000
"""No run ends within an hour of the line between expired and young, or of now."""
CACHE_KIB = 262_144
"""Page cache while writing; ids are random, so a small cache would thrash."""
LINKING_RUN = "tree-parent"
"""The run whose rows show how the engine records starting and awaiting a child."""

_TIME_COLUMN = re.compile(r"(_at|_epoch_ms|^retention_timestamp)$")
_KEYS = ("workflow_uuid", "destination_uuid")
_SINGLE: tuple[int | None, ...] = (None,)
_FAN: tuple[int | None, ...] = (None, 0, 0, 0)
_CHAIN: tuple[int | None, ...] = (None, 0, 1)
_PATTERNS: dict[Shape, tuple[tuple[int | None, ...], ...]] = {
    "flat": (_SINGLE,),
    "tree": (_FAN, _SINGLE, _CHAIN, _FAN, _SINGLE, _CHAIN, _FAN, _SINGLE, _CHAIN, _SINGLE),
}
"""For each unit in turn, the position of every member's parent within the unit."""


class CloneOptions(TypedDict, total=False):
    """How copies differ from the run they are made of."""

    shape: Shape
    """Singles, or parents with three children, chains of three and singles, 3:3:4 (default: flat)."""
    age_days: float
    """Age that parts expired from young units (default: 30)."""
    spread_days: float
    """Time over which the expired ones ended before that (default: 30)."""
    expired: float
    """Share of the units that are older than `age_days` (default: 1)."""
    run_id: str
    """The run to copy (default: simple-1)."""
    journal: Literal["delete", "wal"]
    """Journal mode of the store (default: delete, as the engine leaves it)."""
    analyze: bool
    """Whether to gather statistics, which the engine never does (default: no)."""
    now_ms: int
    """The instant ages count from, in epoch milliseconds (default: now)."""
    seed: int
    """Start of the random ids and times (default: 1)."""


@dataclass(frozen=True, slots=True)
class Clone:
    """What a cloned store holds; a unit is a run without parent and all below it."""

    runs: int
    units: int
    expired_runs: int
    expired_units: int
    rows: dict[str, int]
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Ages:
    """How the end times of units are laid out, oldest first."""

    now_ms: int
    line_ms: int
    spread_ms: int
    expired: float

    def expired_units(self, units: int) -> int:
        return round(self.expired * units)

    def age(self, unit: int, units: int, noise: float) -> int:
        """Return the age of a unit, evenly spread with `noise` (0 to 1) within its slot."""
        old = self.expired_units(units)
        if unit < old:
            return self.line_ms + MARGIN_MS + int(self.spread_ms * (old - unit - noise) / old)
        young = units - old
        room = self.line_ms - 2 * MARGIN_MS
        return MARGIN_MS + int(room * (units - unit - noise) / young)


def clone_from(source: Path, path: Path, *, runs: int, **options: Unpack[CloneOptions]) -> Clone:
    """Write `runs` finished copies of one run of `source` to a new store.

    See `CloneOptions`. Times differ from unit to unit and rows lie in the order of time.
    The same arguments make the same ids.
    """
    if path.exists():
        raise FileExistsError(path)
    begin = time.perf_counter()
    ages = _ages(options)
    units = _units(runs, options.get("shape", "flat"))
    run_id = options.get("run_id", "simple-1")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        indexes = _prepare(connection, source)
        _plan(connection, units, ages, run_id, random.Random(options.get("seed", 1)))
        rows = _fill(connection, run_id)
        for statement in indexes:
            connection.execute(statement)
        if options.get("analyze", False):
            connection.execute("ANALYZE")
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA main.journal_mode = {options.get('journal', 'delete')}")
    old = ages.expired_units(len(units))
    return Clone(
        runs=runs,
        units=len(units),
        expired_runs=sum(len(unit) for unit in units[:old]),
        expired_units=old,
        rows=rows,
        bytes=path.stat().st_size,
        seconds=time.perf_counter() - begin,
    )


def _ages(options: CloneOptions) -> _Ages:
    line = round(options.get("age_days", 30.0) * DAY_MS)
    if line <= 2 * MARGIN_MS:
        raise ValueError("age_days must leave room for runs younger than it")
    return _Ages(
        now_ms=options.get("now_ms", time.time_ns() // 1_000_000),
        line_ms=line,
        spread_ms=round(options.get("spread_days", 30.0) * DAY_MS),
        expired=options.get("expired", 1.0),
    )


def _units(runs: int, shape: Shape) -> list[tuple[int | None, ...]]:
    """Cut the runs into units; what is left over at the end is singles."""
    patterns = _PATTERNS[shape]
    units: list[tuple[int | None, ...]] = []
    left = runs
    while left > 0:
        unit = patterns[len(units) % len(patterns)]
        units.append(unit if len(unit) <= left else _SINGLE)
        left -= len(units[-1])
    return units


def _prepare(connection: sqlite3.Connection, source: Path) -> list[str]:
    """Give a new store the source's tables; return the indexes, to be made after filling."""
    connection.execute("ATTACH ? AS source", (str(source),))
    for pragma in ("page_size", "auto_vacuum", "encoding", "user_version"):
        value = connection.execute(f"PRAGMA source.{pragma}").fetchone()[0]
        connection.execute(f"PRAGMA main.{pragma} = '{value}'")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA main.journal_mode = OFF")
    connection.execute("BEGIN")
    made = connection.execute(
        "SELECT type, sql FROM source.sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for kind, statement in made:
        if kind == "table":
            connection.execute(statement)
    return [statement for kind, statement in made if kind != "table"]


def _plan(
    connection: sqlite3.Connection,
    units: list[tuple[int | None, ...]],
    ages: _Ages,
    run_id: str,
    chance: random.Random,
) -> None:
    """Write which run is cloned under which id, and which run starts which child."""
    query = "SELECT completed_at FROM source.workflow_status WHERE workflow_uuid = ?"
    found = connection.execute(query, (run_id,)).fetchone()
    if found is None or found[0] is None:
        raise ValueError(f"{run_id} is not a finished run of the source")
    ended: int = found[0]
    query = "SELECT max(function_id) FROM source.operation_outputs WHERE workflow_uuid = ?"
    steps: int = connection.execute(query, (run_id,)).fetchone()[0] or 0
    connection.execute(
        "CREATE TEMP TABLE clone (n INTEGER PRIMARY KEY, id TEXT, parent TEXT, step INT, shift INT)"
    )
    connection.executemany(
        "INSERT INTO clone (id, parent, step, shift) VALUES (?, ?, ?, ?)",
        _clones(units, ages, ages.now_ms - ended, steps, chance),
    )


def _clones(
    units: list[tuple[int | None, ...]],
    ages: _Ages,
    offset: int,
    steps: int,
    chance: random.Random,
) -> Iterator[tuple[str, str | None, int | None, int]]:
    """Yield id, parent, the parent's step that starts it, and the shift of all times.

    Ids of children are the parent's and the step, as the engine names them. A child ends
    a second before its parent; each child takes two steps: start and result.
    """
    for index, unit in enumerate(units):
        shift = offset - ages.age(index, len(units), chance.random())
        ids: list[str] = []
        shifts: list[int] = []
        children: dict[int, int] = {}
        for above in unit:
            if above is None:
                ids.append(str(uuid.UUID(int=chance.getrandbits(128), version=4)))
                shifts.append(shift)
                yield ids[0], None, None, shift
                continue
            step = steps + 1 + 2 * children.get(above, 0)
            children[above] = children.get(above, 0) + 1
            ids.append(f"{ids[above]}-{step}")
            shifts.append(shifts[above] - 1_000 * children[above])
            yield ids[-1], ids[above], step, shifts[-1]


def _fill(connection: sqlite3.Connection, run_id: str) -> dict[str, int]:
    """Write all rows; return how many went into each table that has a run's id."""
    tables = [
        name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type='table'")
    ]
    rows: dict[str, int] = {}
    for table in tables:
        columns = [row[1] for row in connection.execute(f'PRAGMA main.table_info("{table}")')]
        key = next((column for column in columns if column in _KEYS), None)
        if key is None:
            connection.execute(f'INSERT INTO main."{table}" SELECT * FROM source."{table}"')
            continue
        rows[table] = _copy(connection, table, columns, {key: "c.id"}, f't."{key}" = ?', run_id)
    rows["operation_outputs"] += _link(connection)
    return rows


def _link(connection: sqlite3.Connection) -> int:
    """Record in each parent that it started its children and read their results."""
    columns = [row[1] for row in connection.execute("PRAGMA main.table_info(operation_outputs)")]
    values = {
        "workflow_uuid": "c.parent",
        "child_workflow_id": "c.id",
        "function_id": "c.step + (t.function_name = 'DBOS.getResult')",
    }
    wanted = """c.parent IS NOT NULL AND t.workflow_uuid = ? AND t.child_workflow_id =
        (SELECT min(child_workflow_id) FROM source.operation_outputs
         WHERE workflow_uuid = t.workflow_uuid)"""
    return _copy(connection, "operation_outputs", columns, values, wanted, LINKING_RUN)


def _copy(
    connection: sqlite3.Connection,
    table: str,
    columns: list[str],
    values: dict[str, str],
    wanted: str,
    run_id: str,
) -> int:
    """Copy a run's rows once for each planned clone, in the order of the plan."""
    fixed = {
        "parent_workflow_id": "c.parent",
        "message_uuid": "hex(randomblob(16))",  # the engine's own default
        **values,
    }
    chosen = [
        fixed.get(column, f't."{column}" + c.shift' if _TIME_COLUMN.search(column) else f't."{column}"')
        for column in columns
    ]
    cursor = connection.execute(
        f'INSERT INTO main."{table}" SELECT {", ".join(chosen)} '
        f'FROM temp.clone AS c CROSS JOIN source."{table}" AS t WHERE {wanted} ORDER BY c.n',
        (run_id,),
    )
    return cursor.rowcount
