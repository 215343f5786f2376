"""`afterrun key`: make a key that seals the content of a run store."""

from __future__ import annotations

from pathlib import Path

import click

from afterrun.cli.options import json_option
from afterrun.cli.session import Session
from afterrun.cli.suggest import SuggestingGroup
from afterrun.cli.text import visible
from afterrun.core.errors import Exit

key = SuggestingGroup("key", help="Make a key that seals the content of a run store.", no_args_is_help=False)


@key.command("new")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def new(session: Session, *, file: Path, as_json: bool) -> int:
    """Write a new key to a new FILE that only its owner may open. Keep a copy: without it content is lost."""
    from afterrun.runs.keys import Keys  # noqa: PLC0415 - no other command needs the run store

    keys = Keys.generate()
    keys.write(file)
    if as_json:
        session.screen.json({"key_id": keys.current.id})
    else:
        session.screen.write(
            f"{visible(str(file))} has a new key ({keys.current.id}). Keep a copy elsewhere.\n"
        )
    return Exit.DONE
