"""`--metrics-file`: the Prometheus text of the last run, replaced whole and never in the wrong place."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from afterrun.cli import metrics_file
from afterrun.core.errors import Exit

from .kit import count, make_store, run_cli, unchanged

APPLY = ("--apply", "--no-backup", "--yes")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Name a file in a folder of its own."""
    folder = tmp_path / "collector"
    folder.mkdir()
    return folder / "afterrun.prom"


def read(path: Path) -> Samples:
    """Parse a file as Prometheus does."""
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, *, command: str = "prune", **labels: str) -> float:
    """Return one sample."""
    return samples[f"afterrun_{name}", frozenset({"profile": "dbos", "command": command, **labels}.items())]


def test_an_apply_writes_what_its_report_says(store: Path, target: Path) -> None:
    """Counts, times and sizes are those of the report, as gauges with help and type."""
    report = run_cli("prune", store, "--keep-for", "30d", *APPLY, "--metrics-file", target, "--json").json
    found = read(target)
    assert value(found, "units", kind="tree", outcome="removed") == 11
    assert value(found, "units", kind="tree", outcome="deferred") == 0
    assert value(found, "rows_removed") == sum(report["rows"].values())
    assert value(found, "backlog_units") == report["backlog"]["after"]
    assert value(found, "seconds") == pytest.approx(report["seconds"]["total"], abs=1e-6)
    assert value(found, "file_bytes", moment="before") == report["bytes"]["file_before"]
    assert value(found, "file_bytes", moment="after") == report["bytes"]["file_after"]
    assert value(found, "ended", ended="completed") == 1
    assert sum(number for (name, _), number in found.items() if name == "afterrun_ended") == 1
    assert value(found, "last_success_timestamp_seconds") == value(found, "last_run_timestamp_seconds")
    kinds = {family.type for family in text_string_to_metric_families(target.read_text(encoding="utf-8"))}
    assert kinds == {"gauge"}


def test_the_file_is_readable_by_all_and_names_no_run_and_no_path(store: Path, target: Path) -> None:
    """Mode 0644, the only file in its folder, without ids or paths."""
    run_cli("prune", store, "--keep-for", "30d", *APPLY, "--metrics-file", target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert list(target.parent.iterdir()) == [target]
    text = target.read_text(encoding="utf-8")
    assert "run-" not in text
    assert "/" not in text


def test_the_last_success_outlives_a_sweep_that_was_none(store: Path, target: Path) -> None:
    """A guarded sweep has no success; after one that completed, a failed one keeps its time."""
    words = ("sweep", store, "--metrics-file", target, "--json")
    shown = run_cli(*words, "--keep-for", "30d").json
    assert shown["ended"] == "guard"
    found = read(target)
    assert value(found, "ended", command="sweep", ended="guard") == 1
    assert value(found, "rows_removed", command="sweep") == 0
    assert not any(name == "afterrun_last_success_timestamp_seconds" for name, _ in found)
    run_cli(*words, "--keep-for", "30d", "--approve", shown["fingerprint"])
    success = value(read(target), "last_success_timestamp_seconds", command="sweep")
    with_more = make_store(store, runs=400)
    again = run_cli("sweep", with_more, "--keep-for", "1d", "--metrics-file", target, "--json").json
    assert again["ended"] == "guard"
    found = read(target)
    assert value(found, "last_success_timestamp_seconds", command="sweep") == success
    assert value(found, "last_run_timestamp_seconds", command="sweep") > success


def test_a_dry_run_is_no_run(store: Path, target: Path) -> None:
    """Without --apply there is nothing to measure, and it is said."""
    assert run_cli("prune", store, "--keep-for", "30d", "--metrics-file", target).code == Exit.USAGE
    assert not target.exists()


@pytest.mark.parametrize("kind", ["link", "dangling link", "foreign", "empty", "folder", "store", "nowhere"])
def test_it_never_writes_in_the_wrong_place(store: Path, target: Path, kind: str) -> None:
    """A link, a file of somebody else, a folder: refused before anything is removed."""
    victim = target.parent / "victim"
    victim.write_text("mine\n", encoding="utf-8")
    if kind == "link":
        target.symlink_to(victim)
    elif kind == "dangling link":
        target.symlink_to(target.parent / "nothing")
    elif kind == "foreign":
        target.write_text("mine\n", encoding="utf-8")
    elif kind == "empty":
        target.touch()
    elif kind == "folder":
        target.mkdir()
    path = {"store": store, "nowhere": target.parent / "no" / "such.prom"}.get(kind, target)
    with unchanged(store), unchanged(victim), unchanged(target):
        answer = run_cli("prune", store, "--keep-for", "30d", *APPLY, "--metrics-file", path)
    assert answer.code == Exit.USAGE
    assert "--metrics-file" in answer.err
    assert not (target.parent / "nothing").exists()


def test_a_file_that_cannot_be_written_in_the_end_is_reported(
    store: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The removal is done and reported; exit 1 says that the metrics are old, and the old ones are whole."""
    run_cli("prune", store, "--keep-for", "35d", *APPLY, "--metrics-file", target)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics_file, "_synced", full)
    with unchanged(target):
        answer = run_cli("prune", store, "--keep-for", "30d", *APPLY, "--metrics-file", target, "--json")
    assert answer.code == Exit.ERROR
    assert answer.json["units"]["tree"]["removed"] == 5
    assert answer.json["notices"][-1] == "the metrics file was not written: No space left on device"
    assert count(store) == 30
    assert list(target.parent.iterdir()) == [target]
