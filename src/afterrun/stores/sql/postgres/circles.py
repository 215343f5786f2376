"""Foreign keys of rows to rows that come back after them.

A run of Prefect leads to its state, and that to its run: no order of tables is right for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from psycopg import sql

from afterrun.stores.sql.postgres.copying import FORMAT, NOTHING, copied_in
from afterrun.stores.sql.postgres.dialect import Postgres
from afterrun.stores.sql.postgres.errors import classified


class Circle:
    """Foreign keys of a table that lead to rows which themselves lead to its rows, directly or not.

    No order of tables is right for those: the columns come in as NULL, and get their values at the end.
    """

    def __init__(
        self,
        dialect: Postgres,
        place: tuple[str, str],
        *,
        columns: Sequence[str],
        key: str,
        links: Sequence[str],
    ) -> None:
        """Compile the statements. ``place`` is the table with its schema, ``columns`` are those of a line."""
        self._dialect = dialect
        self._at = [columns.index(name) for name in (key, *links)]
        names = sql.SQL(", ").join(map(sql.Identifier, (key, *links)))
        self._table, self._aside = sql.Identifier(*place), sql.Identifier("pg_temp", "afterrun-links")
        self._make = sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WHERE false").format(
            sql.Identifier("afterrun-links"), names, self._table
        )
        self._write = sql.SQL("COPY {} ({}) FROM STDIN {}").format(self._aside, names, sql.SQL(FORMAT))
        self._set = sql.SQL("UPDATE {} AS r SET {} FROM {} AS a WHERE r.{} = a.{}").format(
            self._table,
            sql.SQL(", ").join(sql.SQL("{0} = a.{0}").format(sql.Identifier(name)) for name in links),
            self._aside,
            sql.Identifier(key),
            sql.Identifier(key),
        )
        self._rest: list[bytes] = []

    def opened(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield rows without the links, and remember those that have any."""
        self._rest = []
        for line in lines:
            values = line.removesuffix(b"\n").split(b"\t")
            kept = [values[place] for place in self._at]
            if any(value != NOTHING for value in kept[1:]):
                self._rest.append(b"\t".join(kept) + b"\n")
            for place in self._at[1:]:
                values[place] = NOTHING
            yield b"\t".join(values) + b"\n"

    def close(self) -> None:
        """Set the links of the rows that came in, in the same transaction."""
        if not self._rest:
            return
        with classified():
            self._dialect.driver.execute(self._make)
        copied_in(self._dialect, self._write, self._rest)
        with classified():
            self._dialect.driver.execute(self._set)
            self._dialect.driver.execute(sql.SQL("DROP TABLE {}").format(self._aside))
        self._rest = []
