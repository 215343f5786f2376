"""What the server does for a statement, and whether it reads a whole table for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import psycopg
import sqlalchemy as sa

from afterrun.stores.sql.store import SqlStore
from postgres.statement_tap import dialect_of, driver_of

Node: TypeAlias = Mapping[str, Any]

LIVE_INDEXES: Final = {
    "idx_workflow_status_in_flight",
    "idx_workflow_status_in_flight_v2",
    "idx_workflow_status_partition_dequeue_v2",
    "idx_workflow_status_partition_dequeue_v3",
    "idx_workflow_status_pending",
    "idx_workflow_status_deadline",
    "idx_workflow_status_delayed",
}
"""Partial indexes that hold live runs and no others: reading one reads what runs now, not what is kept."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A statement that was run, and how."""

    text: str
    plan: Node


def plan_of(store: SqlStore, statement: sa.ClauseElement, parameters: Mapping[str, object]) -> Node:
    """Ask for the plan that a statement has when the store runs it; it takes the parameters that it knows."""
    dialect = dialect_of(store)
    compiled = statement.compile(dialect._engine, compile_kwargs={"render_postcompile": True})
    given = {name: parameters.get(name, value) for name, value in compiled.params.items()}
    dialect._steer(given)
    return _explain(driver_of(store).cursor(), str(compiled), given)


def nodes(plan: Node) -> Iterator[Node]:
    """Yield all steps of a plan, each before what it reads from."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def shape(plan: Node) -> str:
    """Write a plan on one line."""
    named = [str(plan[key]) for key in ("Relation Name", "Index Name", "Index Cond") if key in plan]
    inner = ", ".join(shape(part) for part in plan.get("Plans", ()))
    return f"{plan['Node Type']}[{' '.join(named)}]({inner})"


def reads_whole(plan: Node, large: Collection[str]) -> list[str]:
    """Return the steps that read a whole table of these, or a whole index other than one of live runs.

    An index of which the first entry is asked for is not read whole.
    """
    found = []
    ones = [node for node in nodes(plan) if node["Node Type"] == "Limit" and node["Plan Rows"] == 1]
    stopped = [id(below) for node in ones for below in node["Plans"]]
    for node in nodes(plan):
        table = node.get("Relation Name")
        walks = "Index" in node["Node Type"] and "Index Cond" not in node and id(node) not in stopped
        if (node["Node Type"].endswith("Seq Scan") and table in large) or (
            walks and node["Index Name"] not in LIVE_INDEXES and (table is None or table in large)
        ):
            found.append(f"{node['Node Type']} {node.get('Index Name', table)}")
    return found


@contextmanager
def explained(store: SqlStore) -> Iterator[list[Explained]]:
    """Collect each statement on the engine's tables with the plan it has at its time and place."""
    driver, seen = driver_of(store), list[Explained]()
    plain = driver.cursor_factory
    mark = f'"{dialect_of(store).schema}".'

    class Explaining(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **words: Any) -> Self:  # noqa: ANN401 - as the driver's
            text = query.decode() if isinstance(query, bytes) else str(query)
            if mark in text and not text.startswith("EXPLAIN"):
                seen.append(Explained(text, _explain(plain(self.connection), text, params)))
            return super().execute(query, params, **words)

    driver.cursor_factory = Explaining
    try:
        yield seen
    finally:
        driver.cursor_factory = plain


def _explain(cursor: psycopg.Cursor[Any], text: str, parameters: Any) -> Node:  # noqa: ANN401 - as the driver's
    told = psycopg.Cursor.execute(cursor, f"EXPLAIN (FORMAT JSON) {text}".encode(), parameters).fetchall()
    found: list[dict[str, Node]] = json.loads(told[0][0])
    return found[0]["Plan"]
