"""`afterrun scan`: the stores on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.options import Amount, json_option, profile_option
from afterrun.cli.render import counted, notes, table
from afterrun.cli.session import Session
from afterrun.cli.text import LONGEST, seconds, size, visible
from afterrun.core.errors import Exit
from afterrun.profiles import Profile
from afterrun.profiles.directory import DirectoryProfile
from afterrun.stores.profiles import built_in, built_in_directories, read_any_profile
from afterrun.stores.scan import FoundStore, Scan, default_places, scan_places
from afterrun.stores.walk import Bounds, Place

VARIABLE: Final = "AFTERRUN_SCAN_PATH"
"""More folders to walk where no PATH is given, separated as in PATH of the shell."""

LISTED: Final = 20
"""Unreadable places shown to people; JSON has all of them."""

LEFT_OUT: Final = {
    "link": "symbolic links not followed",
    "special": "FIFOs, sockets and devices not opened",
    "run-folder": "folders with runs or results of a store not entered: give their paths",
    "no-rights": "files that this user may not read",
    "other-volume": "folders on other volumes not entered: give their paths",
    "too-deep": "folders too deep: give their paths, or a larger --depth",
}
STOPPED: Final = {
    "entries": "Stopped at --max-entries: there may be more stores.",
    "seconds": "Stopped at --max-seconds: there may be more stores.",
}
BOUNDS: Final = Bounds()


@click.command("scan")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@profile_option
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=BOUNDS.depth,
    show_default=True,
    metavar="N",
    help="Folders below each PATH.",
)
@click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    default=BOUNDS.entries,
    show_default=True,
    metavar="N",
    help="Stop after so many entries of folders.",
)
@click.option(
    "--max-seconds",
    type=Amount(over=0),
    default=BOUNDS.seconds,
    show_default=True,
    metavar="S",
    help="Stop after so many seconds.",
)
@json_option
@click.pass_obj
def scan(
    session: Session,
    *,
    paths: tuple[str, ...],
    profile: str | None,
    depth: int,
    max_entries: int,
    max_seconds: float,
    as_json: bool,
) -> int:
    """Find stores where engines keep them, or below each PATH. Changes nothing.

    Without a PATH it looks where the profiles say, and below the folders of AFTERRUN_SCAN_PATH.
    """
    if any("\0" in path or not path for path in paths):
        raise click.UsageError("a path is empty or has a NUL character in it")
    known: list[Profile | DirectoryProfile] = [*built_in(), *built_in_directories()]
    if profile:
        known = [read_any_profile(profile)]
    places = [Place(Path(path)) for path in paths]
    if not places:
        more = os.environ.get(VARIABLE, "").split(os.pathsep)
        places = [*default_places(known), *(Place(Path(path)) for path in more if path)]
    bounds = Bounds(depth=depth, entries=max_entries, seconds=max_seconds)
    found = scan_places(places, known, bounds=bounds)
    if as_json:
        session.screen.json(found.as_json())
    else:
        session.screen.show(*_parts(found))
    return Exit.ERROR if found.blind else Exit.DONE


def _parts(found: Scan) -> Iterable[RenderableType]:
    if found.stores:
        rows = [_row(store) for store in found.stores]
        heads = ("store", "profile", "schema", "runs", "bytes", "sweep")
        yield table(*heads, rows=rows, numbers=[3, 4])
    else:
        yield "No store of a known engine was found."
    for store in found.stores:
        yield from notes(f"{visible(store.path, limit=LONGEST)} cannot be swept now:", store.problems)
    lines = [f"{path}: {why}" for path, why in found.walk.unreadable]
    more = len(lines) - LISTED
    rest = [f"and {more} more; --json has them all"] if more > 0 else []
    yield from notes("Could not be read:", [*lines[:LISTED], *rest])
    yield from notes("Passed by:", _passed(found))
    yield ""
    where = ", ".join(str(place.path / (place.pattern or "")) for place in found.places)
    yield f"Looked at {counted(found.walk.entries)} entries in {seconds(found.seconds)}: {visible(where)}"
    if found.walk.stopped:
        yield STOPPED[found.walk.stopped]
    yield "Nothing was changed."


def _row(store: FoundStore) -> tuple[object, ...]:
    read = "read" if store.schema.read else "never read"
    return (
        store.path,
        store.profile,
        f"{store.schema.version} ({read})",
        counted(store.runs) if store.runs_exact else f"more than {counted(store.runs)}",
        "not measured" if store.bytes is None else size(store.bytes),
        "no" if store.problems else "yes",
    )


def _passed(found: Scan) -> Iterable[str]:
    if found.unknown:
        yield f"{counted(found.unknown)} SQLite files of something else"
    if found.backups:
        yield f"{counted(found.backups)} backups that afterrun made"
    for kind, words in LEFT_OUT.items():
        if found.walk.left_out[kind]:
            yield f"{counted(found.walk.left_out[kind])} {words}"
