"""`afterrun watch` as a process: what goes wrong in one store stays there, and its end is orderly."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.core.errors import Exit
from afterrun.state import StateDirectory
from cli.kit import count, make_store, run_cli
from watch.watch_kit import SLOW, ends, once, records, settings, watching

LONG = 600
"""Runs of a store whose sweep is cut off."""
SECRET = "s3cret"  # noqa: S105 - it opens nothing
SIGNALS = [signal.SIGTERM, signal.SIGINT]


def verified(store: Path) -> None:
    """Make sure that a store is whole: no run without its rows, no row without its run."""
    with Retention(str(store), writable=False) as retention:
        assert list(retention.verify()) == []
    assert count(store) == count(store, "operation_outputs")


# --------------------------------------------------------------------------- one of several


@pytest.mark.parametrize("broken", ["junk", "missing", "unread schema", "unknown status"])
def test_a_broken_store_among_several_keeps_none_from_being_swept(
    stores: tuple[Path, Path], tmp_path: Path, broken: str
) -> None:
    """The others are swept; its failure is in the log, in the record and, at the end, in the exit code."""
    third = tmp_path / "broken.sqlite"
    if broken == "junk":
        third.write_bytes(b"junk" * 1_000)
    elif broken == "unread schema":
        make_store(third, version="999")
        with closing(sqlite3.connect(third)) as connection, connection:
            connection.execute("ALTER TABLE workflow_status ADD COLUMN parent_workflow_uuid TEXT")
    elif broken == "unknown status":
        make_store(third)
        with closing(sqlite3.connect(third)) as connection, connection:
            connection.execute("UPDATE workflow_status SET status = 'NEW' WHERE workflow_uuid = 'run-1'")
    with watching(settings(tmp_path, third, *stores)) as process:
        told = process.until("not-swept", store="broken")
        for store in stores:
            process.until("sweep-ended", store=store.stem, ended="completed", removed=11)
        code, _ = process.end()
    assert code == Exit.ERROR
    word = {"unread schema": "refused", "unknown status": "refused"}.get(broken, "failed")
    kind = {"unread schema": "schema", "unknown status": "unknown-status"}.get(broken, "StoreUnreadable")
    assert (told["ended"], told["kind"]) == (word, kind)
    assert [count(store) for store in stores] == [30, 30]
    (record,) = records(third)
    assert record.ended in {word, "failed"}
    assert record.why == kind
    answer = run_cli("history", third)
    assert (answer.code, f"({kind})" in answer.out) == (Exit.DONE, True)


def test_a_server_that_does_not_answer_is_on_record_without_its_password(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """What it is called inside is not known, so that its location stands for it; the rest is swept."""
    url = f"postgresql://someone:{SECRET}@127.0.0.1:1/db"  # nobody listens there
    config = settings(tmp_path, stores[0], more=f'[stores.server]\nstore = "{url}"')
    code, process = once(config)
    assert code == Exit.ERROR
    assert process.found("not-swept", store="server", kind="StoreUnreadable")
    assert count(stores[0]) == 30
    answer = run_cli("history", url, "--json")
    assert [record["ended"] for record in answer.json["records"]] == ["failed"]
    told = [process.text, answer.out, answer.err]
    told += [file.read_text(encoding="utf-8") for file in (tmp_path / "state").glob("*.json")]
    assert SECRET not in "".join(told)
    assert "127.0.0.1" in answer.err


def test_failures_alike_are_one_record_and_a_repaired_store_is_swept(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """A store that is missing for days does not push its history out; back again, it is looked after."""
    third = tmp_path / "broken.sqlite"
    config = settings(tmp_path, third)
    for _ in range(3):
        assert once(config)[0] == Exit.ERROR
    (record,) = records(third)
    assert (record.ended, record.attempts) == ("failed", 3)
    shutil.copyfile(stores[0], third)
    assert once(config)[0] == Exit.DONE
    assert ends(third) == ["failed", "completed"]
    told = run_cli("history", third)
    assert (told.code, "failed (StoreUnreadable)" in told.out, " x3" in told.out) == (Exit.DONE, True, True)


def test_a_full_disk_for_records_removes_nothing_and_is_said(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """What cannot be put on record is not done; with room again, the next run does it."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    state, config = Path(os.environ["AFTERRUN_STATE_DIR"]), settings(tmp_path, *stores)
    state.mkdir()
    script = f'mount -t tmpfs -o size=4k none "{state}" && head -c 4096 /dev/zero > "{state}/full"; exec "$@"'
    code, process = once(config, prefix=["unshare", "-rm", "sh", "-c", script, "sh"])
    assert code == Exit.ERROR
    for store in stores:
        (told,) = process.found("not-swept", store=store.stem)
        assert (told["ended"], told["kind"]) == ("failed", "StateError")
        assert "No space left" in told["message"]
        assert count(store) == 41
    assert once(config)[0] == Exit.DONE
    assert [count(store) for store in stores] == [30, 30]


FULL = """
from afterrun.state import files
def save(self, before=files.StoreState.save):
    if self._path.name == {name!r}:
        raise files.StateError("No space left on device")
    before(self)
files.StoreState.save = save
"""


def test_records_of_one_store_that_cannot_be_written_stop_that_one_alone(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """The other is swept and on record; the exit code tells of the first."""
    name = StateDirectory().file_of(f"sqlite:{stores[0].resolve()}").name
    with watching(settings(tmp_path, *stores), before=FULL.format(name=name)) as process:
        process.until("not-swept", store="orders", kind="StateError")
        process.until("sweep-ended", store="mail", ended="completed")
        code, _ = process.end()
    assert code == Exit.ERROR
    assert [count(store) for store in stores] == [41, 30]
    assert [ends(store) for store in stores] == [[], ["completed"]]


FAILING = """
from afterrun.telemetry import prometheus
def fail(self, event):
    raise RuntimeError("an observer of somebody else")
prometheus.TotalsObserver.__call__ = fail
"""


def test_a_failing_observer_fails_no_sweep_and_shows(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """All sweeps complete; log, record and exit code say that what was observed is incomplete."""
    code, process = once(settings(tmp_path, *stores), before=FAILING)
    assert code == Exit.ERROR
    assert [count(store) for store in stores] == [30, 30]
    assert len(process.found("observer-failed", error="RuntimeError")) == 2
    assert all(records(store)[-1].observer_failures for store in stores)
    assert once(settings(tmp_path, *stores, interval='"1s"'))[0] == Exit.DONE


def test_a_file_of_metrics_that_cannot_be_written_fails_no_sweep(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its folder was taken away: the sweeps complete, and the exit code says that the figures are old."""
    gone = "import shutil; from afterrun.watch import Watch; start = Watch.once\n"
    gone += f"Watch.once = lambda *a: (shutil.rmtree({str(tmp_path / 'prom')!r}), start(*a))"
    (tmp_path / "prom").mkdir()
    more = '[telemetry]\nprometheus_file = "prom/all.prom"'
    code, process = once(settings(tmp_path, *stores, more=more), before=gone)
    assert code == Exit.ERROR
    assert [count(store) for store in stores] == [30, 30]
    assert len(process.found("metrics-not-written", error="FileNotFoundError")) == 2


def test_two_processes_over_one_store(tmp_path: Path, stores: tuple[Path, Path]) -> None:
    """The second leaves at once, says so, sweeps the rest; what the first did counts for both."""
    shared = make_store(tmp_path / "shared.sqlite", LONG, live=0)
    other = tmp_path / "other"
    other.mkdir()
    second = settings(other, stores[0])
    second.write_text(second.read_text().replace('"orders', f'"{tmp_path}/orders'))
    with second.open("a") as file:
        file.write(f'[stores.shared]\nstore = "{shared}"\napprove = true\n')
    with watching(settings(tmp_path, shared), before=SLOW) as first:
        first.until("batch", store="shared")
        code, process = once(second)
        assert code == Exit.LOCKED
        assert process.found("not-swept", store="shared", ended="locked")
        assert process.found("sweep-ended", store="orders", ended="completed")
        assert first.end()[0] == Exit.DONE
    assert ends(shared) == ["interrupted"]
    assert once(second)[0] == Exit.DONE
    assert ends(shared) == ["interrupted", "completed"]
    code, process = once(settings(tmp_path, shared))
    assert (code, process.found("sweep-began")) == (Exit.DONE, [])
    verified(shared)


# ------------------------------------------------------------------------------------ its end


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_settles_a_running_sweep_within_two_seconds(tmp_path: Path, number: signal.Signals) -> None:
    """In a pause of an hour: exit 0, a whole store, a record; started again, it goes on and finishes."""
    store = make_store(tmp_path / "long.sqlite", LONG, live=0)
    config = settings(tmp_path, store)
    with watching(config, before=SLOW) as process:
        process.until("batch")
        code, took = process.end(number)
    assert (code, took < 2.0) == (Exit.DONE, True), took
    assert process.found("watch-ended", code=0, settled=True)
    assert ends(store) == ["interrupted"]
    left = count(store)
    assert 30 < left < LONG
    verified(store)
    with watching(config) as process:
        process.until("sweep-ended", ended="completed")
        assert process.end()[0] == Exit.DONE
    assert ends(store) == ["interrupted", "completed"]
    assert count(store) == 29
    verified(store)


ENDLESS = """
from afterrun.stores.sql.store import SqlStore
SqlStore.census = lambda self: self.dialect.execute(text(QUERY))
from sqlalchemy import text
QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
"""


def test_a_signal_ends_a_statement_that_takes_long(tmp_path: Path) -> None:
    """Within one statement that would never end: gone within two seconds, exit 0."""
    store = make_store(tmp_path / "long.sqlite")
    with watching(settings(tmp_path, store), before=ENDLESS) as process:
        process.until("page")
        code, took = process.end()
    assert (code, took < 2.0) == (Exit.DONE, True), took
    assert ends(store) == ["interrupted"]
    assert count(store) == 41
    verified(store)


def test_a_signal_waits_for_no_lock_of_others(tmp_path: Path) -> None:
    """An engine in a long transaction keeps a sweep waiting; the process goes all the same."""
    store = make_store(tmp_path / "held.sqlite")
    with closing(sqlite3.connect(store, isolation_level=None)) as engine:
        engine.execute("BEGIN EXCLUSIVE")
        with watching(settings(tmp_path, store)) as process:
            process.until("watch-began")
            code, took = process.end()
        engine.execute("COMMIT")
    assert (code, took < 2.5) == (Exit.DONE, True), took
    assert count(store) == 41


def test_the_second_signal_aborts_at_once(tmp_path: Path) -> None:
    """Exit 130, and the store is whole."""
    store = make_store(tmp_path / "held.sqlite")
    never = "from afterrun.watch import Watch; Watch.settle = lambda self, seconds: signal.pause()"
    with watching(settings(tmp_path, store), before=never) as process:
        process.until("sweep-ended")
        process.popen.send_signal(signal.SIGTERM)
        process.until("watch-stopping")
        code, took = process.end()
    assert (code, took < 2.0) == (Exit.INTERRUPTED, True), took
    verified(store)


def test_a_run_by_cron_that_is_stopped_says_so(tmp_path: Path) -> None:
    """`--once` did not do what it was started for: exit 130, as every command."""
    store = make_store(tmp_path / "long.sqlite", LONG, live=0)
    with watching(settings(tmp_path, store), "--once", before=SLOW) as process:
        process.until("batch")
        code, took = process.end()
    assert (code, took < 2.0) == (Exit.INTERRUPTED, True), took
    assert ends(store) == ["interrupted"]
    verified(store)


def test_a_killed_process_is_followed_by_one_that_finishes(tmp_path: Path) -> None:
    """SIGKILL in mid-sweep: the store is whole, the record says that it had started, the next one ends it."""
    store = make_store(tmp_path / "long.sqlite", LONG, live=0)
    config = settings(tmp_path, store)
    with watching(config, before=SLOW) as process:
        process.until("batch")
        assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert ends(store) == ["started"]
    verified(store)
    with watching(config) as process:
        process.until("sweep-ended", ended="completed")
        assert process.end()[0] == Exit.DONE
    assert ends(store) == ["started", "completed"]
    assert count(store) == 29
    verified(store)


# ----------------------------------------------------------------------------------- in turn


def test_stores_are_swept_one_after_another(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """By default the second sweep begins when the first has ended."""
    with watching(settings(tmp_path, *stores)) as process:
        for store in stores:
            process.until("sweep-ended", store=store.stem)
        assert process.end()[0] == Exit.DONE
    told = [line["event"] for line in process.lines if line["event"] in {"sweep-began", "sweep-ended"}]
    assert told == ["sweep-began", "sweep-ended"] * 2


def test_so_many_stores_are_swept_at_a_time(tmp_path: Path) -> None:
    """With --parallel 2, two sweeps are under way and the third waits for its turn, until it is stopped."""
    stores = [make_store(tmp_path / f"{name}.sqlite", LONG, live=0) for name in ("a", "b", "c")]
    with watching(settings(tmp_path, *stores), "--parallel", "2", before=SLOW) as process:
        first, second = process.until("batch"), process.until("sweep-began", times=2)
        process.until("batch", store=second["store"])
        assert first["event"] == "batch"
        code, took = process.end()
    assert (code, took < 2.0) == (Exit.DONE, True), took
    began = {line["store"] for line in process.found("sweep-began")}
    assert len(began) == 2
    assert sorted(ends(store) for store in stores) == [[], ["interrupted"], ["interrupted"]]
