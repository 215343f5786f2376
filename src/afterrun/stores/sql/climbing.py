"""From any run up to the root of its tree: what finds the unit of an id."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from afterrun.core.facts import Key, Reason, Row, Unit, key_text, readable
from afterrun.core.tree import chunks
from afterrun.stores.sql.run_reader import RunReader


def roots_of(reader: RunReader, runs: Collection[Key], *, max_depth: int) -> Mapping[Key, Key]:
    """Return the root of each of these runs, but for those whose root is not to be found.

    It climbs from all at once, a level at a time.
    """
    found: dict[Key, Key] = {}
    above = {run: run for run in runs if readable(run)}
    for _ in range(max_depth + 1):
        keys = sorted(set(above.values()), key=str)
        rows = {row.key: row for chunk in chunks(keys) for row in reader.rows(chunk)}
        higher: dict[Key, Key] = {}
        for run, key in above.items():
            parent = rows[key].parent if key in rows else None
            if parent is not None and readable(parent):
                higher[run] = parent
            found[run] = key if key in rows else found.get(run, key)
        if not higher:
            return found
        above = higher
    return {run: root for run, root in found.items() if run not in above}


def climb(reader: RunReader, start: Row, *, max_depth: int) -> Unit:
    """Return the unit of a run: that of its root, or one that is blocked where the way up has no end."""
    row, path = start, [start]
    while row.parent is not None:
        parents = list(reader.rows([row.parent])) if readable(row.parent) else []
        if not parents:
            break
        row = parents[0]
        if any(row.key == passed.key for passed in path):
            return _broken(path, Reason("cycle", f"{key_text(row.key)} is its own ancestor"))
        path.append(row)
        if len(path) > max_depth + 1:
            return _broken(path, Reason("too-deep", f"deeper than {max_depth} levels"))
    return reader.build([row])[0]


def _broken(path: Sequence[Row], reason: Reason) -> Unit:
    members = tuple(row.key for row in path)
    return Unit(path[0].key, members, None, None, successful=False, blocked=(reason,), complete=False)
