"""`afterrun serve`: runs workflows, answers over HTTP, and sweeps its own store, until it is told to stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from afterrun.cli.options import store_argument
from afterrun.cli.watch import CONFIG_VARIABLE, Board, logging_on
from afterrun.config import ServerSettings, Settings, load_settings, rules_of
from afterrun.core.errors import Refused, UsageError
from afterrun.core.policy import Policy
from afterrun.runs import DEFAULT_POLICY
from afterrun.server.settings import EngineSettings, Outside
from afterrun.stores.place import place_of
from afterrun.telemetry import opentelemetry
from afterrun.watch import Telling, Watch

NEEDED: Final = "a server needs more than the base install, such as {missing}: pip install 'afterrun[server]'"


@click.command("serve")
@store_argument
@click.option(
    "--app", metavar="MODULE:APP", help="The app with the workflows: module:attribute, or path.py:attribute."
)
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    envvar=CONFIG_VARIABLE,
    help="A settings file with a [server] table; options come first.",
)
@click.option(
    "--listen", metavar="WHERE", help="127.0.0.1:PORT, 0 for a free one, or unix. Default: 127.0.0.1:0."
)
@click.option(
    "--runners", type=click.IntRange(min=1, max=256), metavar="N", help="Processes that execute workflows."
)
@click.option("--unsealed", is_flag=True, help="Keep exact content in the clear, without a key.")
@click.option("-v", "verbose", is_flag=True, help="Log more, and messages that may name stores and paths.")
def serve(
    *,
    store: str,
    app: str | None,
    config_path: str | None,
    listen: str | None,
    runners: int | None,
    unsealed: bool,
    verbose: bool,
) -> int:
    """Run the workflows of an app over a run store, and answer over HTTP to those who have the token.

    The first SIGTERM or SIGINT ends it: running steps end or are handed off. A second one ends it at once.
    """
    settings = None if config_path is None else load_settings(Path(config_path))
    server = ServerSettings() if settings is None else settings.server
    named = app or server.app
    if named is None:
        raise click.UsageError("a server needs an app: give --app MODULE:APP, or server.app in the settings")
    policy, approve = _kept(settings, store)
    inside = EngineSettings(
        app=named,
        store=store,
        runners=runners or server.runners,
        slots=server.slots,
        lease=server.lease,
        grace=server.grace,
        policy=policy,
        approve=approve,
        backups=server.backups,
        sealing="off" if unsealed or server.sealing == "off" else None,
    )
    outside = Outside(listen=listen or server.listen, hosts=server.hosts, token_file=server.token_file)
    try:
        from afterrun.cli.serving import serve_until_signal  # noqa: PLC0415 - its libraries are an extra
    except ModuleNotFoundError as missing:
        raise UsageError(NEEDED.format(missing=missing.name)) from None
    with logging_on(None if settings is None else settings.telemetry, verbose=verbose):
        return serve_until_signal(inside, outside, watching=_watch(settings, store, verbose=verbose))


def _kept(settings: Settings | None, store: str) -> tuple[Policy, bool]:
    """Return what the settings keep of the store, and whether they approve every sweep of it.

    Without a word of theirs, that of every run store, and sweeps ask.
    """
    if settings is None:
        return DEFAULT_POLICY, False
    text, approve = settings.policy_of(store)
    try:
        return text.policy(tables=rules_of(settings.tables_of(store))), approve
    except Refused:  # it is empty
        return DEFAULT_POLICY, approve


def _watch(settings: Settings | None, store: str, *, verbose: bool) -> Watch | None:
    """Return the watch of the other stores that the settings name, if there are any."""
    own = place_of(store)
    others = [] if settings is None else [one for one in settings.stores if place_of(one.location) != own]
    if settings is None or not others:
        return None
    rest = replace(settings, stores=others)
    board = Board(rest)
    telling = Telling(
        publish=board.publish,
        totals=board.totals,
        tracing=opentelemetry() if rest.telemetry.opentelemetry else None,
        messages=verbose,
    )
    return Watch(rest, telling=telling, approvals={})
