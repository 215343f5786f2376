"""Retention of a directory: the same commands, for an engine that keeps each run as a folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Final

from afterrun.core.errors import Refused, UsageError
from afterrun.core.inspection import Inspection, age_rules
from afterrun.core.judge import Rules
from afterrun.core.outlook import Outlook
from afterrun.core.plan import Survey
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.service.interrupted import Interrupted
from afterrun.service.locking import locked
from afterrun.service.options import SweepOptions, SystemClock
from afterrun.service.passes import Passes
from afterrun.service.retention import Retention
from afterrun.state import StateDirectory
from afterrun.state.attempts import Attempts
from afterrun.state.restores import restore_on_record
from afterrun.stores.directory.backup import WHOLE, DirectoryBackup
from afterrun.stores.directory.backup_restore import DirectoryRestore
from afterrun.stores.directory.opening import is_directory, open_directory
from afterrun.stores.directory.space import nothing_to_reclaim
from afterrun.stores.directory.store import DirectoryStore
from afterrun.stores.directory.surroundings import DirectorySurroundings, inspect_directory
from afterrun.stores.sql.backups import BackupKind, BackupOrder, Maker, Restored

NAMED: Final = 20
"""Units that a restore names which cannot come back."""

TRASH: Final = "trash"
"""What a person names instead of a backup, to put back what is in the trash."""

LINKS: Final = "links are in the backup as links: what they lead to is not in it"


class NothingInterrupted(Interrupted):
    """A directory has no rows in other databases, so no removal is ever cut off between two."""

    def __init__(self) -> None:
        """Hold nothing."""

    def check(self) -> None:
        """Find nothing."""

    def settle(self, rules: Rules, *, gate: Callable[[], bool], remove: bool = True) -> None:
        """Settle nothing: the sweep lock does, from the journal."""

    def count(self, report: Report) -> None:
        """Count nothing."""

    def tell(self, report: Report) -> None:
        """Tell nothing."""

    def mention(self, report: Report) -> None:
        """Mention nothing."""

    def faults(self, lock: Callable[[], AbstractContextManager[object]]) -> Iterator[str]:
        """Yield nothing."""
        del lock
        yield from ()


class TrashRestorer:
    """Puts units back from the trash of a store whose lock is held."""

    def __init__(self, store: DirectoryStore) -> None:
        """Take a store; nothing is done yet."""
        self._store = store
        self.so_far: Restored | None = None

    def run(self, backup: Path, run: str | None = None) -> Restored:
        """Put the unit of one run, or all, back. Raises `UnitNotFound` and `Refused`."""
        restored = self.so_far = Restored(
            store=self._store.url, profile=self._store.profile_name, backup=str(backup), made_at=""
        )
        found = self._store.restore(run)
        restored.units, restored.members = found.units, found.members
        restored.named.extend(found.refused[:NAMED])
        if found.refused:
            restored.refused["cannot come back"] = len(found.refused)
        return restored


class DirectoryRetention(Retention):
    """One directory under retention. It is used as `Retention` is."""

    store: DirectoryStore  # type: ignore[assignment]  # it answers what the commands ask of any store

    def __init__(
        self,
        location: str,
        *,
        profile: str | None = None,
        trash: timedelta | None = None,
        break_lock: str | None = None,
        state: Path | None = None,
    ) -> None:
        """Open a directory by its path.

        ``profile`` is a name or a file; what is in it tells if it is not given. With ``trash``, what goes can
        be put back for so long. ``break_lock`` names the sweep lock of a machine that is gone for good.

        Raises `StoreUnreadable` or `ProfileError`.
        """
        self.store = open_directory(location, profile=profile, trash=trash, break_token=break_lock)
        self._state = StateDirectory(state)
        self._interrupted = NothingInterrupted()
        self._attempts = Attempts(location, state=state)
        self._location = location
        self._clock = SystemClock()

    def outlook(self, policy: Policy, *, calendar: bool = False) -> Outlook:
        """Prepare a plan that also says what other ages would do, what stays and how old it is."""
        passes = self._plan(policy)
        rules, wider = passes.rules, age_rules(passes.trees.plan)[0]
        widest = rules.now if wider.cutoff is None else wider.cutoff
        around = DirectorySurroundings(self.store.runs, asked=rules.cutoff is not None, widest=widest)
        others = [Survey(part.store, part.plan) for part in passes.looking[1:]]
        outlook = Outlook(self.store.runs, around, passes.trees.plan, calendar=calendar, others=others)
        outlook.report.policy = policy.canonical()
        return outlook

    def _maker(self, backup: BackupOrder, passes: Passes, options: SweepOptions) -> Maker:
        """Prepare a backup. Raises `UsageError` or `Refused` for a place or kind that is not safe."""
        del passes, options
        return DirectoryBackup(self.store, backup, clock=self._clock)

    def backup_notices(self, kind: BackupKind, policy: Policy | None = None) -> Sequence[str]:  # noqa: ARG002 - no rows here
        """Say what a backup does not hold. Raises `Refused` for a kind that there is not."""
        if kind != "removed":
            raise Refused("backup-kind", WHOLE)
        return [LINKS]

    def restore(
        self, backup: Path, run: str | None = None, *, rows: Collection[str] = (), rest: float = 1.0
    ) -> Restored:
        """Put the unit of one run, or all, back from a backup, or from the trash: the word ``trash``.

        Raises `StoreLocked`, `UnitNotFound`, `Refused` for a run that cannot come back whole, and of a backup
        `StoreUnreadable` and `BackupFailed`.
        """
        del rest
        if rows:
            raise UsageError("a directory has no row tables, so no backup of it has rows of one")
        with locked(self.store, self._state) as state:
            restorer = TrashRestorer(self.store) if str(backup) == TRASH else DirectoryRestore(self.store)
            with restore_on_record(state, restorer, store=self.store):
                return restorer.run(backup, run)

    def survey_space(self) -> Reclaim:
        """Say that there is nothing to give back."""
        return nothing_to_reclaim(store=self.store.url, profile=self.store.profile_name)

    def reclaim(self, options: ReclaimOptions | None = None) -> Reclaim:
        """Do nothing, and say why."""
        del options
        found = self.survey_space()
        found.dry_run, found.ended, found.after = False, "skipped", found.before
        return found

    def inspect(self, *, exact: bool = False) -> Inspection:
        """Say what the directory holds and what some ages would let go; ``exact`` walks through all of it."""
        return inspect_directory(self.store, exact=exact)


def open_retention(  # noqa: PLR0913 - what either kind of store may be told
    location: str,
    *,
    profile: str | None = None,
    writable: bool = True,
    schema_unverified: bool = False,
    secure_delete: bool = False,
    datasources: Sequence[str] = (),
    trash: timedelta | None = None,
    break_lock: str | None = None,
    state: Path | None = None,
) -> Retention:
    """Open a store of whatever kind for its retention; the parameters are those of its class.

    Raises `UsageError` for a parameter that this kind of store does not know, and what the class raises.
    """
    if is_directory(location):
        if datasources or secure_delete:
            raise UsageError("--datasource and --secure-delete are for databases, and this is a directory")
        return DirectoryRetention(location, profile=profile, trash=trash, break_lock=break_lock, state=state)
    if trash is not None or break_lock is not None:
        raise UsageError("--trash and --break-lock are for directories, and this is none")
    return Retention(
        location,
        profile=profile,
        writable=writable,
        schema_unverified=schema_unverified,
        secure_delete=secure_delete,
        datasources=datasources,
        state=state,
    )
