"""`afterrun history`: the record of sweeps, manual applies and restores of a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import counted, notes, table
from afterrun.cli.session import Session
from afterrun.cli.text import masked, message_lines, moment, seconds, size
from afterrun.core.errors import AfterrunError, Exit
from afterrun.core.times import SECOND, iso
from afterrun.service import open_retention
from afterrun.state.attempts import Attempts
from afterrun.state.files import RESTORE, Record

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
    """Show what past sweeps, manual applies and restores of a store came to, the newest last."""
    url, name, records = _records(session, store, profile)
    records = records[-limit:]
    if as_json:
        listed = [{**record.model_dump(), "at": iso(record.at)} for record in records]
        session.screen.json({"store": url, "profile": name, "records": listed})
        return Exit.DONE
    rows = [
        (
            moment(record.at - record.at % SECOND),
            record.command,
            _ending(record),
            counted(record.removed) if record.command != RESTORE else f"{counted(record.restored)} back",
            counted(record.deferred),
            counted(record.backlog),
            seconds(record.seconds),
            size(record.file_after),
        )
        for record in records
    ]
    said = table(*HEADS, rows=rows, numbers=range(3, len(HEADS))) if rows else "No sweep is on record."
    head = table("", "", rows=[("store", url), ("profile", name)])
    session.screen.show(head, "", said, *notes("Notes:", _remarks(records)))
    return Exit.DONE


def _records(session: Session, store: str, profile: str | None) -> tuple[str, str, Sequence[Record]]:
    """Return the store's URL, profile and records; of a store that cannot be opened, what is on record."""
    try:
        with open_retention(store, profile=profile, writable=False) as retention:
            return retention.store.url, retention.store.profile_name, retention.history()
    except AfterrunError as error:
        records = Attempts(store).records()
        if not records:
            raise
        session.screen.aside(*message_lines(f"the store cannot be opened now: {error}"))
        return masked(store), profile or "unknown", records


def _ending(record: Record) -> str:
    ended = f"{record.ended} ({record.why})" if record.why else record.ended
    return f"{ended} x{record.attempts}" if record.attempts > 1 else ended


def _remarks(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if record.observer_failures:
            when, events = moment(record.at - record.at % SECOND), counted(record.observer_failures)
            yield f"{when}: an observer failed at {events} events; what it shows is incomplete"
