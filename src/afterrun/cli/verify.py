"""`afterrun verify`: integrity, foreign keys, what leads to no run, and what the engine itself reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import counted, notes, table
from afterrun.cli.session import Session
from afterrun.core.errors import Exit
from afterrun.service import open_retention
from afterrun.service.engine_reading import Compared, compare, load_reading, save_reading


@click.command("verify")
@store_argument
@profile_option
@click.option(
    "--engine",
    "reading_path",
    metavar="FILE",
    help="Have the engine read everything: into a new FILE, or to compare with the FILE that is there.",
)
@click.option(
    "--engine-python", metavar="PATH", help="The Python that has the engine, for --engine. Default: this one."
)
@json_option
@click.pass_obj
def verify(
    session: Session,
    *,
    store: str,
    profile: str | None,
    reading_path: str | None,
    engine_python: str | None,
    as_json: bool,
) -> int:
    """Check integrity and foreign keys, and look for rows and links that lead to no run. Changes nothing.

    With --engine, the engine itself reads the store as well: once before a removal, and once after it, to see
    that everything that is kept reads as it did.
    """
    if engine_python is not None and reading_path is None:
        raise click.UsageError("--engine-python needs --engine")
    path = None if reading_path is None else Path(reading_path)
    before = load_reading(path) if path is not None and path.exists() else None
    with open_retention(store, profile=profile, writable=False) as retention:
        url, name = retention.store.url, retention.store.profile_name
        problems = list(retention.verify())
        read = None if path is None else retention.engine_reading(python=engine_python)
    compared = None if before is None or read is None else compare(before, read)
    if path is not None and read is not None and before is None:
        save_reading(path, read)
    problems += [] if compared is None else compared.faults
    if as_json:
        told = {"store": url, "profile": name, "ok": not problems, "problems": problems}
        session.screen.json(
            told if read is None else {**told, "engine": _engine_json(len(read.parts), compared)}
        )
    else:
        verdict = "faults were found" if problems else "ok"
        head = [("store", url), ("profile", name), ("result", verdict)]
        if read is not None:
            head.append(("engine", _engine_words(len(read.parts), compared)))
        session.screen.show(table("", "", rows=head), *notes("Faults:", problems))
    return Exit.ERROR if problems else Exit.DONE


def _engine_json(parts: int, compared: Compared | None) -> dict[str, object]:
    if compared is None:
        return {"parts": parts}
    return {"parts": parts, "equal": compared.equal, "gone": compared.gone, "new": compared.new}


def _engine_words(parts: int, compared: Compared | None) -> str:
    """Say in a line what the engine read."""
    if compared is None:
        return f"read {counted(parts)} things, written for a later comparison"
    words: Iterable[str] = (
        f"{counted(compared.equal)} as before",
        f"{counted(compared.gone)} gone",
        f"{counted(compared.new)} new",
    )
    return f"read {counted(parts)} things: {', '.join(words)}"
