"""`afterrun history`: what past sweeps and manual applies of a store came to."""

from __future__ import annotations

from pathlib import Path

from afterrun.core.errors import Exit

from .kit import run_cli, unchanged

APPLY = ("--apply", "--no-backup", "--yes")


def test_records_come_the_newest_last(store: Path) -> None:
    """Each sweep and apply has its record, in order, with what it came to and both sizes of the file."""
    run_cli("sweep", store, "--keep-for", "30d")
    run_cli("prune", store, "--keep-for", "35d", *APPLY)
    run_cli("prune", store, "--keep-for", "30d")  # a dry run leaves none
    run_cli("sweep", store, "--keep-for", "30d")
    with unchanged(store):
        answer = run_cli("history", store, "--json")
    assert answer.code == Exit.DONE
    records = answer.json["records"]
    assert [(record["command"], record["ended"], record["removed"]) for record in records] == [
        ("sweep", "guard", 0),
        ("prune", "completed", 6),
        ("sweep", "completed", 5),
    ]
    assert [record["at"] for record in records] == sorted(record["at"] for record in records)
    assert records[-1]["file_after"] == store.stat().st_size


def test_a_limit_shows_the_newest(store: Path) -> None:
    """--limit N keeps the newest N; people see the same as a table."""
    for days in (39, 38, 37, 36):
        run_cli("prune", store, "--keep-for", f"{days}d", *APPLY)
    records = run_cli("history", store, "--limit", "2", "--json").json["records"]
    everything = run_cli("history", store, "--json").json["records"]
    assert len(everything) == 4
    assert records == everything[-2:]
    told = run_cli("history", store, "--limit", "2").out
    assert told.count("prune") == 2
    assert records[-1]["at"][:19] in told


def test_a_store_that_was_never_swept_has_none(store: Path) -> None:
    """No record is no error, and nothing is written to say so."""
    assert run_cli("history", store, "--json").json["records"] == []
    assert "No sweep is on record" in run_cli("history", store).out
    assert not (store.parent / "state").exists()
