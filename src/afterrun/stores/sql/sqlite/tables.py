"""Bytes by table of a SQLite file: exact by reading every page, or estimated from samples in a moment.

An estimate packs sampled rows into pages as SQLite does. What all tables and indexes take together is known
exactly, so indexes, whose pages are never quite full, share what tables leave of it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from afterrun.core.errors import Refused
from afterrun.core.inspection import TableSize
from afterrun.profiles import TableShape
from afterrun.stores.sql.sqlite.errors import classified

DBSTAT: Final = "dbstat"
"""The virtual table that reads every page; not every SQLite is built with it."""

WINDOWS: Final = 128
WINDOW: Final = 16
"""Windows of row numbers that are read of each table, evenly spread, and numbers in each at first."""

ENOUGH: Final = 500
"""Rows of a sample; where row numbers are sparse, windows grow until there are as many."""

WHOLE: Final = WINDOWS * WINDOW * 2
"""Span of row numbers up to which a table is read whole."""

FULLEST: Final = 1.0
EMPTIEST: Final = 1.5
"""An index takes this many times the bytes of its entries: built at once, or filled in random order."""

INTERIOR: Final = 14
"""Bytes that a page takes in the page above it."""

ONE_BYTE: Final = 127
"""Largest length that takes one byte in a record or a cell."""

_SKIPPED: Final = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*'|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/)|\bWHERE\b""",
    re.IGNORECASE | re.DOTALL,
)
_INTEGER: Final = (
    "CASE WHEN {0} IN (0, 1) THEN 0 WHEN {0} BETWEEN -128 AND 127 THEN 1 WHEN {0} BETWEEN -32768 AND 32767 "
    "THEN 2 WHEN {0} BETWEEN -8388608 AND 8388607 THEN 3 WHEN {0} BETWEEN -2147483648 AND 2147483647 THEN 4 "
    "WHEN {0} BETWEEN -140737488355328 AND 140737488355327 THEN 6 ELSE 8 END"
)
_VALUE: Final = (
    "CASE typeof({0}) WHEN 'null' THEN 0 WHEN 'integer' THEN " + _INTEGER + " WHEN 'real' THEN 8 "
    "ELSE length(CAST({0} AS BLOB)) + (length(CAST({0} AS BLOB)) > 57) + (length(CAST({0} AS BLOB)) > 8185) "
    "END + 1"
)


@dataclass(slots=True)
class _Sample:
    """What a sample says of a table: rows in all, pages of its own, bytes of its indexes' entries."""

    rows: int
    pages: float
    entries: float
    content: float
    whole: bool


def table_sizes(
    driver: sqlite3.Connection,
    shapes: Mapping[str, TableShape],
    *,
    live: int,
    page_size: int,
    exact: bool,
) -> Sequence[TableSize]:
    """Return the bytes of each table and of its indexes. ``live`` is what they take together.

    Raises `Refused` where this SQLite cannot tell exact sizes.
    """
    with classified():
        samples = {name: _sample(driver, name, shape, page_size) for name, shape in shapes.items()}
        if exact:
            return list(_exact(driver, samples))
    return list(_shared(samples, live=live, page_size=page_size))


def _exact(driver: sqlite3.Connection, samples: Mapping[str, _Sample]) -> Iterator[TableSize]:
    try:
        sizes = dict(driver.execute(f"SELECT name, pgsize FROM {DBSTAT} WHERE aggregate = TRUE").fetchall())  # noqa: S608 - ours
    except sqlite3.OperationalError as error:
        if DBSTAT not in str(error):
            raise
        raise Refused(
            "no-dbstat", "this Python's SQLite was built without dbstat; sizes without --exact are estimates"
        ) from None
    owners = driver.execute("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index'").fetchall()
    for name, sample in samples.items():
        indexes = sum(sizes.get(index, 0) for index, owner in owners if owner == name)
        [[rows]] = driver.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchall()  # noqa: S608 - quoted
        yield TableSize(
            name=name,
            rows=rows,
            table=sizes.get(name, 0),
            indexes=indexes,
            content=round(sample.content),
            rows_estimated=False,
        )


def _shared(samples: Mapping[str, _Sample], *, live: int, page_size: int) -> Iterator[TableSize]:
    tables = {name: sample.pages * page_size for name, sample in samples.items()}
    indexes = {name: sample.entries for name, sample in samples.items()}
    entries = sum(indexes.values())
    share = (live - sum(tables.values())) / entries if entries else FULLEST
    fill = min(max(share, FULLEST), EMPTIEST)
    # What is left then lies in pages that removals have thinned out, of tables and indexes alike.
    guessed = sum(tables.values()) + entries * fill
    thin = live / guessed if guessed else 1.0
    for name, sample in samples.items():
        yield TableSize(
            name=name,
            rows=sample.rows,
            table=round(tables[name] * thin),
            indexes=round(indexes[name] * fill * thin),
            content=round(sample.content),
            rows_estimated=not sample.whole,
        )


def _sample(driver: sqlite3.Connection, name: str, shape: TableShape, page_size: int) -> _Sample:
    indexes = _index_entries(driver, name)
    payload = _payload(shape.columns)
    columns = ", ".join([payload, *indexes])
    taken = {column.lower() for column in shape.columns}
    free = [word for word in ("rowid", "_rowid_", "oid") if word not in taken]
    if not shape.has_rowid or not free:
        [[rows]] = driver.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchall()  # noqa: S608 - quoted
        found = driver.execute(f"SELECT {columns} FROM {_quoted(name)} LIMIT {WHOLE}").fetchall()  # noqa: S608
        return _weighed(found, rows=rows, indexes=len(indexes), page_size=page_size)
    number = free[0]
    ends = [
        driver.execute(f"SELECT {which}({number}) FROM {_quoted(name)}").fetchone()[0]  # noqa: S608 - quoted
        for which in ("min", "max")
    ]
    if ends[0] is None:
        return _Sample(0, 1.0, len(indexes) * page_size, 0.0, whole=True)
    query = f"SELECT {columns} FROM {_quoted(name)} WHERE {number} BETWEEN ? AND ?"  # noqa: S608 - quoted
    found, rows = _windows(driver, query, first=ends[0], last=ends[1])
    return _weighed(found, rows=rows, indexes=len(indexes), page_size=page_size)


def _windows(
    driver: sqlite3.Connection, query: str, *, first: int, last: int
) -> tuple[list[Sequence[int | None]], int]:
    """Return sampled rows, and about how many there are in all."""
    span = last - first + 1
    if span <= WHOLE:
        found = driver.execute(query, (first, last)).fetchall()
        return found, len(found)
    stratum, width = span // WINDOWS, WINDOW
    while True:
        width = min(width, stratum)
        found = []
        for place in range(WINDOWS):
            # The place within each stratum moves, so that no rhythm of the rows meets that of the windows.
            start = first + place * stratum + (stratum - width) * (place * 37 % WINDOWS) // (WINDOWS - 1)
            found += driver.execute(query, (start, start + width - 1)).fetchall()
        if len(found) >= ENOUGH or width == stratum:
            break
        width *= 16
    return found, round(len(found) * span / (WINDOWS * width))


def _weighed(found: Sequence[Sequence[int | None]], *, rows: int, indexes: int, page_size: int) -> _Sample:
    """Scale sampled rows to all rows."""
    if not found:
        return _Sample(rows, 1.0, indexes * page_size, 0.0, whole=not rows)
    scale = rows / len(found)
    content = sum(row[0] or 0 for row in found) * scale
    leaves, overflow = _packed([row[0] or 0 for row in found], page_size)
    entries = sum(size + 6 for row in found for size in row[1:] if size is not None) * scale
    leaves *= scale
    pages = max(1.0, leaves + (leaves * INTERIOR / page_size if leaves > 1 else 0.0) + overflow * scale)
    return _Sample(rows, pages, max(entries, indexes * page_size), content, whole=scale == 1)


def _packed(payloads: Sequence[int], page_size: int) -> tuple[float, int]:
    """Put rows into leaf pages one after another; return leaf pages and overflow pages."""
    room, least = page_size - 35, (page_size - 12) * 32 // 255 - 23
    capacity = page_size - 8
    leaves, used, overflow = 0, 0, 0
    for size in payloads:
        local = size
        if size > room:
            rest = least + (size - least) % (page_size - 4)
            local = (rest if rest <= room else least) + 4
            overflow += -(-(size - local + 4) // (page_size - 4))
        cell = local + 2 + 3 + (2 if size > ONE_BYTE else 1)
        if used + cell > capacity:
            leaves, used = leaves + 1, 0
        used += cell
    return leaves + used / capacity, overflow


def _payload(columns: Sequence[str]) -> str:
    """Return the bytes of a row's record as an expression."""
    parts = [f"({_VALUE.format(_quoted(column))})" for column in columns]
    return " + ".join([*parts, "1"])


def _index_entries(driver: sqlite3.Connection, table: str) -> Sequence[str]:
    """Return, for each index, the bytes of a row's entry as an expression: NULL where it has none."""
    entries = []
    for _, name, _, _, partial in driver.execute(f"PRAGMA index_list({_quoted(table)})").fetchall():
        described = driver.execute(f"PRAGMA index_info({_quoted(name)})").fetchall()
        columns = [row[2] for row in described if row[2] is not None]
        size = " + ".join([*(f"({_VALUE.format(_quoted(column))})" for column in columns), "5"])
        if partial:
            query = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?"
            [[text]] = driver.execute(query, (name,)).fetchall()
            size = f"CASE WHEN {_condition(text)} THEN {size} END"
        entries.append(size)
    return entries


def _condition(text: str) -> str:
    """Return the condition of a partial index, from the statement that made it."""
    for found in _SKIPPED.finditer(text):
        if found[1] is None:
            return f"({text[found.end() :]}\n)"
    return "1"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
