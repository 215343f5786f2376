"""`afterrun history`: the record of sweeps and manual applies of a store."""

from __future__ import annotations

import click

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import counted, table
from afterrun.cli.session import Session
from afterrun.cli.text import moment, seconds, size
from afterrun.core.errors import Exit
from afterrun.core.times import SECOND, iso
from afterrun.service import Retention

HEADS = ("at", "command", "ended", "removed", "deferred", "backlog", "time", "file after")


@click.command("history")
@store_argument
@profile_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="Newest N only."
)
@json_option
@click.pass_obj
def history(session: Session, *, store: str, profile: str | None, limit: int, as_json: bool) -> int:
    """Show what past sweeps and manual applies of a store came to, the newest last."""
    with Retention(store, profile=profile, writable=False) as retention:
        url, name = retention.store.url, retention.store.profile_name
        records = list(retention.history())[-limit:]
    if as_json:
        listed = [{**record.model_dump(), "at": iso(record.at)} for record in records]
        session.screen.json({"store": url, "profile": name, "records": listed})
        return Exit.DONE
    rows = [
        (
            moment(record.at - record.at % SECOND),
            record.command,
            record.ended,
            counted(record.removed),
            counted(record.deferred),
            counted(record.backlog),
            seconds(record.seconds),
            size(record.file_after),
        )
        for record in records
    ]
    said = table(*HEADS, rows=rows, numbers=range(3, len(HEADS))) if rows else "No sweep is on record."
    session.screen.show(table("", "", rows=[("store", url), ("profile", name)]), "", said)
    return Exit.DONE
