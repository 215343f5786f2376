"""Every command on a directory: the same words, the same report, the same exit codes."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import DirectoryRetention, Policy, Refused, SweepOptions, UsageError, open_retention
from afterrun.core.errors import Exit
from afterrun.stores.directory.ownership import Owner
from afterrun.stores.directory.process import here
from cli.kit import run_cli
from directory.pi_tree import DAY, PiTree

MONTH = Policy(keep_for=timedelta(days=30))


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def filled(tree: PiTree) -> PiTree:
    """Give a store with two old runs, a live one, a young one, a waited one, and results."""
    tree.run("old-1", files=2)
    tree.run("old-2")
    tree.run("lives", state="running")
    young = tree.run("young", endedAt=int((time.time() - 10 * DAY) * 1_000))
    tree.age(young, time.time() - 10 * DAY)
    tree.run("waited")
    tree.wait("w.json", "waited", expires=3_600)
    tree.result("old-1.json", "old-1")
    tree.result("gone.json", "gone")
    tree.result("result-pending/s/lives.json", "lives")
    return tree


def test_a_plan_tells_of_both_kinds_and_of_other_ages(filled: PiTree) -> None:
    """Runs and results in one report; what 7, 30 and 90 days would do; what holds the rest."""
    answer = run_cli("plan", filled.root, "--keep-for", "30d", "--json")
    assert answer.code == Exit.DONE
    found = answer.json
    assert found["profile"] == "pi-subagents"
    assert found["dry_run"] is True
    runs, results = found["units"]["directory"], found["units"]["result"]
    assert (runs["expired"], runs["recent"], runs["members"]) == (2, 1, 5)
    assert runs["protected"] == {"live-member": 1, "wait-reference": 1}
    assert (results["expired"], results["protected"]) == (2, {"run-present": 1})  # one goes with its run
    assert found["rows"] == {"folders": 2, "files": 7}
    assert [(age["keep_for"], age["units"]) for age in found["other_ages"]] == [
        ("7d", 3),
        ("30d", 2),
        ("90d", 0),
    ]
    assert found["stuck"]["count"] == 1
    people = run_cli("plan", filled.root, "--keep-for", "30d")
    assert "run directories" in people.out
    assert "would go" in people.out


def test_a_plan_of_what_is_kept_for_ever_tells_of_other_ages(filled: PiTree) -> None:
    """The asked policy lets nothing go, and yet the plan says what other ages would."""
    found = run_cli("plan", filled.root, "--keep-for", "forever", "--json").json
    assert found["units"]["directory"]["expired"] == 0
    assert [age["units"] for age in found["other_ages"]] == [3, 2, 0]


def test_inspection_changes_nothing_and_measures(filled: PiTree) -> None:
    """Counts by state, sizes, and what some ages would free; nothing of ours is made in the store."""
    answer = run_cli("inspect", filled.root, "--exact", "--json")
    assert answer.code == Exit.DONE
    found = answer.json
    assert found["runs"] == {"live": 1, "finished": 4, "unknown": 0}
    assert {table["name"]: table["rows"] for table in found["tables"]} == {"runs": 16, "results": 3}
    assert [part["units"] for part in found["would_free"]] == [3, 2, 0]
    assert found["stays"]["protected"].keys() == {"live-member", "wait-reference"}
    assert not (filled.root / ".afterrun").exists()
    assert run_cli("inspect", filled.root).code == Exit.DONE


def test_one_run_is_explained(filled: PiTree) -> None:
    """Verdict, reasons, members and times, of a run and of a result."""
    waited = run_cli("explain", filled.root, "waited", "--keep-for", "30d", "--json").json
    assert (waited["kind"], waited["verdict"]) == ("directory", "protected")
    assert [reason["name"] for reason in waited["reasons"]] == ["wait-reference"]
    young = run_cli("explain", filled.root, "young", "--keep-for", "30d", "--json").json
    assert young["eligible_at"] is not None
    path = "async-subagent-results/gone.json"
    result = run_cli("explain", filled.root, path, "--keep-for", "30d", "--json").json
    assert (result["kind"], result["verdict"]) == ("result", "expired")
    assert run_cli("explain", filled.root, "nobody", "--keep-for", "30d").code == Exit.ERROR


def test_prune_removes_what_the_plan_said(filled: PiTree) -> None:
    """A dry run first; then runs, then the results that were only held by their runs."""
    dry = run_cli("prune", filled.root, "--keep-for", "30d", "--json").json
    assert [dry["units"][kind]["expired"] for kind in ("directory", "result")] == [2, 2]
    assert filled.names() == {"old-1", "old-2", "lives", "young", "waited"}
    refused = run_cli("prune", filled.root, "--keep-for", "30d", "--apply", "--yes")
    assert refused.code == Exit.USAGE
    assert "--trash" in refused.err
    done = run_cli("prune", filled.root, "--keep-for", "30d", "--apply", "--yes", "--no-backup", "--json")
    assert done.code == Exit.DONE
    assert done.json["units"]["directory"]["removed"] == 2
    assert done.json["units"]["result"]["removed"] == 2
    assert done.json["rows"] == dry["rows"]
    assert filled.names() == {"lives", "young", "waited"}
    assert run_cli("verify", filled.root).code == Exit.DONE


def test_a_pin_holds_a_run_and_its_results(filled: PiTree) -> None:
    """A run that is gone may be pinned for the sake of its result."""
    words = ("--keep-for", "30d", "--pin", "old-1", "--pin", "gone", "--json")
    found = run_cli("plan", filled.root, *words).json
    assert found["units"]["directory"]["protected"]["pinned"] == 1
    assert found["units"]["result"]["protected"]["pinned"] == 2
    assert found["units"]["result"]["expired"] == 0


def test_the_first_sweep_asks_and_an_approved_one_removes(filled: PiTree) -> None:
    """First contact, approval, and a sweep that finds nothing more."""
    asked = run_cli("sweep", filled.root, "--keep-for", "30d", "--json")
    assert (asked.code, asked.json["ended"]) == (Exit.REFUSED, "guard")
    fingerprint = asked.json["fingerprint"]
    done = run_cli("sweep", filled.root, "--keep-for", "30d", "--approve", fingerprint, "--json")
    assert (done.code, done.json["ended"]) == (Exit.DONE, "completed")
    assert done.json["units"]["directory"]["removed"] == 2
    again = run_cli("sweep", filled.root, "--keep-for", "30d", "--json").json
    assert again["ended"] == "completed"
    assert again["units"]["directory"]["removed"] == 0
    history = run_cli("history", filled.root, "--json")
    assert history.code == Exit.DONE
    assert len(history.json["records"]) == 3


def test_what_went_to_the_trash_comes_back(filled: PiTree) -> None:
    """One run, then all; a run that is not there, and a word that is no trash, are told."""
    words = ("--keep-for", "30d", "--apply", "--yes", "--trash", "24h", "--json")
    done = run_cli("prune", filled.root, *words)
    assert done.code == Exit.DONE
    assert filled.names() == {"lives", "young", "waited"}
    one = run_cli("restore", filled.root, "trash", "old-1", "--json")
    assert (one.code, one.json["units"]) == (Exit.DONE, 1)
    assert filled.names() == {"lives", "young", "waited", "old-1"}
    assert run_cli("restore", filled.root, "trash", "old-1").code == Exit.ERROR
    rest = run_cli("restore", filled.root, "trash", "--json")
    assert rest.code == Exit.DONE
    assert "old-2" in filled.names()
    records = run_cli("history", filled.root, "--json").json["records"]
    assert [(record["command"], record["ended"]) for record in records][1:] == [
        ("restore", "completed"),
        ("restore", "failed"),
        ("restore", "completed"),
    ]
    assert run_cli("restore", filled.root, "/some/backup").code == Exit.ERROR


def test_a_plan_file_narrows_a_removal(filled: PiTree, tmp_path: Path) -> None:
    """What a plan listed is what may go; later arrivals stay."""
    plan = tmp_path / "plan.json"
    assert run_cli("plan", filled.root, "--keep-for", "30d", "--out", plan).code == Exit.DONE
    filled.run("arrived")
    words = ("--keep-for", "30d", "--plan", plan, "--apply", "--yes", "--no-backup", "--json")
    done = run_cli("prune", filled.root, *words).json
    assert done["units"]["directory"]["removed"] == 2
    assert "arrived" in filled.names()


def test_space_is_given_back_with_each_removal(filled: PiTree) -> None:
    """There is nothing to reclaim, and the command says so."""
    answer = run_cli("reclaim", filled.root)
    assert answer.code == Exit.DONE
    assert "nothing left to reclaim" in answer.out
    assert run_cli("reclaim", filled.root, "--apply", "--json").json["ended"] == "skipped"


def test_options_of_databases_are_refused_of_a_directory_and_the_other_way(
    filled: PiTree, tmp_path: Path
) -> None:
    """An option that means nothing here is no silent nothing."""
    with pytest.raises(UsageError, match="--datasource"):
        open_retention(str(filled.root), datasources=["x.sqlite"])
    with pytest.raises(UsageError, match="--trash"):
        open_retention(str(tmp_path / "x.sqlite"), trash=timedelta(hours=1))
    assert run_cli("plan", tmp_path, "--keep-for", "30d").code == Exit.USAGE


def test_profiles_of_directories_are_listed_shown_and_checked(filled: PiTree) -> None:
    """Beside those of databases."""
    listed = run_cli("profile", "list", "--json").json["profiles"]
    assert {"pi-subagents", "wandb", "hydra", "dbos"} <= {one["name"] for one in listed}
    shown = run_cli("profile", "show", "wandb")
    assert shown.out.startswith("# Weights & Biases")
    assert run_cli("profile", "show", "hydra", "--json").json["name"] == "hydra"
    checked = run_cli("profile", "check", filled.root, "--json").json
    assert (checked["profile"], checked["fits"]) == ("pi-subagents", True)


def test_a_host_embeds_a_directory(filled: PiTree, tmp_path: Path) -> None:
    """The same object as for databases, with a budget and a gate; generations alone mean nothing here."""
    with open_retention(str(filled.root), state=tmp_path / "own") as retention:
        assert isinstance(retention, DirectoryRetention)
        report = retention.prune(MONTH, options=SweepOptions(gate=lambda: False))
        assert (report.ended, report.removed) == ("interrupted", 0)
        with pytest.raises(Refused, match="generations"):
            retention.plan(Policy(generations=MONTH))
        report = retention.prune(MONTH, options=SweepOptions(batch_units=1))
        assert (report.ended, report.removed) == ("completed", 4)
        assert [record.command for record in retention.history()] == ["prune", "prune"]


def test_what_a_sweep_did_stands_in_the_store_and_in_the_state(filled: PiTree) -> None:
    """The log beside the runs has ids; the record in the state has counts only."""
    run_cli("prune", filled.root, "--keep-for", "30d", "--apply", "--yes", "--no-backup")
    line = json.loads((filled.root / ".afterrun" / "log.jsonl").read_text().splitlines()[-1])
    assert line["removed"] == {"directory": 2, "result": 2}
    state = "".join(path.read_text() for path in (filled.root.parent / "state").glob("*.json"))
    assert "old-1" not in state


def test_a_lock_of_another_machine_is_broken_by_an_option(filled: PiTree) -> None:
    """The message names the token, and the option takes it."""
    lock = filled.root / ".afterrun" / "lock"
    lock.mkdir(parents=True)
    owner = json.loads(Owner.of(here(), "of-theirs", 0.0).as_bytes()) | {"machine": "elsewhere"}
    (lock / "owner.json").write_text(json.dumps(owner))
    words = ("--keep-for", "30d", "--apply", "--yes", "--no-backup")
    locked = run_cli("prune", filled.root, *words)
    assert locked.code == Exit.LOCKED
    assert "--break-lock of-theirs" in locked.err.replace("\n", " ")
    assert run_cli("prune", filled.root, *words, "--break-lock", "of-theirs").code == Exit.DONE
