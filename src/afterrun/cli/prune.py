"""`afterrun prune`: the manual removal. Without --apply it is a dry run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
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
from afterrun.cli.plan_file import read_plan
from afterrun.cli.progress import Watcher
from afterrun.cli.render import counted, report_parts
from afterrun.cli.session import Session
from afterrun.cli.text import visible
from afterrun.cli.through import Served, not_said, served, show_served
from afterrun.core.errors import Exit
from afterrun.core.plan import Only
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.times import format_duration
from afterrun.server.reports import report_of
from afterrun.service import Retention
from afterrun.stores.sql.backups import BackupKind, BackupOrder


@click.command("prune")
@store_argument
@policy_options
@removal_options
@profile_option
@datasource_option
@click.option("--apply", is_flag=True, help="Remove. Without it, only say what would go.")
@click.option(
    "--backup", "backup_path", metavar="ABSOLUTE_PATH", help="Back up what goes to a new file, first."
)
@click.option(
    "--backup-kind",
    type=click.Choice(["removed", "whole"]),
    default="removed",
    help="The rows that go (default), or the whole database.",
)
@click.option("--no-backup", is_flag=True, help="Remove without a backup; there is none to fall back on.")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where nobody can answer.")
@click.option("--plan", "plan_path", metavar="FILE", help="Remove only what this plan file lists.")
@metrics_option
@json_option
@click.pass_obj
def prune(
    session: Session,
    *,
    store: str,
    policy: PolicyOptions,
    removal: RemovalOptions,
    profile: str | None,
    datasources: tuple[str, ...],
    apply: bool,
    backup_path: str | None,
    backup_kind: BackupKind,
    no_backup: bool,
    yes: bool,
    plan_path: str | None,
    metrics_path: str | None,
    as_json: bool,
) -> int:
    """Remove what the policy lets go, at a person's word. Without --apply nothing is removed."""
    removal.check()
    backup = None if backup_path is None else BackupOrder(path=Path(backup_path), kind=backup_kind)
    _check_backup(backup, no_backup=no_backup)
    if apply:
        _check_consent(backup, spared=no_backup or removal.trash is not None, yes=yes)
    if metrics_path is not None and not apply:
        raise click.UsageError("--metrics-file needs --apply: a dry run is no run to measure")
    metrics = None if metrics_path is None else MetricsFile(Path(metrics_path))
    rules, _ = policy.resolve(store)
    asides = {"--plan": plan_path, "--metrics-file": metrics}
    with served(
        store, refused={**asides, **not_said(profile=profile, datasources=datasources, removal=removal)}
    ) as holder:
        if holder is not None:
            call = _Through(session, holder, store, policy, removal, backup)
            return call.run(apply=apply, yes=yes, as_json=as_json)
    # Read before the store is open: closing a descriptor of the store's own files would drop its locks.
    listed = None if plan_path is None else read_plan(Path(plan_path))
    with removal.open(store, profile=profile, writable=apply, datasources=datasources) as retention:
        only = None if listed is None else listed.ids_for(retention.store)
        preview = None if apply and yes else retention.plan(rules, only=only)
        total = None if preview is None else preview.would_go
        if preview is not None and backup is not None:
            preview.notices.extend(retention.backup_notices(backup.kind, rules))
        if preview is not None and not (apply and total):
            _show(session, preview, as_json=as_json, hint=not apply)
            return Exit.DONE
        if preview is not None and not _agreed(session, preview, backup, trash=removal.trash):
            session.screen.aside("Nothing was removed.")
            if as_json:
                session.screen.json(preview.as_json())
            return Exit.DONE
        report = _applied(session, retention, rules, removal=removal, only=only, total=total, backup=backup)
        told = metrics is None or metrics.write(report, command="prune", records=retention.history())
    _show(session, report, as_json=as_json)
    return exit_of(report, strict=removal.strict, stopped=session.signals.stopping, told=told)


@dataclass(frozen=True, slots=True)
class _Through:
    """A removal that goes through the server which holds the store."""

    session: Session
    holder: Served
    store: str
    policy: PolicyOptions
    removal: RemovalOptions
    backup: BackupOrder | None

    def run(self, *, apply: bool, yes: bool, as_json: bool) -> Exit:
        """Say what would go, ask, and let the server remove."""
        if not apply or not yes:
            preview = self.holder.plan(self.store, self.policy)
            report = report_of(preview)
            if not apply or not report.would_go:
                return show_served(self.session, preview, as_json=as_json)
            if not _agreed(self.session, report, self.backup, trash=None):
                self.session.screen.aside("Nothing was removed.")
                if as_json:
                    self.session.screen.json(preview)
                return Exit.DONE
        told = self.holder.prune(self.store, self.policy, self.removal, backup=self.backup)
        return show_served(self.session, told, as_json=as_json, strict=self.removal.strict)


def _check_backup(backup: BackupOrder | None, *, no_backup: bool) -> None:
    if backup is not None and no_backup:
        raise click.UsageError("--backup and --no-backup contradict each other")
    if backup is not None and not backup.path.is_absolute():
        raise click.UsageError("--backup takes an absolute path, so that it is clear where the backup is")


def _check_consent(backup: BackupOrder | None, *, spared: bool, yes: bool) -> None:
    if backup is None and not spared:
        raise click.UsageError(
            "--apply needs --backup ABSOLUTE_PATH, which writes what goes to a new file first, or "
            "--no-backup; of a directory, --trash D keeps what goes"
        )
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise click.UsageError("--apply needs --yes where nobody can answer: standard input is no terminal")


def _agreed(
    session: Session, preview: Report, backup: BackupOrder | None, *, trash: timedelta | None
) -> bool:
    """Show the plan and ask, both on standard error."""
    session.screen.aside(*report_parts(preview))
    what = f"Remove {counted(preview.would_go)} units"
    if trash is not None:
        return session.screen.ask(f"{what} to the trash, for {format_duration(trash)}?")
    if backup is None:
        return session.screen.ask(f"{what} for good, without a backup?")
    return session.screen.ask(f"{what} after a backup to {visible(backup.path)}?")


def _applied(
    session: Session,
    retention: Retention,
    policy: Policy,
    *,
    removal: RemovalOptions,
    only: Only | None,
    total: int | None,
    backup: BackupOrder | None,
) -> Report:
    signals = session.signals
    with Watcher(signals, verbose=removal.verbose, total=total) as watcher:
        options = removal.sweep_options(gate=signals.gate, observer=watcher)
        return retention.prune(policy, options=options, only=only, backup=backup)


def _show(session: Session, report: Report, *, as_json: bool, hint: bool = False) -> None:
    if as_json:
        session.screen.json(report.as_json())
        return
    more = ["This was a dry run: --apply removes."] if hint else []
    session.screen.show(*report_parts(report), *more)
