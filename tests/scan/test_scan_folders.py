"""`afterrun scan` finds stores that are directories, cheaply and through no link."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import POWERLESS, make_store, run_cli, run_process
from directory.pi_tree import PiTree


def paths(*words: str | Path) -> list[str]:
    """Return the stores that a scan finds."""
    return [store["path"] for store in run_cli("scan", *words, "--json").json["stores"]]


def test_a_directory_is_told_with_its_profile_and_runs(tmp_path: Path) -> None:
    """Its size is not measured; all else is said as of a database."""
    tree = PiTree(tmp_path / "deep" / "pi")
    for name in ("a", "b"):
        tree.run(name)
    answer = run_cli("scan", tmp_path, "--json")
    assert answer.code == Exit.DONE
    assert answer.json["stores"] == [
        {
            "path": str(tree.root),
            "profile": "pi-subagents",
            "engine": "pi-subagents",
            "schema": {"version": "0.67", "read": True},
            "bytes": None,
            "runs": 2,
            "runs_exact": True,
            "can_sweep": True,
            "problems": [],
        }
    ]
    assert "not measured" in run_cli("scan", tmp_path).out


@pytest.mark.parametrize(
    ("profile", "folder"),
    [("wandb", "offline-run-20260101_000000-abc"), ("hydra", "outputs/2026-01-01/00-00-00")],
)
def test_each_engine_is_known_by_its_own_marks(profile: str, folder: str, tmp_path: Path) -> None:
    """Every built-in profile of a directory finds its store."""
    (tmp_path / "store" / folder).mkdir(parents=True)
    [store] = run_cli("scan", tmp_path, "--json").json["stores"]
    assert (store["path"], store["profile"], store["runs"]) == (str(tmp_path / "store"), profile, 1)


def test_a_folder_with_a_name_of_theirs_is_none(tmp_path: Path) -> None:
    """`outputs` without a day in it is anybody's."""
    (tmp_path / "outputs" / "plots").mkdir(parents=True)
    assert paths(tmp_path) == []


def test_the_folders_of_runs_are_not_entered(tmp_path: Path) -> None:
    """A store of many files costs the names of its runs; what is beside them is found."""
    tree = PiTree(tmp_path / "pi")
    for number in range(5):
        tree.run(f"r{number}", files=50)
    beside = tree.root / "more"
    beside.mkdir()
    database = make_store(beside / "app.sqlite")
    answer = run_cli("scan", tmp_path, "--json")
    assert [store["path"] for store in answer.json["stores"]] == [str(tree.root), str(database)]
    assert answer.json["left_out"] == {"run-folder": 2}
    assert answer.json["entries"] < 20


def test_runs_are_counted_within_the_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the entries are spent, the runs are told as more than were counted."""
    monkeypatch.setattr("afterrun.stores.scan_folders.LOOK_EVERY", 2)
    tree = PiTree(tmp_path / "pi")
    for number in range(9):
        tree.run(f"r{number}")
    answer = run_cli("scan", tmp_path, "--max-entries", "7", "--json")
    [store] = answer.json["stores"]
    assert (store["runs_exact"], answer.json["stopped"]) == (False, "entries")
    assert store["runs"] < 9


def test_no_link_makes_a_directory_a_store(tmp_path: Path) -> None:
    """Neither a link to a store, nor one to the folder of its runs, is followed."""
    outside, place = PiTree(tmp_path / "outside"), tmp_path / "place"
    outside.run("r")
    place.mkdir()
    (place / "store").symlink_to(outside.root)
    assert paths(place) == []
    (place / "async-subagent-runs").symlink_to(outside.runs)
    assert [store["runs"] for store in run_cli("scan", place, "--json").json["stores"]] in ([], [0])


def test_places_of_profiles_are_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a PATH the folder that wandb makes is found from where its program starts."""
    (tmp_path / "wandb" / "offline-run-1").mkdir(parents=True)
    (tmp_path / "other" / "offline-run-1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "wandb") in paths()
    assert str(tmp_path / "other") not in paths()
    monkeypatch.setenv("AFTERRUN_SCAN_PATH", str(tmp_path))
    assert paths().count(str(tmp_path / "wandb")) == 1


def test_a_profile_of_a_person_finds_its_directories_alone(tmp_path: Path) -> None:
    """A user's own profile is looked for, and no other; one that cannot remove says why."""
    PiTree(tmp_path / "pi")
    (tmp_path / "own" / "jobs" / "one").mkdir(parents=True)
    profile = tmp_path / "own.toml"
    profile.write_text(
        'name = "own"\nengine = "ours"\n[detect]\nentries = ["jobs"]\n[units.directory]\nruns = ["jobs/*"]\n'
    )
    [store] = run_cli("scan", tmp_path, "--profile", profile, "--json").json["stores"]
    assert (store["path"], store["runs"], store["can_sweep"]) == (str(tmp_path / "own"), 1, False)
    assert "by-age" in store["problems"][0]


def test_a_directory_that_may_not_be_written_to_cannot_be_swept(tmp_path: Path) -> None:
    """Who may only read is told so."""
    tree = PiTree(tmp_path / "pi")
    tree.run("r")
    tree.root.chmod(0o555)
    try:
        answer = run_process("scan", tree.root, "--json", prefix=POWERLESS)
    finally:
        tree.root.chmod(0o755)
    [store] = answer.json["stores"]
    assert not store["can_sweep"]
