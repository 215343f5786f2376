"""`afterrun restore`: puts removed units back from a `removed` backup."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import counted, notes, table
from afterrun.cli.session import Session
from afterrun.core.errors import Exit
from afterrun.core.row_tables import ROW
from afterrun.service import open_retention
from afterrun.stores.sql.backups import Restored

ADVICE: Final = (
    "What was old when it was removed is old now: the next sweep takes it again, unless its policy keeps it. "
    "--pin ID, or pins in the policy file, keeps a tree."
)
WORDS: Final = {"directory": "run directories"}


def _word(kind: str) -> str:
    """Return what units of a kind are called, many of them."""
    table = kind.removeprefix(ROW)
    return f"rows of {table}" if table != kind else WORDS.get(kind, f"{kind}s")


@click.command("restore")
@store_argument
@click.argument("backup", metavar="BACKUP")
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "--rows",
    multiple=True,
    metavar="NAME",
    help="Only rows of this row table: all, or the one whose key is RUN. May be repeated.",
)
@profile_option
@click.option(
    "--schema-unverified", is_flag=True, help="Admit a schema version that was never read. Look first."
)
@click.option("--offline", is_flag=True, help="No engine uses the store now: no pause between units.")
@json_option
@click.pass_obj
def restore(
    session: Session,
    *,
    store: str,
    backup: str,
    run: str | None,
    rows: tuple[str, ...],
    profile: str | None,
    schema_unverified: bool,
    offline: bool,
    as_json: bool,
) -> int:
    """Put the tree of one run, one generation, or all of them back from a backup that prune made; or rows.

    Of a directory, BACKUP may be the word `trash`: what is in its trash comes back. A tree whose ids are in
    the store again is refused, and so is a generation whose run is gone.
    """
    with open_retention(
        store, profile=profile, writable=True, schema_unverified=schema_unverified
    ) as retention:
        report = retention.restore(Path(backup), run, rows=rows, rest=0.0 if offline else 1.0)
    if as_json:
        session.screen.json(_as_json(report))
    else:
        session.screen.show(*_parts(report))
    return Exit.DEFERRED if report.refused else Exit.DONE


def _as_json(report: Restored) -> dict[str, object]:
    return {
        "store": report.store,
        "profile": report.profile,
        "backup": report.backup,
        "made_at": report.made_at,
        "units": report.units,
        "kinds": dict(report.kinds),
        "members": report.members,
        "present": report.present,
        "refused": dict(report.refused),
        "named": report.named,
        "rows": dict(report.rows),
        "notices": [*report.notices, *([ADVICE] if report.units else [])],
    }


def _beside_trees(report: Restored) -> Iterable[tuple[str, int]]:
    return [(kind, number) for kind, number in report.kinds.items() if kind != "tree"]


def _parts(report: Restored) -> list[RenderableType]:
    head = [
        ("store", report.store),
        ("profile", report.profile),
        ("backup", report.backup),
        ("made at", report.made_at),
    ]
    units = [
        ("restored", counted(report.units)),
        *((f"{_word(kind)} among them", counted(n)) for kind, n in _beside_trees(report)),
        ("runs in them", counted(report.members)),
        ("there already, unchanged", counted(report.present)),
    ]
    units += [(f"refused, {why}", counted(number)) for why, number in report.refused.items()]
    parts: list[RenderableType] = [
        table("", "", rows=head),
        "",
        table("units", "count", rows=units, numbers=[1]),
    ]
    rows = [(name, counted(number)) for name, number in report.rows.items() if number]
    if rows:
        parts += ["", table("rows restored", "count", rows=rows, numbers=[1])]
    parts += notes("Not restored, the first of them:", report.named)
    return [*parts, *notes("Notes:", report.notices), *(["", ADVICE] if report.units else [])]
