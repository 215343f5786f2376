"""`afterrun sweep`: one automatic pass, for cron and hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from afterrun.cli.metrics_file import MetricsFile
from afterrun.cli.options import (
    PolicyOptions,
    RemovalOptions,
    datasource_option,
    json_option,
    metrics_option,
    policy_options,
    profile_option,
    removal_options,
    store_argument,
)
from afterrun.cli.outcome import exit_of
from afterrun.cli.progress import Watcher
from afterrun.cli.render import report_parts
from afterrun.cli.session import Session
from afterrun.cli.through import not_said, served, show_served


@click.command("sweep")
@store_argument
@policy_options
@removal_options
@profile_option
@datasource_option
@click.option("--approve", metavar="FINGERPRINT", help="Admit once what a guarded sweep has shown.")
@click.option(
    "--reclaim",
    is_flag=True,
    help="With --offline: give free pages back afterwards, if there are enough of them.",
)
@metrics_option
@json_option
@click.pass_obj
def sweep(
    session: Session,
    *,
    store: str,
    policy: PolicyOptions,
    removal: RemovalOptions,
    profile: str | None,
    datasources: tuple[str, ...],
    approve: str | None,
    reclaim: bool,
    metrics_path: str | None,
    as_json: bool,
) -> int:
    """Remove what the policy lets go: automatic, without a backup, and guarded.

    The first sweep of a store, and one that would remove more than half of it, removes nothing and asks for
    --approve. One that was cut off goes on where it stopped.
    """
    removal.check()
    if reclaim and not removal.offline:
        raise click.UsageError("--reclaim needs --offline: a sweep compacts no store that an engine may use")
    metrics = None if metrics_path is None else MetricsFile(Path(metrics_path))
    said = policy.resolve(store)
    signals = session.signals
    asides = {"--reclaim": reclaim, "--metrics-file": metrics}
    with served(
        store, refused={**asides, **not_said(profile=profile, datasources=datasources, removal=removal)}
    ) as holder:
        if holder is not None:
            told_by_server = holder.sweep(store, policy, removal, approve=approve)
            return show_served(session, told_by_server, as_json=as_json, strict=removal.strict)
    with (
        removal.open(store, profile=profile, writable=True, datasources=datasources) as retention,
        Watcher(signals, verbose=removal.verbose) as watcher,
    ):
        options = replace(
            removal.sweep_options(gate=signals.gate, observer=watcher),
            reclaim=reclaim,
        )
        report = retention.sweep(said.on(retention), options=options, approve=approve, always=said.approve)
        told = metrics is None or metrics.write(report, command="sweep", records=retention.history())
    if as_json:
        session.screen.json(report.as_json())
    else:
        session.screen.show(*report_parts(report))
    return exit_of(report, strict=removal.strict, stopped=signals.stopping, told=told)
