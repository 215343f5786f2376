"""`afterrun verify`: integrity, foreign keys, and what leads to no run."""

from __future__ import annotations

import click

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import notes, table
from afterrun.cli.session import Session
from afterrun.core.errors import Exit
from afterrun.service import Retention


@click.command("verify")
@store_argument
@profile_option
@json_option
@click.pass_obj
def verify(session: Session, *, store: str, profile: str | None, as_json: bool) -> int:
    """Check integrity and foreign keys, and look for rows and links that lead to no run. Changes nothing."""
    with Retention(store, profile=profile, writable=False) as retention:
        url, name = retention.store.url, retention.store.profile_name
        problems = list(retention.verify())
    if as_json:
        session.screen.json({"store": url, "profile": name, "ok": not problems, "problems": problems})
    else:
        verdict = "faults were found" if problems else "ok"
        head = [("store", url), ("profile", name), ("result", verdict)]
        session.screen.show(table("", "", rows=head), *notes("Faults:", problems))
    return Exit.ERROR if problems else Exit.DONE
