"""Ctrl-C and SIGTERM: the running batch ends, the report is given, and the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from unittest.mock import patch

import pytest

from afterrun.cli.outcome import exit_of
from afterrun.core.errors import Exit
from afterrun.core.report import Ended, Report
from afterrun.core.store import Schema

from . import kit
from .kit import Answer, Terminal, count, make_store, run_cli, spawn

RUNS = 3_000
EXPIRED = RUNS - 30 + 1
REMOVE = {
    "prune": ("prune", "--keep-for", "30d", "--apply", "--no-backup", "--yes"),
    "sweep": ("sweep", "--keep-for", "30d"),
}


@pytest.fixture
def long_store(tmp_path: Path) -> Path:
    """Make a store whose removal, one unit a batch, takes minutes."""
    return make_store(tmp_path / "store.sqlite", RUNS, live=0)


def start(store: Path, command: str, *words: str) -> subprocess.Popen[str]:
    """Start a removal, one unit a batch, and wait until its first batch is committed."""
    if command == "sweep":
        asked = run_cli("sweep", store, "--keep-for", "30d", "--json")
        words = (*words, "--approve", asked.json["fingerprint"])
    process = spawn(*REMOVE[command], store, "--batch-units", "1", "-v", "--json", *words)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("batch 1:")
    return process


def end(process: subprocess.Popen[str]) -> Answer:
    """Wait for the end of a removal."""
    with process:
        out, err = process.communicate(timeout=60)
    return Answer(process.returncode, out, err)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["prune", "sweep"])
def test_the_first_signal_ends_after_the_running_batch(
    long_store: Path, command: str, number: signal.Signals
) -> None:
    """One signal stops between two batches: a whole report, exit 130, and nothing half removed."""
    process = start(long_store, command)
    process.send_signal(number)
    answer = end(process)
    assert answer.code == Exit.INTERRUPTED
    assert answer.json["ended"] == "interrupted"
    gone = answer.json["units"]["tree"]["removed"]
    assert 1 <= gone < EXPIRED
    assert count(long_store) == count(long_store, "operation_outputs") == RUNS - gone
    assert "once more aborts at once" in answer.err
    assert run_cli("verify", long_store).code == Exit.DONE
    rest = run_cli(*REMOVE["prune"], long_store, "--offline", "--json")
    assert rest.json["units"]["tree"]["removed"] == EXPIRED - gone


@pytest.fixture
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes pause for an hour after each batch, far longer than --pause admits."""
    ending = "sys.exit(main())"
    assert ending in kit.COMMAND[-1]
    longer = f"import afterrun.core.batch as b; b.Pace.pause = lambda *_a, **_o: 3600.0; {ending}"
    monkeypatch.setattr(kit, "COMMAND", [*kit.COMMAND[:-1], kit.COMMAND[-1].replace(ending, longer)])


def test_the_second_signal_aborts_at_once(long_pauses: None, long_store: Path) -> None:
    """A second Ctrl-C does not wait for the pause or the report: exit 130, and the store is whole."""
    process = start(long_store, "prune")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "once more" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    answer = end(process)
    assert answer.code == Exit.INTERRUPTED
    assert answer.json["error"]["kind"] == "interrupted"
    assert count(long_store) == count(long_store, "operation_outputs") == RUNS - 1
    assert run_cli("verify", long_store).code == Exit.DONE


def test_a_plan_is_aborted_by_the_first_signal(long_store: Path) -> None:
    """What removes nothing has nothing to end in order: Ctrl-C ends it at once with 130."""
    with patch("afterrun.service.Retention.outlook", side_effect=lambda *_a, **_o: os.kill(os.getpid(), 2)):
        answer = run_cli("plan", long_store, "--keep-for", "30d")
    assert answer.code == Exit.INTERRUPTED
    assert answer.err.startswith("afterrun: interrupted")


def test_an_abort_that_sqlite_swallowed_is_still_an_abort(long_store: Path) -> None:
    """Ctrl-C while SQLite works surfaces as an interrupted statement, and is reported as what it was."""

    def interrupted(*_args: object, **_options: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise LookupError("SQLITE_INTERRUPT") from None

    with patch("afterrun.service.Retention.outlook", side_effect=interrupted):
        answer = run_cli("plan", long_store, "--keep-for", "30d")
    assert answer.code == Exit.INTERRUPTED


def test_signals_are_given_back() -> None:
    """A program that calls the command line keeps its own handlers."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run_cli("--version")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_walk_over_what_stays_ends_by_the_budget(long_store: Path) -> None:
    """Promise 6: a sweep that finds nothing to remove is bounded in seconds, too, and goes on later."""
    words = ("--keep-for", "1d", "--keep-last", "100000", "--max-seconds", "0.000001", "--json")
    asked = run_cli("sweep", long_store, *words)
    approve: tuple[str, ...] = ("--approve", asked.json["fingerprint"])
    seen = []
    for _ in range(5):
        answer = run_cli("sweep", long_store, *words, *approve)
        seen.append((answer.json["ended"], answer.json["units"]["tree"]["scanned"]))
        approve = ()
    pages = [("budget", 1_000)] * 3
    assert seen == [*pages, ("completed", 0), pages[0]]


def test_a_terminal_gets_a_bar_and_standard_output_stays_clean(store: Path) -> None:
    """Progress is drawn on standard error where that is a terminal, and nowhere else."""
    answer = run_cli(*REMOVE["prune"], store, "--batch-units", "2", "--json", stderr=Terminal())
    assert answer.json["units"]["tree"]["removed"] == 11
    assert "removing" in answer.err
    assert run_cli(*REMOVE["prune"], store, "--json").err == ""


@pytest.mark.parametrize(
    ("ended", "deferred", "strict", "stopped", "code"),
    [
        ("completed", 0, False, False, Exit.DONE),
        ("completed", 0, True, True, Exit.DONE),
        ("completed", 2, False, False, Exit.DEFERRED),
        ("budget", 0, False, False, Exit.DONE),
        ("budget", 0, True, False, Exit.DEFERRED),
        ("interrupted", 0, False, False, Exit.DONE),
        ("interrupted", 0, True, False, Exit.DEFERRED),
        ("interrupted", 1, True, True, Exit.INTERRUPTED),
        ("guard", 0, False, False, Exit.REFUSED),
        ("guard", 1, True, True, Exit.REFUSED),
        ("failed", 3, True, True, Exit.ERROR),
        ("locked", 0, False, False, Exit.LOCKED),
    ],
)
def test_every_ending_has_its_exit_code(
    ended: Ended, deferred: int, strict: bool, stopped: bool, code: Exit
) -> None:
    """The exit code follows from how the removal ended, in a fixed order of weight."""
    report = Report(
        store="s",
        profile="p",
        schema=Schema("1", read=True),
        dry_run=False,
        now=0,
        policy={},
        fingerprint="f",
    )
    report.ended = ended
    report.units.deferred = deferred
    assert exit_of(report, strict=strict, stopped=stopped) is code
