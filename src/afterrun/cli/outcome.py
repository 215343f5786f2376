"""How a removal ends for the shell."""

from __future__ import annotations

from typing import Final

from afterrun.core.errors import Exit
from afterrun.core.report import Report

ENDINGS: Final = {"failed": Exit.ERROR, "guard": Exit.REFUSED, "locked": Exit.LOCKED}
"""Endings that decide alone."""


def exit_of(report: Report, *, strict: bool, stopped: bool, told: bool = True) -> Exit:
    """Return the exit code of a sweep or apply. ``stopped``: a person ended it between two batches.

    ``told`` is false where the metrics that were asked for could not be written.
    """
    if report.ended in ENDINGS:
        return ENDINGS[report.ended]
    cut_short = report.reclaim is not None and report.reclaim.ended == "interrupted"
    if stopped and (report.ended == "interrupted" or cut_short):
        return Exit.INTERRUPTED
    if not told:
        return Exit.ERROR
    cut_off = report.ended in {"budget", "interrupted"}
    undone = report.reclaim is not None and report.reclaim.ended in {"failed", "pinned", "partial"}
    return Exit.DEFERRED if report.undone or undone or (strict and cut_off) else Exit.DONE
