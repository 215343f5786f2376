"""Reports that came from a server as JSON, as the command line renders them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from afterrun.core.blobs import BlobCounts
from afterrun.core.report import Report, UnitCounts
from afterrun.core.row_tables import TableFigures
from afterrun.core.store import Schema
from afterrun.core.times import to_instant


def report_of(told: Mapping[str, Any]) -> Report:
    """Read the report of a plan, a prune or a sweep. What a newer server says besides is left out."""
    kinds = {kind: _units(units) for kind, units in told["units"].items()}
    first = next(iter(kinds))
    sizes, backlog, seconds = told["bytes"], told["backlog"], told["seconds"]
    return Report(
        store=told["store"],
        profile=told["profile"],
        schema=Schema(version=told["schema"]["version"], read=told["schema"]["read"]),
        dry_run=told["dry_run"],
        now=to_instant(datetime.fromisoformat(told["now"])),
        policy=told["policy"],
        fingerprint=told["fingerprint"],
        kind=first,
        units=kinds.pop(first),
        others=kinds,
        tables={name: _table(table) for name, table in told["tables"].items()},
        rows=Counter(told["rows"]),
        blobs=BlobCounts(count=told["blobs"]["count"], size=told["blobs"]["bytes"]),
        keys_forgotten=told["keys_forgotten"],
        logical_bytes=sizes["logical"],
        file_before=sizes["file_before"],
        file_after=sizes["file_after"],
        backlog_before=backlog["before"],
        backlog_after=backlog["after"],
        gaining=backlog["gaining"],
        seconds=seconds["total"],
        longest_batch=seconds["longest_batch"],
        batches=told["batches"],
        ended=told["ended"],
        message=told["message"],
        notices=list(told["notices"]),
        oversized=list(told["oversized"]),
        large=list(told["large"]),
        backup=told["backup"],
        interrupted=told["interrupted"],
    )


def _units(told: Mapping[str, Any]) -> UnitCounts:
    known = _known(UnitCounts, told)
    words: dict[str, Any] = {
        name: Counter(value) if isinstance(value, dict) else value for name, value in known.items()
    }
    return UnitCounts(**words)


def _table(told: Mapping[str, Any]) -> TableFigures:
    return TableFigures(**_known(TableFigures, told))


def _known(kind: type[UnitCounts | TableFigures], told: Mapping[str, Any]) -> Mapping[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in told.items() if name in names}
