"""The profile model: what can be said of an engine's store.

Text from outside comes in here, so pydantic checks it: unknown keys are errors, values are frozen. Names of
tables and columns are compared with the real schema before any of them reaches a statement.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator

from afterrun.core.errors import did_you_mean
from afterrun.profiles.blobs import Blobs
from afterrun.profiles.generation import Generation
from afterrun.profiles.registry import EndFormat, Hook, KeepSet, Records, TimeFormat
from afterrun.profiles.rows import RowTable
from afterrun.profiles.words import Condition, Digest, Model, Name, Place, Word


class VersionSource(Model):
    """Where the schema's version stands: the greatest value of a column.

    ``alternatives`` are tables that hold it where ``table`` does not exist: the first of them that does. An
    ``optional`` one exists in some databases only: without it, the shape of the tables is the version.
    """

    table: Name
    column: Name
    alternatives: tuple[Name, ...] = ()
    optional: StrictBool = False


class Detect(Model):
    """How to tell this engine's store.

    ``tables`` must all exist, and where there are ``either``, all of one of these sets. ``read`` lists the
    versions whose meaning was read from the engine, each with the digest of its shape: another version with
    an equal shape counts as read, too. ``key_columns`` are column names by which the engine refers to a run:
    a table that has one, and that the profile does not mention, may need the run. ``known`` are tables that
    were looked at and need nothing. ``triggers`` were looked at, too: those on its tables that a removal may
    fire, whose work belongs to it. ``places`` are where the engine keeps its store unless it is told
    otherwise. An engine without a ``version`` is told apart by the shape of its tables alone.
    """

    tables: tuple[Name, ...] = Field(min_length=1)
    either: tuple[tuple[Name, ...], ...] = ()
    version: VersionSource | None = None
    read: dict[str, Digest] = Field(default_factory=dict)
    key_columns: tuple[Name, ...] = ()
    known: tuple[Name, ...] = ()
    triggers: tuple[Name, ...] = ()
    places: tuple[Place, ...] = ()
    schema_name: Name | None = Field(default=None, alias="schema")

    @property
    def sets(self) -> tuple[frozenset[str], ...]:
        """Return the sets of tables of which one must be there whole."""
        return tuple(frozenset((*self.tables, *more)) for more in self.either or ((),))


class Lookup(Model):
    """A row of another table that belongs to a run one to one; its columns are ``alias.column``."""

    table: Name
    on: dict[Name, Name] = Field(min_length=1)


class EndRows(Model):
    """Rows of another table that tell a run's time: ``on`` maps their columns to those of the run's own row.

    Only those that pass ``where`` count.
    """

    table: Name
    on: dict[Name, Name] = Field(min_length=1)
    where: dict[Name, Condition] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _stands_still(self) -> Self:
        moving = [name for name, test in self.where.items() if test.future is not None]
        if moving:
            raise ValueError(f"the rows that tell a time cannot depend on the clock: {moving[0]} has future")
        return self


class EndSource(Model):
    """A column that may hold the end time, and how it spells it; with ``rows``, the newest of theirs.

    The first source that is not NULL decides. ``rare`` says that only rows from before an engine's upgrade
    need this source, so a sweep looks for them now and then and not each time.
    """

    column: Name
    format: EndFormat
    rare: StrictBool = False
    rows: EndRows | None = None

    @property
    def label(self) -> str:
        """Return what people call it: its column, after the table where that is another one."""
        return self.column if self.rows is None else f"{self.rows.table}.{self.column}"


class Via(Model):
    """A link table between a child's column and its parent: ``key`` is what the column holds."""

    table: Name
    key: Name
    owner: Name


class Edge(Model):
    """A column of the child that leads to its parent, directly or through a link table."""

    column: Name
    via: Via | None = None


class Overdue(Model):
    """When a row that holds a run has stood for so long that plans tell of it: ``days`` after ``column``."""

    column: Name
    format: TimeFormat
    days: StrictInt = Field(ge=1, le=3_650)


class Protection(Model):
    """Rows that hold a run: those of ``table`` whose ``column`` holds the run's key.

    ``by_live`` names the column of the referring row that holds the key of a run: the reference counts only
    while that run is live. With ``all_runs`` nothing tells whose a row is, so each holds every run. Without
    ``table``, ``where`` is a condition on the run's own row or a lookup. An ``optional`` table exists in some
    versions of the schema only. A row that is ``overdue`` still holds its run, and plans count it if that
    run has ended: nothing may ever take it.
    """

    reason: Word
    table: Name | None = None
    column: Name | None = None
    where: dict[Name, Condition] = Field(default_factory=dict)
    by_live: Name | None = None
    all_runs: StrictBool = False
    optional: StrictBool = False
    overdue: Overdue | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.all_runs and (self.table is None or self.column or self.by_live or self.overdue):
            raise ValueError("all_runs goes with a table, and neither with column, by_live nor overdue")
        if (self.table is None) != (self.column is None) and not self.all_runs:
            raise ValueError("table and column go together: the column that holds the run's key")
        if self.table is None and (self.by_live or not self.where):
            raise ValueError("without a table, a protection is a condition on the run's own row: give where")
        if self.table is None and (self.optional or self.overdue):
            raise ValueError("optional and overdue are of a table")
        return self


class Owned(Model):
    """Rows that go with a run: those of ``table`` whose ``column`` holds its key, or that of a ``via`` row.

    ``optional`` tables exist in some versions of the schema only.
    """

    table: Name
    column: Name
    via: Via | None = None
    optional: StrictBool = False


class Link(Model):
    """A foreign key between rows that go with one run: ``column`` of ``table`` leads to another of its rows.

    If it leads to a row of another run, it holds that one, since to remove the row would change this one.
    """

    table: Name
    column: Name


class Unlinked(Model):
    """Rows that refer to a run and stay when it goes: the database itself then empties their ``column``.

    A foreign key with SET NULL does that, or a trigger of the engine's, which is listed as known.
    ``optional`` tables exist in some versions of the schema only.
    """

    table: Name
    column: Name
    optional: StrictBool = False


class Elsewhere(Model):
    """Rows of runs in a table that may lie in another database, which the user names.

    ``name`` is what such a database is called; ``schema`` is where the table is unless the URL says another.
    ``version`` and ``read`` are as in `Detect`; a database without that table is from before it had versions.
    ``note`` is what a plan says for as long as nobody has named the database.
    """

    name: Word
    table: Name
    column: Name
    schema_name: Name | None = Field(default=None, alias="schema")
    version: VersionSource | None = None
    read: tuple[str, ...] = ()
    note: str = Field(default="", max_length=400)


class Tree(Model):
    """Run trees: one table of runs, linked by edges.

    ``live`` groups the words of live states the way the engine's partial indexes spell them. ``owned`` is the
    order of removal: what would harm most if it stayed alone goes first; the run's own row is last, unless
    the database takes owned rows along with it.
    ``links`` are the foreign keys between rows of one run that no edge and no owned table says already.
    ``unlinked`` are rows that stay and lose their link to the run. ``elsewhere`` are tables like the owned
    ones that may lie in another database.
    ``idempotency_key`` is the column that keeps the engine from running the same request twice.
    ``seen`` are time columns that tell when a run was made and last written, better with an index.
    With ``records``, a run is all rows with one key, and code of that name tells its status, which is no
    column then, and its end.
    """

    table: Name
    key: Name
    status: Name
    terminal: tuple[str, ...] = Field(min_length=1)
    successful: tuple[str, ...] = ()
    live: tuple[tuple[str, ...], ...] = ()
    end: tuple[EndSource, ...] = Field(min_length=1)
    seen: tuple[EndSource, ...] = ()
    edges: tuple[Edge, ...] = ()
    missing: Literal["root", "block"] = "block"
    max_depth: StrictInt = Field(default=1_000, ge=1, le=10_000)
    group: tuple[Name, ...] = ()
    lookup: dict[Word, Lookup] = Field(default_factory=dict)
    protect: tuple[Protection, ...] = ()
    owned: tuple[Owned, ...] = ()
    unlinked: tuple[Unlinked, ...] = ()
    links: tuple[Link, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    idempotency_key: Name | None = None
    records: Records | None = None

    @property
    def told(self) -> tuple[str, ...]:
        """Return the columns that tell status and groups of a run."""
        return self.group if self.records is not None else (self.status, *self.group)

    @property
    def tied(self) -> tuple[tuple[str, str], ...]:
        """Return the tables whose rows go with runs, each with a column by which they are tied together."""
        owned = ((part.table, part.column) for part in self.owned)
        return (*owned, *((link.table, link.column) for link in self.links))

    @model_validator(mode="after")
    def _leaves_to_code(self) -> Self:
        """Refuse what code for records would not look at, and a spelling that only such code reads."""
        others = (self.seen, self.edges, self.group, self.lookup, self.protect, self.idempotency_key)
        more = (self.links, self.unlinked, any(source.rows for source in self.end))
        if self.records is not None and any((*others, *more)):
            raise ValueError("with records, their code tells what a run is: give table, key, end and owned")
        if self.records is None and any(part.format == "uuid6" for part in (*self.end, *self.seen)):
            raise ValueError("no database reads the time of a uuid6: only records have it")
        return self

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        live = {word for group in self.live for word in group}
        both = sorted(live & set(self.terminal))
        if both:
            raise ValueError(f"{both[0]!r} is listed as live and as terminal")
        strange = sorted(set(self.successful) - set(self.terminal))
        if strange:
            raise ValueError(f"{strange[0]!r} is successful but not terminal")
        if not live and any(protection.by_live for protection in self.protect):
            raise ValueError("by_live needs the list of live states")
        for column in self._addressed():
            alias, dot, _ = column.partition(".")
            if dot and alias not in self.lookup:
                hint = did_you_mean(alias, self.lookup)
                raise ValueError(f"{column!r} uses a lookup {alias!r} that is not defined{hint}")
        self._check_owned_order()
        self._check_unlinked()
        going = {self.table, *(owned.table for owned in self.owned)}
        for link in self.links:
            if link.table not in going:
                raise ValueError(f"{link.table} is a table of links, but does not go with runs")
        elsewhere = [part.table for part in self.elsewhere]
        if len(set(elsewhere)) < len(elsewhere):
            raise ValueError("elsewhere lists a table twice")
        return self

    def _addressed(self) -> list[str]:
        own = [
            column for protection in self.protect if protection.table is None for column in protection.where
        ]
        times = [source.column for source in (*self.end, *self.seen) if source.rows is None]
        return [self.status, *self.group, *times, *own]

    def _check_owned_order(self) -> None:
        gone: set[str] = set()
        for owned in self.owned:
            if owned.table == self.table:
                raise ValueError(f"{owned.table} is the run table, which always goes last by itself")
            if owned.table in gone:
                raise ValueError(f"{owned.table} is listed twice")
            if owned.via is not None and owned.via.table in gone:
                raise ValueError(f"{owned.table} is found through {owned.via.table}, which goes before it")
            gone.add(owned.table)

    def _check_unlinked(self) -> None:
        gone = {self.table, *(owned.table for owned in self.owned)}
        lost = [part.table for part in self.unlinked if part.table in gone]
        if lost:
            raise ValueError(f"{lost[0]} goes with its runs, so no row of it stays unlinked")


class Units(Model):
    """The kinds of units of a store. Generations are described, or code with a ``keep_set`` tells them.

    ``rows`` are tables like logs, by the name that policies have for them.
    """

    tree: Tree
    generation: Generation | None = None
    keep_set: KeepSet | None = None
    rows: dict[Word, RowTable] = Field(default_factory=dict)

    @property
    def have_generations(self) -> bool:
        """Say whether parts of a run that stays can go."""
        return self.generation is not None or self.keep_set is not None

    @model_validator(mode="after")
    def _trees_take_generations(self) -> Self:
        owned = {owned.table for owned in self.tree.owned}
        missing = [table for table in self.generation.tables if table not in owned] if self.generation else []
        if missing:
            raise ValueError(f"a tree must take its generations with it: it owns no rows of {missing[0]}")
        return self

    @model_validator(mode="after")
    def _keeps_rows_apart(self) -> Self:
        """Refuse row tables that would take runs, generations or each other's rows."""
        whole = {self.tree.table, *(self.generation.tables[-1:] if self.generation else ())}
        for name, rows in self.rows.items():
            taken = sorted(whole.intersection(rows.tables))
            if taken:
                raise ValueError(f"rows.{name} takes rows of {taken[0]}, which are units of another kind")
        return self


class Profile(Model):
    """The description of one engine's store.

    ``own_retention`` tells what the engine removes by itself, ``notes`` what a reader of a plan should know,
    ``before_sweep`` what the engine expects of anybody who removes its runs. ``blobs`` are payloads that
    rows of several runs share.
    """

    name: Word
    engine: str = Field(max_length=80)
    own_retention: str = Field(default="", max_length=400)
    notes: tuple[Annotated[str, StringConstraints(max_length=400)], ...] = ()
    before_sweep: Hook | None = None
    detect: Detect
    units: Units
    blobs: tuple[Blobs, ...] = ()

    @model_validator(mode="after")
    def _keeps_blobs_apart(self) -> Self:
        tree = self.units.tree
        if self.blobs and tree.records is not None:
            raise ValueError("with records, their code tells what is shared: leave out blobs")
        going = {tree.table, *(owned.table for owned in tree.owned)}
        going.update(self.units.generation.tables if self.units.generation else ())
        rows = {table for part in self.units.rows.values() for table in part.tables}
        going.update(rows)
        seen: set[str] = set()
        for part in self.blobs:
            if part.table in going:
                raise ValueError(f"{part.table} goes with its runs, so it holds no blobs")
            if part.pins is not None and part.pins.table in going:
                raise ValueError(f"{part.pins.table} goes with its runs, so it holds no pins")
            if part.table in seen:
                raise ValueError(f"{part.table} is listed twice under blobs")
            taken = rows.intersection(reference.table for reference in part.references)
            if taken:
                raise ValueError(
                    f"{min(taken)} refers to blobs of {part.table}, so it goes with runs and is no row table"
                )
            seen.add(part.table)
        return self
