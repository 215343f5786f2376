"""The facts: one predicate a profile, written once, for pages, explanations and the check inside a batch.

One select list (key, effective parent, status, end, groups) serves with three conditions: these raw keys of
an index, these keys, the children of these keys. What holds a run from outside is a statement for each kind
of reference. `RunReader` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import Reason, Row
from afterrun.profiles.model import Edge, Protection
from afterrun.profiles.words import Condition
from afterrun.stores.sql.binding import Binding, InnerLink, UnknownReference
from afterrun.stores.sql.conditions import unknown_holds
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.ends import Ends
from afterrun.stores.sql.held import Held, looked_up, reason_of, together
from afterrun.stores.sql.literals import literal, one_of

GROUP_AT: Final = 4
"""Where the group values begin in the select list: after key, parent, status and end."""


class Facts:
    """The statements of one binding. Building them runs nothing."""

    def __init__(self, binding: Binding) -> None:
        """Compile the profile into statements."""
        self.binding = binding
        self.dialect = binding.dialect
        self.tree = binding.tree
        self.ends = Ends(binding)
        self.runs = binding.runs()
        self.key: Column = self.runs.c[self.tree.key]
        self.source, self.parent = self._lineage()
        self.end = self._end()
        self.status = binding.address(self.runs, self.tree.status)
        self.groups = [binding.address(self.runs, column) for column in self.tree.group]
        self.columns = [
            self.key.label("key"),
            self.parent.label("parent"),
            self.status.label("status"),
            self.end.label("ended"),
            *(group.label(f"group{place}") for place, group in enumerate(self.groups)),
            *self._keyed(),
        ]
        self._groups_end = GROUP_AT + len(self.groups)
        self._has_keyed = len(self.columns) > self._groups_end
        self._all_keyed = self.tree.idempotency_key == self.tree.key
        self.by_key = sa.select(*self.columns).select_from(self.source).where(self.dialect.keys_in(self.key))
        self.by_parent = [self._children(place) for place in range(len(self.tree.edges))]
        self.leading = [self._leading(edge) for edge in self.tree.edges]
        self.attached = self._attached()
        self.flags = [
            *self._protections(),
            *map(self._unknown, binding.unknown_references()),
            *map(self._linked, binding.inner_links()),
        ]

    def _lineage(self) -> tuple[sa.FromClause, Column]:
        """Return the run table with its lookups, times and link rows, and the effective parent's key.

        A link that leads to no row counts as a parent that is missing, under the link's own value.
        """
        source = self.ends.join(self.runs)
        parents: list[Column] = []
        for place, edge in enumerate(self.tree.edges):
            if edge.via is None:
                parents.append(self.runs.c[edge.column])
                continue
            link = self.binding.table(edge.via.table, f"link{place}")
            source = source.outerjoin(link, link.c[edge.via.key] == self.runs.c[edge.column])
            parents.append(sa.func.coalesce(link.c[edge.via.owner], self.runs.c[edge.column]))
        if not parents:
            return source, sa.null()
        return source, parents[0] if len(parents) == 1 else sa.func.coalesce(*parents)

    def _end(self) -> Column:
        """Return the end: the first source that is not NULL decides, readable or not."""
        sources = [self.ends.instant(self.runs, source) for source in self.tree.end]
        return sources[0] if len(sources) == 1 else sa.func.coalesce(*sources)

    def _keyed(self) -> Iterable[Column]:
        """Return whether a run holds an idempotency key, unless its own key is one: then each does."""
        name = self.tree.idempotency_key
        if name is None or name == self.tree.key:
            return ()
        return (self.runs.c[name].is_not(None).label("keyed"),)

    def row(self, found: Sequence[Any]) -> Row:
        """Turn a row of the select list into the shape that `core` reads."""
        groups = tuple(found[GROUP_AT : self._groups_end])
        keyed = bool(found[-1]) if self._has_keyed else self._all_keyed
        return Row(found[0], found[1], found[2], found[3], groups, keyed)

    def _children(self, place: int) -> sa.Select[Any]:
        edge = self.tree.edges[place]
        earlier = [self.runs.c[other.column].is_(None) for other in self.tree.edges[:place]]
        statement = sa.select(*self.columns).select_from(self.source)
        statement = statement.where(self._parent_in_keys(edge), *earlier)
        return self.dialect.hint(statement, self.runs, self.binding.index(self.tree.table, edge.column))

    def _leading(self, edge: Edge) -> sa.Select[Any] | None:
        """Return what finds a run with a link of this kind, if an index tells: of some kinds none has any.

        From the greatest: what was removed last lies at the other end of the index, where ids follow time.
        The number of rows is a parameter, since by it a planner is told to go by the index.
        """
        index = self.binding.index(self.tree.table, edge.column)
        if index is None:
            return None
        column: Column = self.runs.c[edge.column]
        found = sa.select(column).select_from(self.runs).where(column.is_not(None))
        found = found.order_by(column.desc()).limit(sa.bindparam("one", type_=sa.Integer()))
        return self.dialect.hint(found, self.runs, index)

    def with_parents(self, source: sa.FromClause) -> sa.FromClause:
        """Join the parents' rows; `has_parent` then tells who is no root. Without edges nobody has one."""
        if not self.tree.edges:
            return source
        parent = self.binding.table(self.tree.table, "p")
        return source.outerjoin(parent, parent.c[self.tree.key] == self.parent)

    def has_parent(self) -> Column:
        """Return the condition, beside `with_parents`, that a run's effective parent exists."""
        if not self.tree.edges:
            return literal(1) == literal(0)
        return self.binding.table(self.tree.table, "p").c[self.tree.key].is_not(None)

    def _attached(self) -> sa.Select[Any]:
        source = self.with_parents(self.source)
        # not as a condition: for that, a planner may read all of an index of parents
        columns = self.key, self.has_parent().label("child")
        return sa.select(*columns).select_from(source).where(self.dialect.keys_in(self.key))

    def _parent_in_keys(self, edge: Edge) -> Column:
        if edge.via is None:
            return self.binding.holds(self.runs, self.tree.table, edge.column)
        link = self.binding.table(edge.via.table, "l")
        held = self.binding.holds(link, edge.via.table, edge.via.owner)
        links = sa.select(link.c[edge.via.key]).where(held)
        return self.dialect.among(self.runs.c[edge.column], links)

    def condition(self, column: Column, test: Condition) -> Column:
        """Return one test of the profile as a condition."""
        return unknown_holds(self.dialect, column, test)

    def _protections(self) -> Iterable[Held]:
        for group in looked_up(self.binding.protect):
            first, *others = group
            if others:
                statement = self._references(group)
            elif first.table is None:
                statement = self._own_condition(first)
            else:
                statement = self._any_row(first) if first.all_runs else self._reference(first)
            yield Held(tuple(map(reason_of, group)), blocks=False, statement=statement)

    def _own_condition(self, protection: Protection) -> sa.Select[Any]:
        tests = [
            self.condition(self.binding.address(self.runs, column), test)
            for column, test in protection.where.items()
        ]
        return sa.select(self.key).select_from(self.source).where(self.dialect.keys_in(self.key), *tests)

    def _any_row(self, protection: Protection) -> sa.Select[Any]:
        table = str(protection.table)
        referring = self.binding.table(table, "r")
        tests = [self.condition(referring.c[name], test) for name, test in protection.where.items()]
        any_row = sa.exists().select_from(referring).where(*tests)
        return sa.select(self.key).select_from(self.runs).where(self.dialect.keys_in(self.key), any_row)

    def _references(self, group: Sequence[Protection]) -> sa.Select[Any]:
        """Return what finds the rows of several protections, each row by one look."""
        referring = self.binding.table(str(group[0].table), "r")
        held: Column = referring.c[str(group[0].column)]
        tests, number = together(group, lambda name, test: self.condition(referring.c[name], test))
        return sa.select(held, number).where(self.dialect.keys_in(held), *tests)

    def _reference(self, protection: Protection) -> sa.Select[Any]:
        table, column = str(protection.table), str(protection.column)
        referring = self.binding.table(table, "r")
        tests = [self.condition(referring.c[name], test) for name, test in protection.where.items()]
        statement = sa.select(referring.c[column]).where(self.dialect.keys_in(referring.c[column]), *tests)
        if protection.by_live is None:
            return statement
        index = self.binding.index(table, column)
        if index is None:
            by = referring.c[protection.by_live]
            return self.dialect.held_by(self.live_keys(), owner=by, column=referring.c[column], tests=tests)
        live = self.binding.table(self.tree.table, "w")
        status = self.binding.address(live, self.tree.status)
        words = [word for group in self.tree.live for word in group]
        source = self.binding.with_lookups(live) if "." in self.tree.status else live
        owner = live.c[self.tree.key] == referring.c[protection.by_live]
        one: sa.Select[Any] = (
            sa.select(sa.literal_column("*")).select_from(source).where(owner, one_of(status, words))
        )
        if self.dialect.has_lateral:  # else it may be joined with all live runs, found by reading every run
            one = one.offset(sa.literal_column("0"))
        return self.dialect.hint(statement.where(one.correlate(referring).exists()), referring, index)

    def live_keys(self) -> sa.CompoundSelect[Any]:
        """Return the keys of live runs, a part for each group of states, as the partial indexes have them."""
        parts = []
        for words in self.tree.live:
            live = self.binding.table(self.tree.table, "w")
            source = self.binding.with_lookups(live) if "." in self.tree.status else live
            status = self.binding.address(live, self.tree.status)
            parts.append(sa.select(live.c[self.tree.key]).select_from(source).where(one_of(status, words)))
        return sa.union_all(*parts)

    def _unknown(self, reference: UnknownReference) -> Held:
        reason = Reason(reference.reason, f"a row of {reference.table}, which the profile does not know")
        unknown = self.binding.table(reference.table, "r")
        if reference.owner == self.tree.table:
            on = zip(reference.columns, reference.targets, strict=True)
            pairs = [self.runs.c[target] == unknown.c[column] for column, target in on]
            source = self.runs.join(unknown, sa.and_(*pairs))
            found = sa.select(self.key).select_from(source).where(self.dialect.keys_in(self.key))
            return Held((reason,), blocks=True, statement=found)
        owned = next(owned for owned in self.binding.owned if owned.table == reference.owner)
        middle = self.binding.table(reference.owner, "o")
        on = zip(reference.columns, reference.targets, strict=True)
        pairs = [middle.c[target] == unknown.c[column] for column, target in on]
        source = middle.join(unknown, sa.and_(*pairs))
        holder: Column = middle.c[owned.column]
        if owned.via is not None:
            link = self.binding.table(owned.via.table, "l")
            source = source.join(link, link.c[owned.via.key] == middle.c[owned.column])
            holder = link.c[owned.via.owner]
        found = sa.select(holder).select_from(source).where(self.dialect.keys_in(holder))
        return Held((reason,), blocks=True, statement=found)

    def _linked(self, link: InnerLink) -> Held:
        """Return what finds runs with a row to which a row of another run refers, or one of no run."""
        reason = Reason(link.reason, f"a row of {link.table} of another run refers to a row of it")
        theirs, source, holder = self.binding.held_rows(link.referred, "r")
        ours, joined, owner = self.binding.held_rows(link.table, "o")
        on = zip(link.columns, link.targets, strict=True)
        pairs = [theirs.c[target] == ours.c[column] for column, target in on]
        if isinstance(joined, sa.Join):
            joined = joined.left.outerjoin(joined.right, joined.onclause)
        other = sa.case((owner == holder, literal(0)), else_=literal(1)) == literal(1)
        index = self.binding.index(link.table, link.columns[0])
        one: sa.Select[Any] = sa.select(literal(1)).select_from(joined).where(*pairs, other)
        # a value for each row, and no join: of a column that is mostly NULL, a planner may read all for that
        one = self.dialect.hint(one, ours, index).limit(sa.literal_column("1"))
        inside = one.correlate_except(ours, *([joined.right] if isinstance(joined, sa.Join) else []))
        found = inside.scalar_subquery().is_not(None)
        rows = sa.select(holder).select_from(source).where(self.dialect.keys_in(holder), found)
        return Held((reason,), blocks=True, statement=rows)
