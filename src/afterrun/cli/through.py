"""Commands of retention on a store that a server holds: they go through it, as far as it knows their options.

What a server is not told over HTTP, such as a profile or a path, is refused here with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from afterrun.cli.desks import ask_of, remote_of
from afterrun.cli.options import PolicyOptions, RemovalOptions
from afterrun.cli.outcome import exit_of
from afterrun.cli.render import report_parts
from afterrun.cli.session import Session
from afterrun.core.errors import Exit
from afterrun.server.asks import BackupAsk, PolicyAsk, PruneAsk, ReclaimAsk, SweepAsk
from afterrun.server.errors import StoreHeld
from afterrun.server.reports import report_of
from afterrun.stores.sql.backups import BackupOrder

if TYPE_CHECKING:
    from afterrun.server.remote import RemoteDesk

UNKNOWN: Final = (
    "a server holds this store, and {options} cannot be said to it: leave that out, or stop the server first"
)

Options = Mapping[str, object]
"""What was typed, by the option; what was not is false."""


class Served:
    """A store that a server holds, for the commands of retention."""

    def __init__(self, remote: RemoteDesk, *, refused: Options) -> None:
        """Take the server. Raises `StoreHeld` if one of the ``refused`` options was typed."""
        typed = [option for option, said in refused.items() if said]
        if typed:
            raise StoreHeld(UNKNOWN.format(options=" and ".join(typed)))
        self._remote = remote

    def plan(self, store: str, policy: PolicyOptions) -> Mapping[str, Any]:
        """Return the report of a plan."""
        return self._remote.plan(ask_of(PolicyAsk, **_policy(store, policy)))

    def prune(
        self, store: str, policy: PolicyOptions, removal: RemovalOptions, *, backup: BackupOrder | None
    ) -> Mapping[str, Any]:
        """Return the report of a removal."""
        order = None if backup is None else self._order(backup)
        words = {**_policy(store, policy), **_budget(removal)}
        return self._remote.prune(ask_of(PruneAsk, **words, backup=order, no_backup=order is None))

    def sweep(
        self, store: str, policy: PolicyOptions, removal: RemovalOptions, *, approve: str | None
    ) -> Mapping[str, Any]:
        """Return the report of a sweep."""
        words = {**_policy(store, policy), **_budget(removal)}
        return self._remote.sweep(ask_of(SweepAsk, **words, approve=approve))

    def reclaim(self, *, apply: bool) -> Mapping[str, Any]:
        """Return what a reclaim came to."""
        return self._remote.reclaim(ReclaimAsk(apply=apply))

    def _order(self, backup: BackupOrder) -> BackupAsk:
        """Return a backup as the server takes it: a name in its own folder."""
        folder = self._remote.address.backups
        if folder is None:
            raise StoreHeld(
                "a server holds this store, and its settings name no folder for backups: set server.backups, "
                "or stop the server first"
            )
        if backup.path.parent.resolve() != Path(folder):
            raise StoreHeld(f"a server holds this store, and its backups go into {folder}: name a file there")
        return ask_of(BackupAsk, name=backup.path.name, kind=backup.kind)


@contextmanager
def served(store: str, *, refused: Options) -> Iterator[Served | None]:
    """Give the server that holds a store, or nothing if none does.

    Raises `StoreHeld` if an option was typed that cannot be said to it.
    """
    remote = remote_of(store)
    if remote is None:
        yield None
        return
    with remote:
        yield Served(remote, refused=refused)


def not_said(
    *, profile: str | None, datasources: Sequence[str] = (), removal: RemovalOptions | None = None
) -> dict[str, object]:
    """Return the options that are never said to a server, with what was typed."""
    found: dict[str, object] = {"--profile": profile, "--datasource": datasources}
    if removal is None:
        return found
    return found | {
        "--offline": removal.offline,
        "--pause": removal.pause is not None,
        "--batch-units": removal.batch_units,
        "--schema-unverified": removal.schema_unverified,
        "--secure-delete": removal.secure_delete,
        "--trash": removal.trash,
        "--break-lock": removal.break_lock,
    }


def show_served(session: Session, told: Mapping[str, Any], *, as_json: bool, strict: bool = False) -> Exit:
    """Show a report of the server that holds the store; return the exit code."""
    report = report_of(told)
    if as_json:
        session.screen.json(told)
    else:
        session.screen.show(*report_parts(report))
    return Exit.DONE if report.dry_run else exit_of(report, strict=strict, stopped=False)


def _policy(store: str, policy: PolicyOptions) -> dict[str, object]:
    text, tables, _ = policy.words(store)
    return {"policy": text, "tables": tables}


def _budget(removal: RemovalOptions) -> dict[str, object]:
    return {"max_seconds": removal.max_seconds, "limit": removal.limit}
