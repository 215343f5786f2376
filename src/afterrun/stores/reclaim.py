"""Reclaim: look at what can be given back, decide, do it, and measure what came of it.

It removes no row and needs the store's sweep lock, which the caller holds.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from afterrun.core.errors import AfterrunError, Refused, StoreFailure, UnitFailure
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.stores.sql.sqlite.space import lacking
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


PLAIN: Final = (
    "a plain VACUUM makes the place of dead rows free to use again, beside the engine; only an empty end of "
    "a table goes back to the file system, and indexes keep their size"
)
NOTICES: Final = {"vacuum": (BLOCKS, RENUMBERED), "plain-vacuum": (PLAIN,)}


def survey_space(store: SqlStore) -> Reclaim:
    """Say what could be given back, how, and with how much room. Changes nothing."""
    space = store.space()
    found = Reclaim(store=store.url, profile=store.profile_name, before=space, rooms=tuple(store.rooms()))
    found.notices += [*NOTICES.get(space.method, ()), *space.notices]
    if space.method != "none" and not space.worth:
        found.notices.append(space.why_not_worth)
    short = lacking(found.rooms)
    if short:
        found.notices.append(f"it would be refused now: {short}")
    return found


def reclaim_space(store: SqlStore, options: ReclaimOptions) -> Reclaim:
    """Give space back, as far as the database can in place.

    Raises `Refused` before anything was done, where a volume lacks room, a reader pins the WAL or rights do
    not suffice. A failure on the way ends the reclaim ``failed``; the content is as it was.
    """
    began = time.monotonic()
    report = survey_space(store)
    report.dry_run = False
    if options.worth_only and not report.before.worth:
        report.ended, report.message = "skipped", report.before.why_not_worth
        return report
    short = lacking(report.rooms)
    if short:
        raise Refused("no-room", f"there is no room to give space back: {short}. Nothing was done")
    try:
        _give_back(store, options, report)
    except (StoreFailure, UnitFailure) as error:
        report.ended, report.message = "failed", f"{error}. No row was changed"
    with suppress(StoreFailure, UnitFailure):  # what ended it may still be in the way
        report.after = store.space()
    report.seconds = time.monotonic() - began
    if report.problems:
        report.ended, report.message = "failed", "the check afterwards found faults"
    return report


def _give_back(store: SqlStore, options: ReclaimOptions, report: Reclaim) -> None:
    """Do it, and check what was written anew."""
    done = store.give_back(gate=options.gate, rest=options.rest)
    report.ended, report.message = done.ended, done.message
    if done.ended == "pinned" and not done.message:
        report.message = PINNED
    report.notices += [notice for notice in done.notices if notice not in report.notices]
    if report.before.moves_content:
        report.problems = list(store.check())


def try_reclaim(store: SqlStore, options: ReclaimOptions) -> Reclaim:
    """Reclaim after a removal: whatever stands in the way is reported, since the removal is done."""
    try:
        return reclaim_space(store, options)
    except AfterrunError as error:
        report = survey_space(store)
        report.dry_run, report.ended, report.message = False, "failed", str(error)
        return report
