"""The order in which the rows of units go, and which of them the database takes along by itself.

The row of a run may refer to a row that it owns: its state, say, which in turn belongs to the run. If the
state goes first, the database sets the run's reference to NULL. Where that writes the run's row anew, with an
entry in each of its indexes, it costs more than to remove it. So there, if the state's foreign key to the run
cascades, the run goes first and takes the state along. What is taken along is in no DELETE's count: such rows
are counted before, while the run is locked. None can come meanwhile: whoever adds a row that refers to a
locked run waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from afterrun.profiles.model import Owned
from afterrun.stores.sql.binding import Binding

WRITES: Final = frozenset({"SET NULL", "SET DEFAULT"})
"""What a foreign key may do to the row that holds it."""


@dataclass(frozen=True, slots=True)
class Order:
    """Tables in the order in which their rows go.

    Rows of ``taken`` may go along with those before them. Of ``still``, the database changes no row,
    unless one that stays refers to one that goes: rows that go do so before what they refer to.
    """

    tables: tuple[str, ...]
    taken: frozenset[str]
    still: tuple[str, ...]


def order_of(binding: Binding) -> Order:
    """Return the profile's order, the run table last but for tables that had better go after it."""
    run = binding.tree.table
    dear = binding.dialect.new_versions is not None
    cascading = {owned.table for owned in binding.owned if dear and _goes_along(binding, owned)}
    late: set[str] = set()
    for table in cascading:
        late |= _behind(binding, table, cascading)
    taken = (cascading & late) | ({run} if binding.runs_cascade() else set())
    names = [owned.table for owned in binding.owned]
    early = [name for name in names if name not in late]
    tables = (*early, run, *(name for name in names if name in late))
    return Order(tables, frozenset(taken), tuple(_still(binding, tables)))


def _still(binding: Binding, tables: Sequence[str]) -> Iterator[str]:
    """Yield the tables of which all rows go before the rows of others that they refer to."""
    if binding.profile.detect.triggers:  # which may change rows as they like
        return
    for place, table in enumerate(tables):
        keys = binding.dialect.shapes[table].foreign_keys
        written = {key[1] for key in keys if key[3] in WRITES and key[1] in tables}
        if written and written <= set(tables[place + 1 :]):
            yield table


def _goes_along(binding: Binding, owned: Owned) -> bool:
    """Say whether the run's row takes these rows along, and would be written anew if they went first."""
    tree = binding.tree
    shapes = binding.dialect.shapes
    if owned.via is not None or binding.is_loose(owned.table, owned.column, like=(tree.table, tree.key)):
        return False
    to_run = [key for key in shapes[owned.table].foreign_keys if key[1] == tree.table]
    written = any(key[1] == owned.table and key[3] in WRITES for key in shapes[tree.table].foreign_keys)
    return written and to_run == [((owned.column,), tree.table, (tree.key,), "CASCADE")]


def _behind(binding: Binding, table: str, cascading: Collection[str]) -> set[str]:
    """Return a table and those that must go after it, since its rows refer to theirs; none if they cannot.

    Those that do not cascade with the run must be tied to it by its key alone: nothing that goes earlier may
    take them along, stop them, or be needed to find them.
    """
    owners = {owned.table: owned for owned in binding.owned}
    if len(owners) < len(binding.owned):  # a table with two ways to its run
        return set()
    found: set[str] = set()
    waiting = {table}
    while waiting:
        name = waiting.pop()
        found.add(name)
        referred = {key[1] for key in binding.dialect.shapes[name].foreign_keys}
        tied = referred & {*owners, binding.tree.table}
        if name not in cascading and (tied or owners[name].via is not None):
            return set()
        waiting |= (tied & owners.keys()) - found
    return found
