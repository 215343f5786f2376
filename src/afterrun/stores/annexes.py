"""Which tables of other databases belong to a store's runs, and whether rows of them may be removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from afterrun.core.errors import Refused, UsageError, did_you_mean
from afterrun.profiles import Profile
from afterrun.profiles.model import Elsewhere
from afterrun.stores.sql.dialect import Dialect
from afterrun.stores.sql.elsewhere import Annex, Reach


def reach_of(
    databases: Sequence[Dialect], profile: Profile, own: Dialect, *, schema_unverified: bool = False
) -> Reach:
    """Find a profile's tables in other databases, which are open.

    Raises `UsageError` for one that is named twice or is the store itself, and `Refused` for one that has
    none of the tables.
    """
    annexes: list[Annex] = []
    problems: list[str] = []
    seen = {own.identity}
    for database in databases:
        if database.identity == own.identity:
            raise UsageError(
                f"{database.url} is the store itself, where such rows go with their runs anyway: leave it out"
            )
        if database.identity in seen:
            raise UsageError(f"{database.url} is named twice")
        seen.add(database.identity)
        for part in _parts_in(database, profile):
            database.check_reading(_tables(database, part))
            annex = Annex(database, part)
            annexes.append(annex)
            problems += [
                f"in {database.url}, {line}" for line in _problems(annex, unverified=schema_unverified)
            ]
    return Reach(annexes, problems=problems)


def declared_by(profile: Profile) -> Sequence[Elsewhere]:
    """Return the tables that may be in another database. Raises `UsageError` where a profile has none."""
    declared = profile.units.tree.elsewhere
    if not declared:
        raise UsageError(
            f"the profile {profile.name} knows of no table in another database: leave --datasource out"
        )
    return declared


def _parts_in(database: Dialect, profile: Profile) -> Sequence[Elsewhere]:
    declared = declared_by(profile)
    there = [part for part in declared if part.table in database.shapes]
    if not there:
        names = ", ".join(part.table for part in declared)
        raise Refused(
            "datasource",
            f"{database.url} has no table {names}, so it is no {declared[0].name} of {profile.engine}; "
            "nothing was removed",
        )
    for part in there:
        columns = database.shapes[part.table].columns
        if part.column not in columns:
            hint = did_you_mean(part.column, columns)
            raise Refused(
                "datasource",
                f"the table {part.table} of {database.url} has no column {part.column}{hint}; nothing was "
                "removed",
            )
    return there


def _tables(database: Dialect, part: Elsewhere) -> Sequence[str]:
    """Return the tables of a part that are there: its own, and the one with the version."""
    versions = [] if part.version is None else [part.version.table]
    return [part.table, *(table for table in versions if table in database.shapes)]


def _problems(annex: Annex, *, unverified: bool) -> Iterator[str]:
    """Yield what forbids to remove rows of a table."""
    database, part = annex.dialect, annex.part
    yield from database.obstacles([part.table], locked=None)
    shape = database.shapes[part.table]
    yield from (f"the table {part.table} has a trigger {name!r}" for name in shape.triggers)
    if shape.kinds.get(part.column) != "text" or part.column in shape.loose:
        yield f"{part.table} ({part.column}) does not hold the ids of runs as plain text"
    if not annex.indexed:
        yield (
            f"no index serves {part.table} ({part.column}), so every batch would read all of it while runs "
            "are locked: its owner should index this column"
        )
    for name, other in sorted(database.shapes.items()):
        if any(referred == part.table for _, referred, _, _ in other.foreign_keys):
            yield f"a foreign key of {name} refers to {part.table}, and nobody knows what its rows need"
    version = _version(database, part)
    if version is not None and version not in part.read and not unverified:
        yield (
            f"the schema version {version[:40]} was never read, only {', '.join(part.read)}: plan works, "
            "removal needs --schema-unverified"
        )


def _version(database: Dialect, part: Elsewhere) -> str | None:
    """Return the version of a part's tables; nothing for tables from before they had one."""
    source = part.version
    if source is None or source.column not in getattr(database.shapes.get(source.table), "columns", ()):
        return None
    table = database.named(source.table)
    value = database.execute(sa.select(sa.func.max(table.c[source.column])).select_from(table))[0][0]
    return None if value is None else str(value)
