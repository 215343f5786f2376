"""Big Prefect stores: copies of one finished run with all its rows, written with set-based SQL.

Ids are spread or ordered as the engine's own are: where those of a table hold a time (version 7), so do the
copies'. Indexes are made anew after filling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .prefect_stores import OWNERS, TIME, SqliteStore, Store

SOURCE: Final = "bulk"
"""Name of the run that is copied: 4 tasks, of which one is tried again twice: 23 rows without logs."""

TABLES: Final = ("flow_run", "flow_run_state", "task_run", "task_run_state", "artifact")
"""What its rows are in; its logs are left out."""

IDS: Final[Mapping[str, Sequence[str]]] = {
    "flow_run": ("id", "state_id"),
    "flow_run_state": ("id", "flow_run_id", "result_artifact_id"),
    "task_run": ("id", "flow_run_id", "state_id"),
    "task_run_state": ("id", "task_run_id", "result_artifact_id"),
    "artifact": ("id", "flow_run_id", "task_run_id"),
}
"""Columns that hold ids of rows which are copied, too."""

DAY: Final = 86_400
SCATTER: Final = 2_654_435_761
"""Odd, so that its products are all different in 32 bits."""
APART: Final = 97_531_357
"""Keeps the scattered ids of one run's rows apart."""


def grow(store: Store, runs: int, *, days: float = 40.0, spread: float = 30.0, analyze: bool = True) -> int:
    """Add so many copies of the run, ended ``days`` ago and up to ``spread`` days before; return their rows.

    Statistics are gathered unless ``analyze`` says no.
    """
    columns = store.columns()
    step = spread * DAY / runs
    indexes = _indexes(store)
    one = f"SELECT id FROM flow_run WHERE name = '{SOURCE}'"
    source = {table: OWNERS[table].format(runs=one) for table in TABLES}
    union = " UNION ALL ".join(f"SELECT id FROM {table} WHERE {source[table]}" for table in TABLES)
    fills = [
        f"INSERT INTO {table} ({', '.join(columns[table])}) "
        f"SELECT {', '.join(_value(store, table, name, runs, days, step) for name in columns[table])} "
        f"FROM clone c CROSS JOIN source_{table} t {_joins(table)} ORDER BY c.n"
        for table in TABLES
    ]
    if store.kind == "sqlite":
        store.change("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF")
    store.change(
        *(["PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"] if store.kind == "sqlite" else []),
        *(
            f"CREATE TEMP TABLE source_{table} AS SELECT * FROM {table} WHERE {source[table]}"
            for table in TABLES
        ),
        f"CREATE TEMP TABLE ids AS SELECT id AS old, row_number() OVER () AS k FROM ({union}) AS u",
        f"CREATE TEMP TABLE clone AS WITH RECURSIVE n(n) AS "
        f"(SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {runs}) SELECT n FROM n",
        *(f"DROP INDEX {name}" for name, _ in indexes),
        *fills,
        *(made for _, made in indexes),
    )
    if store.kind == "sqlite":
        store.rows("PRAGMA journal_mode = WAL")
    if analyze:
        store.change("ANALYZE")
    return runs * sum(
        int(store.rows(f"SELECT count(*) FROM {table} WHERE {source[table]}")[0][0]) for table in TABLES
    )


def _indexes(store: Store) -> list[tuple[str, str]]:
    """Return the indexes that keep nothing unique, each with what makes it."""
    tables = ", ".join(f"'{table}'" for table in TABLES)
    if isinstance(store, SqliteStore):
        found = store.rows(
            f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({tables}) "
            "AND sql LIKE 'CREATE INDEX%'"
        )
    else:
        found = store.rows(
            "SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public' "
            f"AND tablename IN ({tables}) AND indexdef LIKE 'CREATE INDEX%'"
        )
    return [(f'"{name}"', made) for name, made in found]


def _joins(table: str) -> str:
    return " ".join(f"LEFT JOIN ids AS i_{name} ON i_{name}.old = t.{name}" for name in IDS[table])


def _value(store: Store, table: str, name: str, runs: int, days: float, step: float) -> str:
    if name in IDS[table]:
        return _id(store, f"t.{name}", f"i_{name}.k")
    if table == "flow_run" and name == "name":
        return "'clone-' || c.n"
    if TIME.search(name):
        return _earlier(store, f"t.{name}", f"({days * DAY} + {step} * ({runs} - c.n))")
    return f"t.{name}"


def _id(store: Store, column: str, place: str) -> str:
    """Return the copy's id: another start, in the order of copies where the id holds a time."""
    text = f"CAST({column} AS text)"
    scattered = f"((c.n * {SCATTER} + {place} * {APART}) & 4294967295)"
    ordered = f"(c.n + {place} * 0)"
    number = f"CASE WHEN substr({text}, 15, 1) = '7' THEN {ordered} ELSE {scattered} END"
    if store.kind == "sqlite":
        return f"CASE WHEN {column} IS NOT NULL THEN printf('%08x', {number}) || substr({text}, 9) END"
    return f"CAST(lpad(to_hex({number}), 8, '0') || substr({text}, 9) AS uuid)"


def _earlier(store: Store, column: str, seconds: str) -> str:
    if store.kind == "sqlite":
        whole = f"datetime(substr({column}, 1, 19), '-' || CAST({seconds} AS integer) || ' seconds')"
        return f"{whole} || substr({column}, 20)"
    return f"{column} - make_interval(secs => {seconds})"
