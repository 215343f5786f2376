"""`afterrun inspect`: what a store holds, before anything is removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import Pairs, counted, notes, table
from afterrun.cli.session import Session
from afterrun.cli.space import STATE_HEADS, space_lines, state_rows
from afterrun.cli.text import distance, moment, seconds, size
from afterrun.core.errors import Exit
from afterrun.core.inspection import Ahead, Held, Inspection
from afterrun.core.times import Instant
from afterrun.service import open_retention

LISTED: Final = 15
"""Tables shown to people; JSON has all of them."""


@click.command("inspect")
@store_argument
@profile_option
@click.option("--exact", is_flag=True, help="Read everything to measure tables, instead of samples.")
@json_option
@click.pass_obj
def inspect(session: Session, *, store: str, profile: str | None, exact: bool, as_json: bool) -> int:
    """Say what a store holds, what some ages would free, and what stays. Changes nothing."""
    with open_retention(store, profile=profile, writable=False) as retention:
        found = retention.inspect(exact=exact)
    if as_json:
        session.screen.json(found.as_json())
    else:
        session.screen.show(*_parts(found))
    return Exit.DONE


def _parts(found: Inspection) -> list[RenderableType]:
    tables = [
        (
            part.name,
            _about(counted(part.rows), part.rows_estimated),
            _sized(part.table, found),
            _sized(part.indexes, found),
        )
        for part in found.tables[:LISTED]
    ]
    parts: list[RenderableType] = [table("", "", rows=_head(found)), ""]
    parts += [table("table", "rows", "bytes", "of indexes", rows=tables, numbers=[1, 2, 3])]
    if len(found.tables) > LISTED:
        parts.append(f"and {len(found.tables) - LISTED} smaller tables")
    ahead = [_ahead(part) for part in found.look.ahead]
    heads = ("would free", "units", "rows", "bytes")
    parts += ["", table(*heads, rows=ahead, numbers=[1, 2, 3])]
    stays = [
        *_held("blocked", found.look.blocked, found.now),
        *_held("protected", found.look.protected, found.now),
    ]
    if stays:
        parts += ["", table("stays whatever its age", "units", "oldest", rows=stays, numbers=[1])]
    stored = state_rows(found.space, found.now)
    if stored:
        parts += ["", table(*STATE_HEADS, rows=stored, numbers=range(1, len(STATE_HEADS) - 1))]
    parts += notes("The tables:" if stored else "The file:", space_lines(found.space, found.rooms))
    return [*parts, "", f"Looked in {seconds(found.seconds)}. Nothing was changed."]


def _head(found: Inspection) -> Pairs:
    read = "read" if found.schema.read else "never read"
    growth = found.growth
    yield "store", found.store
    yield "engine", f"{found.engine}, profile {found.profile}, schema {found.schema.version} ({read})"
    yield (
        "runs",
        ", ".join(f"{counted(count)} {state}" for state, count in found.runs.items() if count) or "none",
    )
    yield "stuck", f"{counted(found.stuck.count)} live without a sign of life for 30 days"
    yield "oldest", _when(found.oldest, found.now)
    yield "newest", _when(found.newest, found.now)
    came = f"{growth['created']:,g} runs made, {growth['ended']:,g} ended, ~{size(round(growth['bytes']))}"
    yield "growth a day", f"{came}, of what is still there from the last {growth['days']:g} days"


def _when(instant: Instant | None, now: Instant) -> str:
    return "unknown" if instant is None else f"{moment(instant)}, {distance(instant, now)}"


def _ahead(part: Ahead) -> tuple[str, str, str, str]:
    content = f"~{size(part.bytes)}" if part.estimated else size(part.bytes)
    if part.error:
        content += f" +-{part.error:.0%}"
    return (
        f"--keep-for {part.days}d",
        _about(counted(part.units), part.estimated),
        _about(counted(part.rows), part.estimated),
        content,
    )


def _about(text: str, estimated: bool) -> str:
    return f"~{text}" if estimated else text


def _sized(count: int, found: Inspection) -> str:
    return _about(size(count), not (found.exact or found.space.tables_measured))


def _held(word: str, held: Mapping[str, Held], now: Instant) -> Iterable[tuple[str, str, str]]:
    for name, part in sorted(held.items()):
        yield f"{word}, {name}", counted(part.count), _when(part.oldest, now)
