"""Tell which engine's store this is, from names alone. Pure functions; stores hand in what they reflected."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from afterrun.core.errors import ProfileError
from afterrun.profiles.model import Profile

Kind = Literal["number", "text", "any", "own"]
"""What a column holds; ``own`` is a type with a way to compare that statements do not follow."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """Names of one real table.

    ``foreign_keys`` are (columns, referred table, referred columns, action on delete), spelled as the tables
    are. ``loose`` are columns whose text compares equal although it differs, as by letter case. ``kinds``
    tells of each column whether it turns values into numbers or text, or takes them as they come.
    """

    columns: tuple[str, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str, tuple[str, ...], str], ...] = ()
    triggers: tuple[str, ...] = ()
    has_rowid: bool = False
    loose: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)


def fitting(tables: Iterable[str], profiles: Iterable[Profile]) -> list[Profile]:
    """Return the profiles whose tables all exist."""
    present = set(tables)
    return [profile for profile in profiles if any(wanted <= present for wanted in profile.detect.sets)]


def detect(tables: Iterable[str], profiles: Iterable[Profile]) -> Profile:
    """Return the one profile whose tables all exist. Raises `ProfileError` for none or several."""
    found = fitting(tables, profiles)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(profile.name for profile in found))
        raise ProfileError(f"several profiles fit this store: {names}; say which with --profile NAME")
    raise ProfileError(
        "no profile fits this store: it has none of the sets of tables that the known engines make; "
        "see `afterrun profile list`, or give your own with --profile FILE"
    )


def version_table(profile: Profile, tables: Container[str]) -> str | None:
    """Return the table that holds the schema's version: the first that exists, or the profile's own word.

    Nothing where the engine keeps no version.
    """
    source = profile.detect.version
    if source is None:
        return None
    return next((name for name in (source.table, *source.alternatives) if name in tables), source.table)


def mentioned_tables(profile: Profile) -> frozenset[str]:
    """Return every table that a profile names."""
    return needed_tables(profile).union(*(rows.mentioned for rows in profile.units.rows.values()))


def needed_tables(profile: Profile) -> frozenset[str]:
    """Return every table that a profile names for something else than rows of row tables."""
    tree = profile.units.tree
    version = profile.detect.version
    names = {tree.table, *profile.detect.tables, *profile.detect.known}
    names.update((version.table, *version.alternatives) if version else ())
    names.update(name for wanted in profile.detect.sets for name in wanted)
    names.update(owned.table for owned in tree.owned)
    names.update(owned.via.table for owned in tree.owned if owned.via)
    names.update(edge.via.table for edge in tree.edges if edge.via)
    names.update(lookup.table for lookup in tree.lookup.values())
    names.update(source.rows.table for source in (*tree.end, *tree.seen) if source.rows)
    names.update(part.table for part in tree.unlinked)
    names.update(protection.table for protection in tree.protect if protection.table)
    generation = profile.units.generation
    if generation is not None:
        names.update(rows.table for rows in generation.rows)
    for blobs in profile.blobs:
        names.add(blobs.table)
        names.update(reference.table for reference in blobs.references)
        names.update([blobs.pins.table] if blobs.pins else ())
    return frozenset(names)


def unmentioned_references(profile: Profile, shapes: Mapping[str, TableShape]) -> frozenset[str]:
    """Return tables that the profile does not name and that may refer to a run, by key or by column name."""
    mentioned = mentioned_tables(profile)
    keys = {column.casefold() for column in profile.detect.key_columns}
    return frozenset(
        name
        for name, shape in shapes.items()
        if name not in mentioned
        and (
            keys.intersection(column.casefold() for column in shape.columns)
            or any(referred in mentioned for _, referred, _, _ in shape.foreign_keys)
        )
    )


def shape_digest(profile: Profile, shapes: Mapping[str, TableShape]) -> str:
    """Return a digest of all names that decide what removal means in this store.

    It covers the tables that the profile names and those that may refer to a run; other tables of the same
    database do not change it.
    """
    relevant = (mentioned_tables(profile) & shapes.keys()) | unmentioned_references(profile, shapes)
    # where several engines' tables share a schema, another one's may have the name of an alternative
    alternatives = profile.detect.version.alternatives if profile.detect.version else ()
    relevant -= {*alternatives} - {version_table(profile, shapes)}
    text = json.dumps(
        {
            name: [
                sorted(shapes[name].columns),
                shapes[name].primary_key,
                sorted(shapes[name].foreign_keys),
                sorted(shapes[name].triggers),
            ]
            for name in sorted(relevant)
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
