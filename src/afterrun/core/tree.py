"""Build run trees from rows: the level walk that every store shares.

A store answers four plain questions about rows (`RowSource`); this module asks them level by level, in
chunks, and folds the rows of each tree into a `Unit`. Broken lineage blocks the tree it touches and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from afterrun.core.facts import UNREADABLE, Flag, Key, Reason, Row, Scalar, Status, Unit, key_text, readable
from afterrun.core.times import Instant

CHUNK: Final = 1_000
"""Keys asked for at once; between 500 and 5,000 the cost a key is the same on both databases."""


class RowSource(Protocol):
    """Where rows come from. Keys go in, rows come out, in any order."""

    def rows(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows that have these keys."""

    def children(self, keys: Sequence[Key]) -> Iterable[Row]:
        """Return the rows whose effective parent is one of these keys."""

    def attached(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return those of these keys whose row has a parent that exists."""

    def flags(self, keys: Sequence[Key]) -> Mapping[Key, Sequence[Flag]]:
        """Return what holds these rows from outside, for those that anything holds."""


@dataclass(frozen=True, slots=True)
class TreeModel:
    """What the profile says of run trees.

    ``statuses`` maps the engine's words; any other word is `Status.UNKNOWN`. ``max_depth`` counts edges below
    the root. ``missing`` says what a parent link to a missing row makes of a row.
    """

    statuses: Mapping[Scalar, Status]
    max_depth: int
    missing: Literal["root", "block"]


@dataclass(slots=True)
class _Draft:
    """A tree while it is walked. Most have one row and no reason, so they hold no list of reasons."""

    rows: list[Row]
    blocked: tuple[Reason, ...] = ()
    protected: tuple[Reason, ...] = ()
    complete: bool = True

    def block(self, name: str, detail: str = "") -> None:
        """Add a reason unless one of that name is there: one example says enough."""
        if all(reason.name != name for reason in self.blocked):
            self.blocked = (*self.blocked, Reason(name, detail))

    def protect(self, name: str, detail: str = "") -> None:
        """Add a protection unless one of that name is there."""
        if all(reason.name != name for reason in self.protected):
            self.protected = (*self.protected, Reason(name, detail))


def chunks(keys: Sequence[Key], size: int = CHUNK) -> Iterator[Sequence[Key]]:
    """Cut keys into slices of at most ``size``."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def read_units(source: RowSource, keys: Sequence[Key], model: TreeModel) -> list[Unit]:
    """Read the units whose roots have these keys, in no particular order; missing ones are left out."""
    known = [key for key in keys if readable(key)]
    rows = [row for chunk in chunks(known) for row in source.rows(chunk)]
    return build_units(source, rows, model)


def build_units(source: RowSource, roots: Sequence[Row], model: TreeModel) -> list[Unit]:
    """Walk down from root rows and fold each tree into a unit.

    A row that turns out to have a living parent row is returned blocked as ``not-a-root``, so that a caller
    who holds an outdated idea of the tree never removes part of it.
    """
    drafts = [_Draft([row]) for row in roots]
    walkable: dict[Key, _Draft] = {}
    for draft in drafts:
        key = draft.rows[0].key
        if readable(key):
            walkable[key] = draft
        else:
            draft.block("unreadable-key", "its key is NULL or no plain text")
            draft.complete = False
    _check_parents(source, drafts, model)
    owners = _walk(source, walkable, model)
    _apply_flags(source, owners)
    return [_fold_single(draft, model) or _fold(draft, model) for draft in drafts]


def _check_parents(source: RowSource, drafts: Sequence[_Draft], model: TreeModel) -> None:
    """Find out whether roots that name a parent are roots because the parent is gone.

    They are asked for by their own keys, since a parent's key may be one that cannot be bound.
    """
    naming = {draft.rows[0].key: draft for draft in drafts if draft.rows[0].parent is not None}
    known = [key for key in naming if readable(key)]
    attached = {key for chunk in chunks(known) for key in source.attached(chunk)}
    for key in known:
        draft = naming[key]
        parent = key_text(draft.rows[0].parent)
        if key in attached:
            draft.block("not-a-root", f"its parent {parent} exists")
        elif model.missing == "block":
            draft.block("missing-parent", f"its parent {parent} is missing")


def _walk(source: RowSource, drafts: Mapping[Key, _Draft], model: TreeModel) -> Mapping[Key, _Draft]:
    """Add all descendants to their drafts; return which draft each readable member belongs to."""
    owners = dict(drafts)
    frontier: list[Key] = list(drafts)
    for depth in range(1, model.max_depth + 2):
        found: list[Key] = []
        for chunk in chunks(frontier):
            for row in source.children(chunk):
                found.extend(_attach(row, owners, chunk))
        if depth > model.max_depth:
            for key in found:
                owners[key].block("too-deep", f"deeper than {model.max_depth} levels")
                owners[key].complete = False
        if not found:
            break
        frontier = found
    return owners


def _attach(row: Row, owners: dict[Key, _Draft], asked: Sequence[Key]) -> Iterator[Key]:
    """Add one child row to its parent's tree; yield its key if the walk shall go on below it."""
    draft = owners.get(row.parent)
    if draft is None:
        # The store found a parent that compares different here (a collation): no telling whose child it is.
        for key in asked:
            owners[key].block("ambiguous-parent", "a child's link matches its parent only loosely")
            owners[key].complete = False
        return
    draft.rows.append(row)
    if not readable(row.key):
        draft.block("unreadable-key", "a member's key is NULL or no plain text")
        draft.complete = False
    elif row.key in owners:
        draft.block("cycle", f"{key_text(row.key)} is reached twice")
        owners[row.key].block("cycle", f"{key_text(row.key)} is reached twice")
    else:
        owners[row.key] = draft
        yield row.key


def _apply_flags(source: RowSource, owners: Mapping[Key, _Draft]) -> None:
    for chunk in chunks(list(owners)):
        for key, flags in source.flags(chunk).items():
            for flag in flags:
                put = owners[key].block if flag.blocks else owners[key].protect
                put(flag.reason.name, flag.reason.detail)


def _fold_single(draft: _Draft, model: TreeModel) -> Unit | None:
    """Fold a tree of one run that ended at a known time: the plain case, and by far the most frequent."""
    root = draft.rows[0]
    status = model.statuses.get(root.status)
    ended = status is Status.SUCCESSFUL or status is Status.TERMINAL
    if not ended or len(draft.rows) > 1 or root.end is None or root.end == UNREADABLE:
        return None
    return Unit(
        root.key,
        (root.key,),
        root.end,
        root.end,
        status is Status.SUCCESSFUL,
        root.group,
        draft.blocked,
        draft.protected,
        draft.complete,
        True,  # noqa: FBT003 - by place, as every unit of one run is made: it is the hot path
        None,
        None,
        root.status,
        root.keyed,
    )


def _fold(draft: _Draft, model: TreeModel) -> Unit:
    root = draft.rows[0]
    statuses = model.statuses
    latest: Instant | None = None
    ended = 0
    for row in draft.rows:
        status = statuses.get(row.status, Status.UNKNOWN)
        if status is Status.LIVE:
            draft.protect("live-member", f"{key_text(row.key)} is {row.status!r}")
        elif status is Status.UNKNOWN:
            draft.block("unknown-status", f"{key_text(row.key)} has status {row.status!r}")
        elif row.end is None:
            draft.block("unknown-end-time", f"{key_text(row.key)} has no end time")
        elif row.end == UNREADABLE:
            draft.block("unreadable-end-time", f"{key_text(row.key)} has no usable end time")
        else:
            ended += 1
            if latest is None or row.end > latest:
                latest = row.end
    finished = statuses.get(root.status) in (Status.TERMINAL, Status.SUCCESSFUL)
    return Unit(
        key=root.key,
        members=tuple([row.key for row in draft.rows]),
        end=latest,
        root_end=root.end if finished and root.end != UNREADABLE else None,
        successful=statuses.get(root.status) is Status.SUCCESSFUL,
        group=root.group,
        blocked=draft.blocked,
        protected=draft.protected,
        complete=draft.complete,
        settled=ended == len(draft.rows),
        status=root.status,
        keyed=any(row.keyed for row in draft.rows),
    )
