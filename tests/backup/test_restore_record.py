"""A restore leaves a record among those of sweeps, whatever its end, and counts as none of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import AfterrunError, Budget, Policy, Refused, SweepOptions
from afterrun.core.errors import BackupFailed, StoreUnreadable
from afterrun.core.facts import Unit
from afterrun.state import StateDirectory
from afterrun.state.files import MAX_RECORDS, Record
from afterrun.stores.sql.sqlite.attached_units import AttachedUnits
from afterrun.stores.sql.sqlite.restore import Restore
from backup.backup_kit import MONTH, ids, prune, restore, script, strange_store
from cli.kit import run_cli
from own_store import OwnStore

TESTS = Path(__file__).resolve().parents[1]
KILLED = """
import os, signal, sys
from pathlib import Path
from afterrun.stores.sql.sqlite.restore import Restore
from backup.backup_kit import restore
from own_store import OwnStore

put = Restore._try

def until_killed(self, among, unit, report):
    put(self, among, unit, report)
    if report.units == 3:
        os.kill(os.getpid(), signal.SIGKILL)

Restore._try = until_killed
store, profile, state, backup = map(Path, sys.argv[1:])
restore(OwnStore(store, profile, state), backup)
"""
"""A restore that is killed after its third tree."""


@pytest.fixture
def store(tmp_path: Path) -> OwnStore:
    """Make a store with old runs."""
    return strange_store(tmp_path)


@pytest.fixture
def backup(store: OwnStore, folder: Path) -> Path:
    """Make a backup of all old runs, which are removed."""
    assert prune(store, folder / "b.sqlite").units.removed == 20
    return folder / "b.sqlite"


def records(store: OwnStore) -> list[Record]:
    """Return what is on record."""
    with store.retention(writable=False) as retention:
        return list(retention.history())


def told(store: OwnStore) -> list[tuple[str, str, int]]:
    """Return command, ending and units put back of each record."""
    return [(record.command, record.ended, record.restored) for record in records(store)]


def test_it_says_what_came_back(store: OwnStore, backup: Path) -> None:
    """Trees and rows, seconds and sizes; nothing of it looks like a removal."""
    restored = restore(store, backup)
    record = records(store)[-1]
    assert (record.command, record.ended, record.why) == ("restore", "completed", "")
    assert (record.restored, record.rows) == (20, sum(restored.rows.values()))
    assert (record.removed, record.batches, record.backlog, record.deferred) == (0, 0, 0, 0)
    assert record.seconds > 0
    assert 0 < record.file_before <= record.file_after == store.path.stat().st_size


def test_refused_trees_are_counted(store: OwnStore, backup: Path) -> None:
    """A tree whose id is back counts as deferred, in a restore of all; alone it is a refusal."""
    store.run("INSERT INTO runs (id, status) VALUES ('run-3', 'running')")
    with pytest.raises(Refused):
        restore(store, backup, "run-3")
    restore(store, backup)
    assert told(store)[1:] == [("restore", "refused", 0), ("restore", "completed", 19)]
    assert [record.deferred for record in records(store)[1:]] == [1, 1]
    assert records(store)[1].why == "id-is-back"


def test_history_shows_it(store: OwnStore, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`afterrun history` has it for people and for programs."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(store.state))
    restore(store, backup, "run-0")
    answer = run_cli("history", store.path, "--profile", store.profile, "--json")
    record = answer.json["records"][-1]
    assert (record["command"], record["ended"], record["restored"]) == ("restore", "completed", 1)
    shown = run_cli("history", store.path, "--profile", store.profile).out
    assert [line for line in shown.splitlines() if " restore " in line and " 1 back " in line]


def test_a_killed_restore_stays_on_record_as_started(store: OwnStore, backup: Path) -> None:
    """Half way, it is there as started and not ended; what came back is whole, and the next one goes on."""
    words = [str(store.path), str(store.profile), str(store.state), str(backup)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(TESTS)])}
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert told(store) == [("prune", "completed", 0), ("restore", "started", 0)]
    assert len(ids(store.path)) > 3
    restored = restore(store, backup)
    assert (restored.units, restored.present) == (17, 3)
    assert told(store)[1:] == [("restore", "started", 0), ("restore", "completed", 17)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_one_that_is_cut_off_says_how_far_it_came(
    store: OwnStore, backup: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Ctrl-C and a bug leave the count of what was put back until then."""
    put = Restore._restore
    calls: list[Unit] = []

    def cut_off(self: Restore, among: AttachedUnits, units: Sequence[Unit]) -> object:
        calls.extend(units)
        if len(calls) == 6:
            raise error
        return put(self, among, units)

    monkeypatch.setattr(Restore, "_restore", cut_off)
    with pytest.raises(error):
        restore(store, backup)
    ended = "interrupted" if error is KeyboardInterrupt else "failed"
    assert told(store)[1:] == [("restore", ended, 5)]


WRONG: dict[str, tuple[Callable[[Path], None], type[Exception]]] = {
    "missing": (lambda backup: backup.unlink(), StoreUnreadable),
    "changed": (lambda backup: script(backup, "DELETE FROM loose WHERE rowid = 1"), BackupFailed),
    "another file": (lambda backup: script(backup, "DROP TABLE afterrun_head"), Refused),
}


@pytest.mark.parametrize(("harm", "error"), WRONG.values(), ids=WRONG)
def test_one_that_cannot_begin_is_on_record(
    store: OwnStore, backup: Path, harm: Callable[[Path], None], error: type[Exception]
) -> None:
    """A backup that cannot be read, or is none, leaves a word of why, and no path."""
    harm(backup)
    with pytest.raises(error):
        restore(store, backup)
    record = records(store)[-1]
    assert (record.command, record.restored, record.rows) == ("restore", 0, 0)
    assert record.ended == ("refused" if error is Refused else "failed")
    assert record.why
    assert str(backup) not in record.model_dump_json()


def test_what_cannot_be_put_on_record_is_not_put_back(store: OwnStore, backup: Path) -> None:
    """Without a state folder nothing comes back."""
    blind = OwnStore(store.path, store.profile, store.path.parent / "nowhere")
    blind.state.symlink_to("missing/folder")
    with pytest.raises(AfterrunError, match="cannot be written"):
        restore(blind, backup)
    assert ids(store.path) == {"alive"}


def test_records_of_restores_are_bounded_with_the_others(store: OwnStore, backup: Path) -> None:
    """The newest of all kinds stay."""
    with store.retention() as retention:
        state = StateDirectory(store.state).load(retention.store.identity)
        for number in range(MAX_RECORDS):
            state.finish(
                Record(at=number, command="sweep", ended="completed", fingerprint=""), finished=True, runs=1
            )
        state.save()
    restore(store, backup, "run-0")
    kept = records(store)
    assert (len(kept), kept[-1].command, kept[0].at) == (MAX_RECORDS, "restore", 1)


def test_a_restore_is_no_sweep_of_first_contact(store: OwnStore, folder: Path) -> None:
    """A store that only a restore is on record of still asks before its first sweep."""
    prune(store, folder / "b.sqlite")
    fresh = OwnStore(store.path, store.profile, store.path.parent / "other-state")
    restore(fresh, folder / "b.sqlite")
    with fresh.retention() as retention:
        report = retention.sweep(MONTH)
    assert (report.ended, report.units.removed) == ("guard", 0)
    assert "no sweep of this store is on record yet" in report.message


def test_a_restore_between_two_sweeps_changes_no_backlog(store: OwnStore, folder: Path) -> None:
    """Whether sweeps gain on the inflow is a matter of the sweeps before, not of the restore between."""
    one, two, five = (SweepOptions(offline=True, budget=Budget(units=units)) for units in (1, 2, 5))
    prune(store, folder / "b.sqlite", options=one)
    with store.retention() as retention:
        assert retention.prune(MONTH, options=five).backlog_after == 14
    assert restore(store, folder / "b.sqlite").units == 1
    with store.retention() as retention:
        report = retention.prune(MONTH, options=two)
    assert (report.backlog_after, report.gaining) == (13, True)


def test_a_restore_brings_no_deferred_unit_nearer(store: OwnStore, backup: Path) -> None:
    """A unit that waits for the next sweep but one waits as long, however often something is restored."""
    with store.retention() as retention:
        identity = retention.store.identity
        state = StateDirectory(store.state).load(identity)
        state.now = retention.store.now()
        state.defer("run-0", "timeout")
        state.defer("run-0", "timeout")
        state.save()
        for _ in range(3):
            retention.restore(backup, rest=0.0)
        again = StateDirectory(store.state).load(identity)
        again.now = state.now
        assert again.waiting("run-0")
        retention.prune(Policy(keep_for=timedelta(days=99_999)))
        assert StateDirectory(store.state).load(identity).waiting("run-0")
