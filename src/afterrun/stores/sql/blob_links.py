"""Who needs a blob: declared references, and every real foreign key into the table of blobs.

Foreign keys come from the schema as it is, so a table that was added later protects its blobs, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from afterrun.profiles import TableShape
from afterrun.profiles.blobs import Blobs
from afterrun.profiles.detect import mentioned_tables
from afterrun.stores.sql.binding import Binding


@dataclass(frozen=True, slots=True)
class Link:
    """Rows that need a blob: those of ``table`` whose ``columns`` equal these columns of the blob's row."""

    table: str
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    foreign: bool

    @property
    def place(self) -> str:
        """Return the table and its columns, for people."""
        return f"{self.table} ({', '.join(self.columns)})"


def links_of(binding: Binding, blobs: Blobs) -> Sequence[Link]:
    """Return all references in force, each once."""
    shapes = binding.dialect.shapes
    found = [*_foreign(shapes, blobs)]
    known = {(link.table, link.columns, link.targets) for link in found}
    for table, column in [*_declared(blobs), *_named(binding, blobs)]:
        if table in shapes and (table, (column,), (blobs.key,)) not in known:
            known.add((table, (column,), (blobs.key,)))
            found.append(Link(table, (column,), (blobs.key,), foreign=False))
    return sorted(found, key=lambda link: (link.table, link.columns, link.targets))


def _declared(blobs: Blobs) -> Iterator[tuple[str, str]]:
    yield from ((reference.table, reference.column) for reference in blobs.references)


def _foreign(shapes: Mapping[str, TableShape], blobs: Blobs) -> Iterator[Link]:
    pins = None if blobs.pins is None else (blobs.pins.table, (blobs.pins.column,))
    for name, shape in shapes.items():
        for columns, referred, targets, _ in shape.foreign_keys:
            if referred == blobs.table and (name, columns) != pins:
                yield Link(name, columns, targets, foreign=True)


def _named(binding: Binding, blobs: Blobs) -> Iterator[tuple[str, str]]:
    """Yield columns of tables that the profile does not name, and that may hold a key by their own name."""
    names = {column.casefold() for column in blobs.key_columns}
    mentioned = mentioned_tables(binding.profile)
    for table, shape in binding.dialect.shapes.items():
        if table not in mentioned:
            yield from ((table, column) for column in shape.columns if column.casefold() in names)


def sources(binding: Binding, blobs: Blobs, links: Sequence[Link]) -> Iterator[tuple[str, str]]:
    """Yield the columns of rows that go with runs, by which a removed row tells the blobs it referred to."""
    generation = binding.profile.units.generation
    going = {binding.tree.table, *(owned.table for owned in binding.owned)}
    going.update(generation.tables if generation else ())
    for link in links:
        if link.table in going and link.targets == (blobs.key,):
            yield link.table, link.columns[0]


def keeping(binding: Binding, blobs: Blobs, links: Sequence[Link]) -> Iterator[str]:
    """Yield why it cannot be told whether a blob of this table is needed: then none of them goes."""
    shapes = binding.dialect.shapes
    shape = shapes[blobs.table]
    for column in sorted({blobs.key, *(target for link in links for target in link.targets)}):
        if column in shape.loose or shape.kinds.get(column) == "own":
            yield f"{blobs.table} ({column}) takes keys for equal that differ"
    for link in links:
        fits = len(link.columns) == len(link.targets) and set(link.targets) <= set(shape.columns)
        if not fits or not set(link.columns) <= set(shapes[link.table].columns):
            yield f"the foreign key of {link.place} leads to columns that {blobs.table} does not have"
            continue
        kinds = [shapes[link.table].kinds.get(column) for column in link.columns]
        if "own" in kinds:
            yield f"{link.place} is of an extension's type, which takes keys for equal by rules of its own"
        elif not link.foreign and kinds != [shape.kinds.get(target) for target in link.targets]:
            yield f"{link.place} holds values of another kind than {blobs.table} ({blobs.key})"
    if blobs.pins is not None:
        kind = shapes[blobs.pins.table].kinds.get(blobs.pins.column)
        if kind != shape.kinds.get(blobs.key):
            yield f"{blobs.pins.table} ({blobs.pins.column}) holds values of another kind than {blobs.table}"


def unindexed(binding: Binding, blobs: Blobs, links: Sequence[Link]) -> Iterator[str]:
    """Yield references that make the database read a whole table for each blob, and what would help."""
    pins = [] if blobs.pins is None else [(blobs.pins.table, (blobs.pins.column,))]
    for table, columns in [*((link.table, link.columns) for link in links), *pins]:
        if not binding.has_index(table, columns):
            yield (
                f"no index serves {table} ({', '.join(columns)}), so every blob of {blobs.table} that is "
                f"looked at reads all of {table}: its owner should index these columns"
            )


def strangers(binding: Binding, blobs: Blobs, links: Sequence[Link]) -> Iterator[str]:
    """Yield tables that the profile does not know and whose rows keep blobs."""
    mentioned = mentioned_tables(binding.profile)
    for link in links:
        if link.table not in mentioned:
            yield (
                f"the profile does not know {link.place}, which refers to blobs of {blobs.table}: blobs that "
                "it refers to stay"
            )
