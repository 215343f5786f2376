"""The SQL of row tables, statement by statement.

`AFTERRUN_WRITE_GOLDEN=1 pytest tests/row_policies/test_row_sql.py` writes the files anew; look at the
difference before you keep it.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from afterrun.core.policy import DEFAULT_GRACE
from afterrun.core.row_rules import RowRules
from afterrun.stores.sql.row_statements import RowStatements
from afterrun.stores.sql.rows import SqlRows
from row_policies.memory_rows import NOW
from row_policies.tables import Shop

GOLDEN = Path(__file__).parent / "golden"
HOW = "-- Written by: AFTERRUN_WRITE_GOLDEN=1 pytest tests/row_policies/test_row_sql.py\n"

WEEK: Final = RowRules(keep_for=timedelta(days=7))
RULES: Final = {
    "logs": WEEK,
    "events": WEEK,
    "tasks": RowRules(keep_for=timedelta(days=7), statuses=("ok",)),
    "results": RowRules(keep_latest=2),
    "marks": WEEK,
}
PLACES: Final = {"logs": (1, 1), "events": ("a", 1), "tasks": (1, 1), "results": (1,), "marks": (1, "r", 1)}
"""Where a page ended: the raw end, if an index orders by it, and what orders rows of one moment."""


def statements(table: SqlRows) -> Iterator[tuple[str, sa.ClauseElement]]:
    """Yield all statements of one row table, by name."""
    made: RowStatements = table.statements
    place = PLACES[table.name]
    yield "first page", made.first
    yield from ((f"next page {n}", page) for n, page in enumerate(made.positions(place)))
    if made.indexed:
        yield "beyond pages", made.beyond(pages=True)
    yield "all, where no page is read", made.beyond(pages=False)
    yield "newest kept", made.newest
    yield "candidates", made.candidates
    yield "backlog", made.backlog(None)
    yield "backlog after a place", made.backlog(place)
    yield "check", made.fresh
    yield from ((f"count {name}", counted) for name, counted in made.owned_counts)
    yield from ((f"measure {n}", measured) for n, measured in enumerate(made.measures))
    yield from ((f"delete {name}", delete) for name, delete in made.owned)
    yield f"delete {table.binding.rows.table}", made.delete


def compiled(shop: Shop) -> tuple[str, dict[str, str]]:
    """Return the name of a dialect, and the statements of all row tables, each on one line."""
    found: dict[str, str] = {}
    with shop.open() as retention:
        store = retention.store
        for name, rules in RULES.items():
            profile = store.profile.units.rows[name]
            table = SqlRows(store, name, profile, rules, now=NOW, grace=DEFAULT_GRACE)
            assert table.problems == []
            for what, statement in statements(table):
                text = re.sub(r"\s+", " ", store.dialect.sql(statement)).strip()
                found[f"{name}: {what}"] = text
        return store.dialect.name, found


def test_the_statements_are_the_reviewed_ones(shop: Shop) -> None:
    """The SQL of each database is what its golden file says."""
    name, found = compiled(shop)
    parts = (
        f"\n-- {what}\n{textwrap.fill(text, 110, break_long_words=False)};\n" for what, text in found.items()
    )
    path, text = GOLDEN / f"shop.{name}.sql", HOW + "".join(parts)
    if os.environ.get("AFTERRUN_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), HOW
