"""Reclaim: look at what can be given back, decide, do it, and measure and check what came of it.

It removes no row and needs the store's sweep lock, which the caller holds.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from afterrun.core.errors import AfterrunError, Refused, StoreFailure, UnitFailure
from afterrun.core.space import WORTH_BYTES, WORTH_SHARE, Reclaim, ReclaimOptions, Space
from afterrun.stores.sql.sqlite_space import lacking
from afterrun.stores.sql.store import SqlStore

PINNED: Final = (
    "it was done, but a reader of another process keeps the old pages: the file shrinks when that reader has "
    "ended and the reclaim is run again"
)
RENUMBERED: Final = (
    "VACUUM may give new rowids to a table that has neither an INTEGER PRIMARY KEY nor an index"
)
BLOCKS: Final = (
    "VACUUM copies all live content, and the engine can write nothing meanwhile: measured 6 to 11 s a GiB on "
    "machines with two cores"
)


def survey_space(store: SqlStore) -> Reclaim:
    """Say what could be given back, how, and with how much room. Changes nothing."""
    space = store.space()
    found = Reclaim(
        store=store.url, profile=store.profile_name, before=space, rooms=tuple(store.rooms(space))
    )
    if space.method == "vacuum":
        found.notices += [BLOCKS, RENUMBERED]
    if space.method != "none" and not space.worth:
        found.notices.append(below(space))
    short = lacking(found.rooms)
    if short:
        found.notices.append(f"it would be refused now: {short}")
    return found


def below(space: Space) -> str:
    """Say why free pages are better left to be used again."""
    return (
        f"not worth it: {space.free:,} bytes are free, {space.free_share:.0%} of the file. Below "
        f"{WORTH_BYTES:,} bytes or {WORTH_SHARE:.0%} the engine uses free pages again, and an automatic "
        "reclaim leaves them"
    )


def reclaim_space(store: SqlStore, options: ReclaimOptions) -> Reclaim:
    """Give free pages back to the file system.

    Raises `Refused` before anything was done, where a volume lacks room or a reader pins the WAL. A failure
    on the way ends the reclaim ``failed``; the content is as it was.
    """
    began = time.monotonic()
    report = survey_space(store)
    report.dry_run = False
    if options.worth_only and not report.before.worth:
        report.ended, report.message = "skipped", below(report.before)
        return report
    short = lacking(report.rooms)
    if short:
        raise Refused("no-room", f"there is no room to give space back: {short}. Nothing was done")
    try:
        report.ended = store.give_back(report.before, gate=options.gate, rest=options.rest)
        report.problems = list(store.check())
    except (StoreFailure, UnitFailure) as error:
        report.ended, report.message = "failed", f"{error}. No row was changed"
    with suppress(StoreFailure, UnitFailure):  # what ended it may still be in the way
        report.after = store.space()
    report.seconds = time.monotonic() - began
    if report.problems:
        report.ended, report.message = "failed", "the check afterwards found faults"
    elif report.ended == "pinned":
        report.message = PINNED
    return report


def try_reclaim(store: SqlStore, options: ReclaimOptions) -> Reclaim:
    """Reclaim after a removal: whatever stands in the way is reported, since the removal is done."""
    try:
        return reclaim_space(store, options)
    except AfterrunError as error:
        report = survey_space(store)
        report.dry_run, report.ended, report.message = False, "failed", str(error)
        return report
