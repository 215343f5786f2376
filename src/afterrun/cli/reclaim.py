"""`afterrun reclaim`: give space back that removed rows have left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click
from rich.console import RenderableType

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import notes, reclaim_lines, table
from afterrun.cli.session import Session
from afterrun.cli.space import SIZE_HEADS, held_back, rewrite_lines, size_rows, space_head
from afterrun.cli.text import size
from afterrun.cli.through import not_said, served
from afterrun.core.errors import Exit
from afterrun.core.space import STEPWISE, Reclaim, ReclaimOptions
from afterrun.service import open_retention

EXITS: Final = {
    "planned": Exit.DONE,
    "completed": Exit.DONE,
    "skipped": Exit.DONE,
    "pinned": Exit.DEFERRED,
    "partial": Exit.DEFERRED,
    "interrupted": Exit.INTERRUPTED,
    "failed": Exit.ERROR,
}


@click.command("reclaim")
@store_argument
@profile_option
@click.option("--apply", is_flag=True, help="Do it. Without it, only say what could be given back.")
@json_option
@click.pass_obj
def reclaim(session: Session, *, store: str, profile: str | None, apply: bool, as_json: bool) -> int:
    """Give back the space that removed rows have left. Never removes a row.

    Without --apply it only says what could be given back, by which method, and how much room that needs.
    SQLite writes the file anew; PostgreSQL makes the place of removed rows free to use again.
    """
    signals = session.signals
    with served(store, refused=not_said(profile=profile)) as holder:
        if holder is not None:
            return _show_served(session, holder.reclaim(apply=apply), as_json=as_json)
    with open_retention(store, profile=profile, writable=apply, schema_unverified=True) as retention:
        if apply:
            signals.graceful = retention.survey_space().before.method in STEPWISE
            report = retention.reclaim(ReclaimOptions(gate=signals.gate))
            signals.graceful = False
            if signals.aborted:  # SQLite reports an interrupted statement instead
                raise KeyboardInterrupt
        else:
            report = retention.survey_space()
    if as_json:
        session.screen.json(report.as_json())
    else:
        hint = [] if apply else ["Nothing was changed: --apply gives the space back."]
        session.screen.show(*_parts(report), *hint)
    if report.ended == "interrupted" and not signals.stopping:
        return Exit.DEFERRED
    return EXITS[report.ended]


def _show_served(session: Session, told: Mapping[str, Any], *, as_json: bool) -> Exit:
    """Show what the server that holds the store gave back, or could."""
    if as_json:
        session.screen.json(told)
    else:
        given = [(name.replace("_", " "), size(count)) for name, count in told["bytes"].items()]
        head = [("store", told["store"]), ("method", told["method"]), ("ended", told["ended"]), *given]
        hint = ["", "Nothing was changed: --apply gives the space back."] if told["dry_run"] else []
        lines = [*told["problems"], *told["notices"], *([told["message"]] if told["message"] else [])]
        session.screen.show(table("", "", rows=head), *notes("Notes:", lines), *hint)
    return Exit.DEFERRED if told["ended"] == "interrupted" else EXITS[told["ended"]]


def _parts(report: Reclaim) -> list[RenderableType]:
    before = report.before
    head = [("store", report.store), ("profile", report.profile), *space_head(before)]
    rooms = [
        (room.volume, room.path, size(room.needed), size(room.available), "yes" if room.enough else "no")
        for room in report.rooms
    ]
    parts: list[RenderableType] = [table("", "", rows=head)]
    if rooms:
        heads = ("room needed for", "folder", "needed", "available", "enough")
        parts += ["", table(*heads, rows=rooms, numbers=[2, 3])]
    tables = size_rows(before)
    if tables:
        parts += ["", table(*SIZE_HEADS, rows=tables, numbers=range(1, len(SIZE_HEADS) - 1))]
    parts += notes("What holds back, and what more would take:", [*held_back(before), *rewrite_lines(before)])
    if not report.dry_run:
        parts += ["", *reclaim_lines(report)]
    return [*parts, *notes("Faults:", report.problems), *notes("Notes:", report.notices)]
