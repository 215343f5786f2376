"""What pages never see, counted by aggregates of the same facts: census, groups, units outside the range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from afterrun.core.facts import UNREADABLE, Newest, Scalar, Status, key_order
from afterrun.core.judge import Group, Rank, rank
from afterrun.core.store import Census, Cursor, Outside
from afterrun.core.times import CLOCK_SKEW, DAY, Instant, Micros, micros
from afterrun.stores.sql.binding import RUN
from afterrun.stores.sql.candidates import Candidates
from afterrun.stores.sql.dialect import Column
from afterrun.stores.sql.facts import Facts
from afterrun.stores.sql.literals import literal, one_of

CENSUS_ROWS: Final = 20_000
"""Rows of one part of a census: some 10 ms of reading, for which an engine's commit may have to wait."""


class Aggregates:
    """Counts over the whole run table of one binding."""

    def __init__(self, facts: Facts, candidates: Candidates) -> None:
        """Bind the statements to their database."""
        self._facts = facts
        self._tree = facts.tree
        self._dialect = facts.dialect
        self._candidates = candidates
        self._most = CENSUS_ROWS if self._dialect.readers_block else None
        self._status = self._dialect.order_key(facts.status)
        self._groups = [self._dialect.order_key(group) for group in facts.groups]

    def census(self) -> Census:
        """Count runs by status, some rows at a time: no engine shall wait for a scan of them all."""
        known = self._facts.binding.model.statuses
        statuses: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        after: Scalar = None
        seen = CENSUS_ROWS
        while seen == CENSUS_ROWS:
            seen = 0
            rows = self._dialect.execute(self._census_part(after), {"after": self._dialect.bind(after)})
            for word, count, last in rows:
                text = word if isinstance(word, str) else repr(word)
                statuses[text] += count
                if known.get(word, Status.UNKNOWN) is Status.UNKNOWN:
                    unknown[text] += count
                seen += count if self._most else 0
                after = max(after, last, key=key_order)
        return Census(statuses, unknown)

    def _census_part(self, after: Scalar) -> sa.Select[Any]:
        """Return the statement that counts the next rows, in the order in which the table holds them."""
        facts = self._facts
        tie = self._dialect.tie(self._tree.table, RUN, facts.key)
        part = sa.select(self._status.label("status"), tie.label("tie"))
        part = part.select_from(facts.binding.with_lookups(facts.runs))
        if self._most:
            part = part.order_by(tie).limit(self._most)
        if after is not None:
            part = part.where(tie > self._dialect.parameter("after", after))
        rows = part.subquery("rows")
        return sa.select(rows.c.status, sa.func.count(), self._last(rows)).group_by(rows.c.status)

    def _last(self, rows: sa.Subquery) -> Column:
        """Return the place of the last row, unless all are counted at once: not every key has a greatest."""
        return sa.func.max(rows.c.tie) if self._most else sa.null()

    def newest_kept(
        self, places: Sequence[int], *, count: int, any_status: bool, now: Instant
    ) -> Mapping[Group, Rank]:
        """Return, for each group, the rank of its ``count``-th newest counted root."""
        words = self._counted(any_status=any_status)
        if not words:
            return {}
        given = {"count": count, "latest": now + micros(CLOCK_SKEW)}
        if places:
            statement = self._newest_by([self._groups[place] for place in places], words, len(places))
        else:
            statement = self._newest_of_all(words)
        return {tuple(row[2:]): rank(row[0], row[1]) for row in self._dialect.execute(statement, given)}

    def newest_in(
        self, places: Sequence[int], *, slot: Micros, any_status: bool, now: Instant
    ) -> Iterable[Newest]:
        """Yield the newest counted root of each group in each slot of so many microseconds."""
        words = self._counted(any_status=any_status)
        if not words:
            return
        stretch = sa.cast(self._facts.end // literal(slot), sa.Integer)
        by = [*(self._groups[place] for place in places), stretch]
        statement = self._newest_by(by, words, len(places))
        rows = self._dialect.execute(statement, {"count": 1, "latest": now + micros(CLOCK_SKEW)})
        for row in rows:
            yield Newest(tuple(row[2:]), row[0], row[1])

    def _counted(self, *, any_status: bool) -> Sequence[str]:
        return self._tree.terminal if any_status else self._tree.successful

    def _newest_by(self, by: Sequence[Column], words: Sequence[str], groups: int) -> sa.Select[Any]:
        """Return what reads end, key and groups of the ``count``-th newest root of each part.

        ``by`` tells the parts; the first so many of its columns are ``groups``.
        """
        position = sa.func.row_number().over(partition_by=by, order_by=self._newest_first())
        columns: list[Column] = [column.label(f"group{place}") for place, column in enumerate(by[:groups])]
        ranked = self._ended(words, position.label("position"), *columns).subquery("ranked")
        told = [ranked.c[f"group{place}"] for place in range(groups)]
        return sa.select(ranked.c.ended, ranked.c.key, *told).where(
            ranked.c.position == sa.bindparam("count")
        )

    def _newest_of_all(self, words: Sequence[str]) -> sa.Select[Any]:
        """Return what reads the ``count``-th newest root; so many are ordered, and not all of them."""
        skipped = sa.bindparam("count", type_=sa.Integer()) - sa.literal_column("1")
        return self._ended(words).order_by(*self._newest_first()).limit(1).offset(skipped)

    def _newest_first(self) -> list[Column]:
        return [self._facts.end.desc(), self._dialect.order_key(self._facts.key).desc()]

    def _ended(self, words: Sequence[str], *more: Column) -> sa.Select[Any]:
        """Select end, key and more of the roots that ended with one of these words at a credible time."""
        facts = self._facts
        ended = facts.end > literal(0), facts.end <= sa.bindparam("latest")
        statement = sa.select(facts.end.label("ended"), facts.key.label("key"), *more)
        return statement.select_from(self._roots()).where(
            self._is_root(), one_of(self._status, words), *ended
        )

    def runs(self) -> int:
        """Count all runs: by whatever index is the smallest."""
        statement = sa.select(sa.func.count()).select_from(self._facts.runs)
        return int(self._dialect.execute(statement)[0][0])

    def roots(self) -> int:
        """Count the roots."""
        statement = sa.select(sa.func.count()).select_from(self._roots()).where(self._is_root())
        return int(self._dialect.execute(statement)[0][0])

    def groups(self, places: Sequence[int]) -> int:
        """Count the groups that the roots form."""
        columns = [self._groups[place] for place in places] or [literal(1)]
        roots = sa.select(*columns).select_from(self._roots()).where(self._is_root()).distinct().subquery()
        rows = self._dialect.execute(sa.select(sa.func.count()).select_from(roots))
        return int(rows[0][0])

    def remaining(self, cursor: Cursor, *, cutoff: Instant, streams: Collection[int]) -> int:
        """Count ended roots of these streams after the cursor and before the cutoff, stream by stream."""
        total = 0
        for stream in streams:
            if stream >= cursor.stream:
                after = cursor.end if stream == cursor.stream else None
                statement, parameters = self.remaining_in(stream, cutoff, after)
                total += int(self._dialect.execute(statement, parameters)[0][0])
        return total

    def remaining_in(
        self, stream: int, cutoff: Instant, after: Scalar
    ) -> tuple[sa.Select[Any], dict[str, object]]:
        """Return the statement that counts the ended roots of one stream, by its index."""
        facts, source = self._facts, self._candidates.sources[stream]
        parameters: dict[str, object] = {}
        where = [self._in_stream(stream, cutoff, parameters)]
        if after is not None:
            parameters["ended"] = self._dialect.bind(after)
            ended = self._dialect.parameter("ended", after)
            where.append(facts.ends.raw(facts.runs, source) >= ended)
        statement = (
            sa.select(sa.func.count())
            .select_from(self._roots())
            .where(self._is_root(), one_of(self._status, self._tree.terminal), *where)
        )
        index = self._candidates.index(source)
        return self._dialect.hint(statement, facts.runs, index), parameters

    def outside(self, *, cutoff: Instant | None, now: Instant) -> Outside:
        """Classify the roots that pages pass by, and count the rows below them."""
        recent = 0
        protected: Counter[str] = Counter()
        blocked: Counter[str] = Counter()
        statuses = self._facts.binding.model.statuses
        for status, ended, count in self._dialect.execute(*self._classes(cutoff, now)):
            meaning = statuses.get(status, Status.UNKNOWN)
            if meaning is Status.UNKNOWN:
                blocked["unknown-status"] += count
            elif meaning is Status.LIVE:
                protected["live-member"] += count
            elif ended == "known":
                recent += count
            else:
                blocked[ended] += count
        members, within, unrooted = self._reach(cutoff)
        return Outside(
            recent=recent,
            protected=protected,
            blocked=blocked,
            members=members,
            within=within,
            unrooted=unrooted,
        )

    def kept_by_day(self, *, cutoff: Instant | None, now: Instant) -> Mapping[int, int]:
        """Count the ended roots that pages pass by, by days since 1970 at their end, some rows at a time."""
        days: Counter[int] = Counter()
        after: Scalar = None
        seen = CENSUS_ROWS
        while seen == CENSUS_ROWS:
            seen = 0
            for day, count, last in self._dialect.execute(*self._days_part(cutoff, now, after)):
                days[int(day)] += count
                seen += count if self._most else 0
                after = max(after, last, key=key_order)
        return days

    def _days_part(
        self, cutoff: Instant | None, now: Instant, after: Scalar
    ) -> tuple[sa.Select[Any], dict[str, object]]:
        parameters: dict[str, object] = {
            "latest": now + micros(CLOCK_SKEW),
            "after": self._dialect.bind(after),
        }
        end = self._facts.end
        tie = self._dialect.tie(self._tree.table, RUN, self._facts.key)
        where = [
            self._is_root(),
            one_of(self._status, self._tree.terminal),
            end > literal(0),
            end <= sa.bindparam("latest"),
            self._beyond(cutoff, parameters),
        ]
        if after is not None:
            where.append(tie > self._dialect.parameter("after", after))
        part = sa.select(sa.cast(end // literal(DAY), sa.Integer).label("day"), tie.label("tie"))
        part = part.select_from(self._roots()).where(*where)
        if self._most:
            part = part.order_by(tie).limit(self._most)
        rows = part.subquery("rows")
        found = sa.select(rows.c.day, sa.func.count(), self._last(rows)).group_by(rows.c.day)
        return found, parameters

    def _classes(self, cutoff: Instant | None, now: Instant) -> tuple[sa.Select[Any], dict[str, object]]:
        parameters: dict[str, object] = {"latest": now + micros(CLOCK_SKEW)}
        end = self._facts.end
        known = sa.case(
            (end.is_(None), literal("unknown-end-time")),
            (end == literal(UNREADABLE), literal("unreadable-end-time")),
            (end > sa.bindparam("latest"), literal("future-end-time")),
            else_=literal("known"),
        ).label("known")
        statement = (
            sa.select(self._status.label("status"), known, sa.func.count())
            .select_from(self._roots())
            .where(self._is_root(), self._beyond(cutoff, parameters))
            .group_by(sa.literal_column("1"), sa.literal_column("2"))
        )
        return statement, parameters

    def _roots(self) -> sa.FromClause:
        """Return the run table joined to its parents; `_is_root` then tells roots."""
        return self._facts.with_parents(self._facts.source)

    def _is_root(self) -> Column:
        return sa.not_(self._facts.has_parent())

    def _in_stream(self, stream: int, cutoff: Instant, parameters: dict[str, object]) -> Column:
        """Return the condition under which a page of this stream meets a row."""
        ends, runs = self._facts.ends, self._facts.runs
        source = self._candidates.sources[stream]
        column = ends.raw(runs, source)
        limit = self._candidates.limit(stream, cutoff)
        parameters[f"bound{stream}"] = ends.bound(runs, source, limit)
        earlier = self._candidates.earlier(runs, stream)
        return sa.and_(column.is_not(None), column < sa.bindparam(f"bound{stream}"), *earlier)

    def _beyond(self, cutoff: Instant | None, parameters: dict[str, object]) -> Column:
        """Return the condition under which no page meets a row."""
        if cutoff is None:
            return sa.true()
        streams = [self._in_stream(stream, cutoff, parameters) for stream in range(len(self._tree.end))]
        met = sa.and_(one_of(self._status, self._tree.terminal), sa.or_(*streams))
        return sa.case((met, literal(0)), else_=literal(1)) == literal(1)

    def _reach(self, cutoff: Instant | None) -> tuple[int, int, int]:
        """Count the rows of trees that pages pass by, of trees in their range, and of no tree at all.

        This is an aggregate, so it may recurse in the database: every row has one effective parent, so
        starting from roots it visits each row once and ends.
        """
        facts = self._facts
        parameters: dict[str, object] = {}
        beyond = self._beyond(cutoff, parameters).label("beyond")
        base = sa.select(facts.key.label("key"), beyond).select_from(self._roots()).where(self._is_root())
        reached = base.cte(self._free_name("reached"), recursive=True)
        if self._tree.edges:
            reached = reached.union_all(*self._steps_down(reached))
        total = sa.select(sa.func.count()).select_from(facts.runs).scalar_subquery()
        passed = sa.func.coalesce(sa.func.sum(sa.case((reached.c.beyond, 1), else_=0)), 0)
        statement = sa.select(passed, sa.func.count(), total).select_from(reached)
        outside, rooted, rows = self._dialect.execute(statement, parameters)[0]
        return int(outside), int(rooted - outside), int(rows - rooted)

    def _free_name(self, name: str) -> str:
        """Return a name that no table has: a common table expression would hide it."""
        taken = {table.lower() for table in self._dialect.shapes}
        while name in taken:
            name += "_"
        return name

    def _steps_down(self, reached: sa.CTE) -> list[sa.Select[Any]]:
        """Return what leads from the rows reached so far to their children, through all edges."""
        edges = range(len(self._tree.edges))
        if not self._dialect.has_lateral:
            return [self._step_down(place, reached) for place in edges]
        # each row's children by index: a join of the whole table, for each level, may be a scan of it
        found = [self._below(place, reached) for place in edges]
        below = sa.union_all(*found) if len(found) > 1 else found[0]
        children = below.offset(sa.literal_column("0")).lateral("below")
        joined = reached.join(children, sa.true())
        return [sa.select(next(iter(children.c)), reached.c.beyond).select_from(joined)]

    def _below(self, place: int, reached: sa.CTE) -> sa.Select[Any]:
        """Return the keys of the children of one row reached through one edge."""
        facts, binding, edge = self._facts, self._facts.binding, self._tree.edges[place]
        runs, table, key = facts.runs, self._tree.table, reached.c.key
        earlier = [runs.c[other.column].is_(None) for other in self._tree.edges[:place]]
        statement = sa.select(facts.key.label("key")).where(*earlier).correlate(reached)
        if edge.via is None:
            return statement.select_from(runs).where(binding.equals(runs, table, edge.column, key))
        link = binding.table(edge.via.table, "l")
        source = link.join(runs, link.c[edge.via.key] == runs.c[edge.column])
        return statement.select_from(source).where(binding.equals(link, edge.via.table, edge.via.owner, key))

    def _step_down(self, place: int, reached: sa.CTE) -> sa.Select[Any]:
        """Return the children, through one edge, of the rows reached so far."""
        facts, binding, edge = self._facts, self._facts.binding, self._tree.edges[place]
        runs = facts.runs
        key, table = reached.c.key, self._tree.table
        index = binding.index(table, edge.column)
        if edge.via is None:
            source: sa.FromClause = reached.join(runs, binding.equals(runs, table, edge.column, key))
        else:
            link = binding.table(edge.via.table, "l")
            source = reached.join(link, binding.equals(link, edge.via.table, edge.via.owner, key))
            source = source.join(runs, link.c[edge.via.key] == runs.c[edge.column])
            index = None
        earlier = [runs.c[other.column].is_(None) for other in self._tree.edges[:place]]
        statement = sa.select(facts.key, reached.c.beyond).select_from(source).where(*earlier)
        return self._dialect.hint(statement, runs, index)
