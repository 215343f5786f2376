"""The plan: policy + store + one ``now``. It says what would go and why the rest stays; it deletes nothing.

`judged_pages` is the one walk over candidates: a plan counts what it yields, a sweep removes it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from afterrun.core.decided import deciders, of_the_young, tallied
from afterrun.core.errors import StoreFailure
from afterrun.core.facts import Key, Unit, key_text
from afterrun.core.guard import Count
from afterrun.core.judge import Judgement, Rules, Verdict, judge
from afterrun.core.periods import PERIODS
from afterrun.core.policy import Policy
from afterrun.core.report import Report, UnitCounts
from afterrun.core.resolve import resolve
from afterrun.core.row_tables import ROW
from afterrun.core.store import Cursor, Store
from afterrun.core.times import Instant

MAX_UNIT_ROWS: Final = 200_000
"""Rows of one unit above which no batch takes it: it is deferred as ``oversized`` and the plan names it."""

LARGE_UNIT_ROWS: Final = 50_000
"""Rows of one unit above which its removal may hold locks longer than any batch; the plan names it."""

SAMPLE: Final = 200
SAMPLE_A_PAGE: Final = 50
"""Units whose content is measured to estimate the size of all."""

MANY_GROUPS: Final = 0.8
"""Share of groups to units from which ``keep_last`` hardly lets anything go, and the plan says so."""

WHOLE_RUNS: Final = ("tree", "directory")
"""Kinds of units that are runs with all that belongs to them. An id alone is that of such a one."""

Only: TypeAlias = "Collection[str] | Mapping[str, Collection[Key]]"
"""Ids of units, of whatever kind or by kind: a run may have the id of another run's generation.

Rows of a row table, a kind like any other, are told by their keys as the store has them; without kinds, none.
"""

NOT_IN_PLAN: Final = "not in the plan file"
"""What is said of units that would go, but for a list of ids that narrows a plan."""

NAMED: Final = 20
"""Oversized units that a report names one by one."""

UNDECIDED: Final = {
    "keep_last": "no unit that the other rules let go is among the newest",
    **dict.fromkeys(PERIODS, "no unit that the other rules let go is the newest of such a period"),
}


def only_of(only: Only | None, kind: str) -> Collection[Key] | None:
    """Return the ids that narrow what goes of one kind; ``None`` if nothing does."""
    if isinstance(only, Mapping):
        return only.get(kind, frozenset())
    return frozenset[Key]() if only is not None and kind.startswith(ROW) else only


class JudgedPage(NamedTuple):
    """One page of candidates with their judgements, and the cursor after it (``None`` at the end)."""

    units: Sequence[tuple[Unit, Judgement]]
    scanned: int
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a policy means for one store at one ``now``."""

    kind: str
    rules: Rules
    fingerprint: str
    streams: tuple[int, ...]
    notices: tuple[str, ...] = ()
    implied: bool = False
    """Whether its policy stands for having none, as for units of a kind that none was given for."""

    @property
    def cursor_name(self) -> str:
        """Return what a place in its candidates is remembered under."""
        return self.fingerprint if self.kind == "tree" else f"{self.fingerprint}/{self.kind}"


def make_plan(
    store: Store,
    policy: Policy,
    *,
    now: Instant,
    skip_streams: frozenset[int] = frozenset(),
    whole: Policy | None = None,
) -> Plan:
    """Resolve a policy against a store. ``whole`` is the policy that it is the part of for one kind of unit.

    Raises `UsageError` for a group column or a status that the profile lacks.
    """
    rules, notices = resolve(store, policy, now=now)
    streams = tuple(i for i in range(len(store.streams())) if i not in skip_streams)
    return Plan(
        kind=store.kind,
        rules=rules,
        fingerprint=fingerprint(store, whole or policy),
        streams=streams,
        notices=tuple(notices),
    )


def fingerprint(store: Store, policy: Policy) -> str:
    """Name a policy on a store: no clock, so the same question has the same name tomorrow.

    It has no ids in it, but a digest of the pins: with one pin less, it is another question.
    """
    pins = hashlib.sha256(json.dumps(sorted(policy.pins)).encode()).hexdigest()
    rules = {**policy.canonical(), "pins": pins}
    text = json.dumps([store.identity, store.profile_name, rules], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def judged_pages(
    store: Store, plan: Plan, *, limit: int, start: Cursor | None = None
) -> Iterator[JudgedPage]:
    """Yield pages of judged candidates, from ``start`` to the end of the last stream.

    Raises `StoreFailure` if the store's cursor fails to grow, rather than turn in circles.
    """
    cutoff = plan.rules.cutoff
    first = 0 if start is None else start.stream
    streams = [stream for stream in plan.streams if stream >= first] if cutoff is not None else []
    for stream in streams:
        cursor: Cursor | None = start if start and start.stream == stream else Cursor(stream)
        while cursor is not None and cutoff is not None:
            page = store.page(cursor, cutoff=cutoff, limit=limit)
            if page.cursor == cursor:
                raise StoreFailure("cursor", "the store's cursor did not move; nothing more was read")
            cursor = page.cursor
            following = None if cursor is None and stream == streams[-1] else cursor or Cursor(stream + 1)
            judged = [(unit, judge(unit, plan.rules)) for unit in page.units]
            judged_page = JudgedPage(judged, page.scanned, following)
            del page, judged  # so that no page is held while the next one is read
            yield judged_page
            del judged_page


def tally(counts: UnitCounts, unit: Unit, judgement: Judgement) -> None:
    """Count one judged unit."""
    counts.members += len(unit.members)
    if judgement.verdict is Verdict.EXPIRED:
        counts.expired += 1
    elif judgement.verdict is Verdict.RECENT:
        counts.recent += 1
    elif judgement.verdict is Verdict.PROTECTED:
        counts.protected.update({reason.name for reason in judgement.protected})
    else:
        counts.blocked.update({reason.name for reason in judgement.blocked})


def new_report(store: Store, plan: Plan, *, dry_run: bool) -> Report:
    """Start a report with all that is known before the first page."""
    return Report(
        store=store.url,
        profile=store.profile_name,
        schema=store.schema(),
        dry_run=dry_run,
        now=plan.rules.now,
        policy=plan.rules.policy.canonical(),
        fingerprint=plan.fingerprint,
        kind=store.kind,
        notices=[*store.schema().problems, *store.schema().notices, *plan.notices],
    )


def count_expired(store: Store, plan: Plan, *, limit: Count, page: int) -> Count:
    """Count units that would go, and their runs, but stop once there are more of both than ``limit``."""
    units = runs = 0
    for judged in judged_pages(store, plan, limit=page):
        going = [unit for unit, judgement in judged.units if judgement.verdict is Verdict.EXPIRED]
        units += len(going)
        runs += sum(len(unit.members) for unit in going)
        if units > limit.units and runs > limit.runs:
            break
    return Count(units, runs)


class Surveyed(NamedTuple):
    """One page of a survey: its judged units, those of them that would go, and the rows that these take."""

    units: Sequence[tuple[Unit, Judgement]]
    going: Sequence[Unit]
    rows: int


class Survey:
    """Counts a whole store under a plan, page by page, in bounded memory.

    ``only`` narrows what would go to units with these ids; other expired ones count as skipped. ``watch`` is
    told of every page, so that whoever wants to know more of the same units need not read them again.
    """

    def __init__(
        self,
        store: Store,
        plan: Plan,
        *,
        only: Collection[Key] | None = None,
        watch: Callable[[Surveyed], None] | None = None,
    ) -> None:
        """Prepare a survey; nothing is read yet."""
        self._store = store
        self._plan = plan
        self._only = only
        self._watch = watch
        self._sampled: list[tuple[int, int]] = []
        self._whole = True
        self._decided: Counter[str] = Counter()
        self._blobs = None if store.blobs is None else store.blobs.survey()
        self.report = new_report(store, plan, dry_run=True)

    def expired(self, *, page: int) -> Iterator[Unit]:
        """Read and count all candidates; yield the units that would go. The report is whole at the end."""
        for judged in judged_pages(self._store, self._plan, limit=page):
            going, rows = self._weigh(self._count_page(judged))
            if self._watch is not None:
                self._watch(Surveyed(judged.units, going, rows))
            yield from going
        self._finish()

    def _count_page(self, judged: JudgedPage) -> list[Unit]:
        counts = self.report.units
        counts.scanned += judged.scanned
        going = []
        for unit, judgement in judged.units:
            tally(counts, unit, judgement)
            self._decided.update(deciders(unit, judgement, self._plan.rules))
            self._whole = self._whole and unit.complete
            if judgement.verdict is Verdict.EXPIRED:
                if self._only is None or key_text(unit.key) in self._only:
                    going.append(unit)
                else:
                    counts.skipped[NOT_IN_PLAN] += 1
        return going

    def _weigh(self, going: Sequence[Unit]) -> tuple[Sequence[Unit], int]:
        """Count the rows that would go; set aside units that no batch will take."""
        if not going:
            return going, 0
        report = self.report
        rows = self._store.count(going)
        if sum(rows.values()) > LARGE_UNIT_ROWS:
            going = self._set_heavy_aside(going)
            rows = self._store.count(going)
        report.rows.update(rows)
        report.keys_forgotten += self._store.forgets(going)
        if self._blobs is not None:
            self._blobs.add(going)
        if len(self._sampled) * SAMPLE_A_PAGE < SAMPLE:
            self._sampled.append(self._store.measure(going[:SAMPLE_A_PAGE]))
        return going, sum(rows.values())

    def _set_heavy_aside(self, going: Sequence[Unit]) -> Sequence[Unit]:
        report = self.report
        weights = self._store.weigh(going)
        weighed = list(zip(going, weights, strict=True))
        heavy = [unit for unit, rows in weighed if rows > MAX_UNIT_ROWS]
        large = [unit for unit, rows in weighed if LARGE_UNIT_ROWS < rows <= MAX_UNIT_ROWS]
        report.oversized.extend(key_text(unit.key) for unit in heavy[: NAMED - len(report.oversized)])
        report.large.extend(key_text(unit.key) for unit in large[: NAMED - len(report.large)])
        report.units.deferred += len(heavy)
        report.units.expired -= len(heavy)
        return [unit for unit, rows in weighed if rows <= MAX_UNIT_ROWS]

    def _finish(self) -> None:
        report, rules = self.report, self._plan.rules
        outside = self._store.outside(cutoff=rules.cutoff, now=rules.now)
        counts = report.units
        if not self._whole:  # the walk stopped early somewhere: take the aggregate's count
            counts.members = outside.within
        counts.members += outside.members
        counts.unrooted = outside.unrooted
        counts.recent += outside.recent
        counts.protected.update(outside.protected)
        counts.blocked.update(outside.blocked)
        report.backlog_before = report.backlog_after = counts.expired
        size, rows = (sum(part) for part in zip(*self._sampled, strict=True)) if self._sampled else (0, 0)
        report.logical_bytes = size * sum(report.rows.values()) // rows if rows else 0
        if self._blobs is not None:
            report.blobs, blob_rows = self._blobs.counts()
            report.rows.update(blob_rows)
            report.logical_bytes += report.blobs.size
            self._blobs.close()
        young = of_the_young(rules)
        if young is not None and outside.recent:
            self._decided[young] += outside.recent
        if not self._plan.implied:
            counts.decided = tallied(rules.policy, self._decided)
        report.notices.extend(self._advice(outside_recent=outside.recent))

    def _decides_nothing(self, name: str) -> bool:
        """Say whether a count keeps only what stays anyway: the current generation, which is no candidate."""
        return (self._plan.kind, name, self._plan.rules.policy.keep_last) == ("generation", "keep_last", 1)

    def _advice(self, *, outside_recent: int) -> Iterator[str]:
        """Say what a careful reader of the policy would want to know."""
        policy, units = self._plan.rules.policy, self.report.units
        total = units.expired + units.recent
        for name in [*policy.counts, *(rule.name for rule in policy.rules if not outside_recent)]:
            if not self._decided[name] and not self._decides_nothing(name):
                yield f"{name} decided nothing: {UNDECIDED.get(name, 'no unit is kept by it')}"
        if policy.counts:
            groups = self._store.groups(self._plan.rules.places)
            if groups and total and groups >= MANY_GROUPS * total:
                yield (
                    f"there are about as many groups ({groups}) as units ({total}), so hardly anything goes "
                    f"under {' and '.join(policy.counts)}: group by fewer columns"
                )
        if policy.keep_for is not None and not (self._decided["keep_for"] or outside_recent):
            yield "keep_for decided nothing: every unit that ended is older"
        if policy.before is not None and not (self._decided["before"] or outside_recent):
            yield "before decided nothing: every unit that ended did so earlier"
        yield from self._cap_advice()
        if units.expired:
            yield "a policy applies to everything in the store, also to what ended before it was written"

    def _cap_advice(self) -> Iterator[str]:
        for name in self._plan.rules.policy.caps:
            if not self._decided[name]:
                yield f"{name} decided nothing: no unit goes that the other rules would keep"
