"""`afterrun config`: whether a settings file is right, what it comes to, and its schema for editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from afterrun.cli.options import json_option
from afterrun.cli.render import notes, policy_words, table
from afterrun.cli.session import Session
from afterrun.cli.suggest import SuggestingGroup
from afterrun.cli.text import masked
from afterrun.cli.watch import CONFIG, CONFIG_VARIABLE
from afterrun.config import StoreSettings, json_schema, load_settings
from afterrun.core.errors import Exit
from afterrun.core.times import format_duration

HEADS = ("store", "where", "profile", "policy", "every", "approved")

config = SuggestingGroup(
    "config", help="Check a settings file, or print its schema for editors.", no_args_is_help=False
)


@config.command("check")
@click.argument("file", metavar="[FILE]", envvar=CONFIG_VARIABLE, default=CONFIG)
@json_option
@click.pass_obj
def check(session: Session, *, file: str, as_json: bool) -> int:
    """Say every fault of a settings file and of the variables over it, or what they come to.

    No store is opened, and no password is shown.
    """
    settings = load_settings(Path(file))
    if as_json:
        told = {store.name: _told(store) for store in settings.stores}
        answer = {"file": file, "ok": True, "stores": told, "ignored": list(settings.ignored)}
        session.screen.json(answer)
        return Exit.DONE
    rows = [_row(store) for store in settings.stores]
    stores = table(*HEADS, rows=rows) if rows else "It names no store: `afterrun watch` has nothing to do."
    head = table("", "", rows=[("file", file), ("result", "ok")])
    ignored = notes("Variables that mean nothing here:", settings.ignored)
    session.screen.show(head, "", stores, *ignored)
    return Exit.DONE


@config.command("schema")
@click.pass_obj
def schema(session: Session) -> int:
    """Print the JSON Schema of a settings file, on one line."""
    session.screen.json(json_schema())
    return Exit.DONE


def _told(store: StoreSettings) -> Mapping[str, object]:
    return {
        "store": masked(store.location),
        "datasources": [masked(location) for location in store.datasources],
        "profile": store.profile,
        "policy": store.rules.canonical(),
        "approve": store.approve,
        "interval": format_duration(store.interval),
        "pause": store.pause,
        "max_seconds": store.max_seconds,
        "trash": None if store.trash is None else format_duration(store.trash),
        "metrics_file": None if store.metrics_file is None else str(store.metrics_file),
    }


def _row(store: StoreSettings) -> Sequence[str]:
    every = format_duration(store.interval) if store.interval else "off"
    policy = policy_words(store.rules.canonical())
    profile = store.profile or "detected"
    return (store.name, masked(store.location), profile, policy, every, "yes" if store.approve else "no")
