"""What a removal makes PostgreSQL do besides: foreign keys and triggers, and whose rights that takes.

A foreign key acts with the rights of the owner of the table that refers, whoever removes. A trigger acts with
those of the role that removes, unless its function is SECURITY DEFINER.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg

ACTIONS: Final = """
WITH RECURSIVE going AS (
    SELECT t AS relation FROM unnest(%(tables)s::oid[]) AS t
    UNION SELECT k.conrelid FROM going g JOIN pg_catalog.pg_constraint k ON k.confrelid = g.relation
        WHERE k.contype = 'f' AND k.confdeltype = 'c'
), links AS (
    SELECT DISTINCT k.conrelid, k.confdeltype FROM going g
        JOIN pg_catalog.pg_constraint k ON k.confrelid = g.relation AND k.contype = 'f'
), acting AS (
    SELECT c.oid, c.relowner, c.relnamespace, pg_catalog.format('%%I', n.nspname) AS space,
        pg_catalog.format('%%I.%%I', n.nspname, c.relname) AS name,
        pg_catalog.format('%%I', pg_catalog.pg_get_userbyid(c.relowner)) AS owner,
        CASE l.confdeltype WHEN 'c' THEN 'DELETE' ELSE 'UPDATE' END AS word
    FROM links l JOIN pg_catalog.pg_class c ON c.oid = l.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
)
SELECT DISTINCT name, owner, space, word,
    pg_catalog.has_schema_privilege(relowner, relnamespace, 'USAGE'),
    pg_catalog.has_table_privilege(relowner, oid, 'SELECT'),
    CASE word WHEN 'DELETE' THEN pg_catalog.has_table_privilege(relowner, oid, 'DELETE')
        ELSE pg_catalog.has_any_column_privilege(relowner, oid, 'UPDATE') END
FROM acting ORDER BY 1, 4
"""
"""Foreign keys to these tables, and to those that go by a cascade: to look for rows and to lock them takes
UPDATE, as does SET NULL; a cascade takes DELETE."""

EMPTIED: Final = """
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname), pg_catalog.format('%%I', a.attname)
FROM unnest(%(relations)s::oid[], %(columns)s::text[]) AS e (relation, name)
    JOIN pg_catalog.pg_class c ON c.oid = e.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = e.name AND a.attnum > 0
WHERE NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'UPDATE')
    AND EXISTS (SELECT 1 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = ANY (%(tables)s) AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
            AND (t.tgtype & 8) <> 0 AND NOT p.prosecdef)
ORDER BY 1, 2
"""
"""Columns that a trigger on DELETE may have to empty, and that this role may not write to."""


def owners_lack(driver: psycopg.Connection[Any], removed: Sequence[int]) -> Iterator[str]:
    """Yield why foreign keys could not do, or look for, what a removal from these tables asks of them."""
    for name, owner, space, word, may_enter, may_read, may_act in driver.execute(
        ACTIONS.encode(), {"tables": list(removed)}
    ).fetchall():
        lacking = f"a foreign key of {name} acts with the rights of the table's owner {owner}, who "
        if not may_enter:
            yield f"{lacking}may not use the schema {space}: GRANT USAGE ON SCHEMA {space} TO {owner}"
        missing = [right for right, has in (("SELECT", may_read), (word, may_act)) if not has]
        if missing:
            rights = ", ".join(missing)
            yield f"{lacking}lacks {rights} on it: GRANT {rights} ON {name} TO {owner}"


def triggers_lack(
    driver: psycopg.Connection[Any],
    removed: Sequence[int],
    *,
    emptied: Sequence[tuple[int, str]],
    role: str,
) -> Iterator[str]:
    """Yield which links of rows that stay a trigger could not empty, as this role may not write to them."""
    if not emptied:
        return
    relations, columns = zip(*emptied, strict=True)
    given = {"tables": list(removed), "relations": list(relations), "columns": list(columns)}
    for table, column in driver.execute(EMPTIED.encode(), given).fetchall():
        yield (
            f"a trigger of the engine empties {table} ({column}) with the rights of whoever removes, and "
            f"this role may not write there: GRANT UPDATE ({column}) ON {table} TO {role}"
        )
