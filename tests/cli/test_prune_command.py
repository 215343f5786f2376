"""`afterrun prune`: nothing goes without a person's word."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from afterrun.cli import plan_file
from afterrun.core.errors import Exit, UnitFailure
from afterrun.core.facts import Unit
from afterrun.stores.sql.removal import Removal

from .kit import Answer, Terminal, count, make_store, run_cli, unchanged

POLICY = ("--keep-for", "30d")
APPLY = ("--apply", "--no-backup", "--yes")


def removed(answer: Answer) -> int:
    """Return the units that a report says are gone."""
    return int(answer.json["units"]["tree"]["removed"])


@pytest.mark.parametrize("words", [(), ("--no-backup",), ("--yes",), ("--no-backup", "--yes")])
def test_without_apply_nothing_goes(store: Path, words: tuple[str, ...]) -> None:
    """A prune is a dry run until --apply is given, and says so."""
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, *words)
    assert answer.code == Exit.DONE
    assert "11" in answer.out
    assert "Nothing was removed" in answer.out
    assert "--apply" in answer.out


def test_apply_needs_a_word_about_the_backup(store: Path) -> None:
    """An apply says --backup or --no-backup, and not both."""
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--apply", "--yes")
        both = run_cli("prune", store, *POLICY, *APPLY, "--backup", "/somewhere")
    assert (answer.code, both.code) == (Exit.USAGE, Exit.USAGE)
    assert "--backup ABSOLUTE_PATH" in answer.err
    assert "--no-backup" in answer.err
    assert "contradict" in both.err


def test_apply_needs_yes_where_nobody_can_answer(store: Path) -> None:
    """Without a terminal there is nobody to ask, so --yes must stand there."""
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--apply", "--no-backup")
    assert answer.code == Exit.USAGE
    assert "--yes" in answer.err


@pytest.mark.parametrize("reply", ["", "\n", "n\n", "no\n", "yess\n", "11\n"])
def test_anything_but_yes_removes_nothing(store: Path, reply: str) -> None:
    """After the plan the question is put, and only yes is yes."""
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--apply", "--no-backup", stdin=Terminal(reply))
    assert answer.code == Exit.DONE
    assert "would go" in answer.err
    assert "Remove 11 units for good, without a backup? [y/N]" in answer.err
    assert "Nothing was removed." in answer.err
    assert answer.out == ""


@pytest.mark.parametrize("reply", ["y\n", "YES\n", " yes \n"])
def test_yes_removes_what_the_plan_showed(store: Path, reply: str) -> None:
    """A person who says yes gets what was shown; with --json, only the report is on standard output."""
    answer = run_cli("prune", store, *POLICY, "--apply", "--no-backup", "--json", stdin=Terminal(reply))
    assert answer.code == Exit.DONE
    assert removed(answer) == 11
    assert count(store) == 30


def test_with_nothing_to_remove_nobody_is_asked(store: Path) -> None:
    """Where nothing would go there is no question."""
    answer = run_cli("prune", store, "--keep-for", "forever", "--apply", "--no-backup", stdin=Terminal("y\n"))
    assert answer.code == Exit.DONE
    assert "?" not in answer.err
    assert "would go" in answer.out


def test_a_report_never_claims_that_a_file_shrank(store: Path) -> None:
    """File sizes are measured, an estimate has its mark, and no command is named that does not exist."""
    plan = run_cli("plan", store, *POLICY)
    done = run_cli("prune", store, *POLICY, *APPLY)
    assert "~" in plan.out
    assert "before" in done.out
    assert "after (both measured)" in done.out
    assert "used again" in done.out
    for answer in (plan, done):
        for claim in ("shrank", "smaller", "saved", "freed", "afterrun reclaim"):
            assert claim not in answer.out


def test_a_budget_ends_with_zero_and_strictly_with_three(store: Path) -> None:
    """A limit that was reached is no fault, unless --strict makes it one."""
    first = run_cli("prune", store, *POLICY, *APPLY, "--limit", "2", "--json")
    assert (first.code, first.json["ended"], removed(first)) == (Exit.DONE, "budget", 2)
    second = run_cli("prune", store, *POLICY, *APPLY, "--limit", "2", "--strict", "--json")
    assert (second.code, second.json["ended"], removed(second)) == (Exit.DEFERRED, "budget", 2)
    rest = run_cli("prune", store, *POLICY, *APPLY, "--strict", "--json")
    assert (rest.code, rest.json["ended"], removed(rest)) == (Exit.DONE, "completed", 7)


def test_verbose_says_one_line_a_batch(store: Path) -> None:
    """-v tells each batch on standard error, in counts and seconds and without an id."""
    answer = run_cli("prune", store, *POLICY, *APPLY, "--batch-units", "4", "-v", "--json")
    lines = answer.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["batch 1", "batch 2", "batch 3"]
    assert "4 units" in lines[0]
    assert "run-" not in answer.err
    assert answer.json["batches"] == 3


@pytest.mark.parametrize("command", [("prune", *APPLY), ("sweep",)], ids=["prune", "sweep"])
def test_a_unit_that_fails_alone_is_deferred(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A unit whose rows cannot be deleted stays, the rest goes, and the exit code is 3."""
    whole = Removal.remove

    def failing(self: Removal, units: Sequence[Unit], *, max_rows: int) -> Mapping[str, int]:
        if any(unit.key == "run-35" for unit in units):
            raise UnitFailure("constraint", "SQLITE_CONSTRAINT_FOREIGNKEY")
        return whole(self, units, max_rows=max_rows)

    monkeypatch.setattr(Removal, "remove", failing)
    settings = tmp_path / "afterrun.toml"
    settings.write_text('approve = true\n[policy]\nkeep_for = "30d"\n')
    answer = run_cli(*command, store, "--policy", settings, "-v", "--json")
    assert answer.code == Exit.DEFERRED
    assert answer.json["units"]["tree"]["deferred"] == 1
    assert answer.json["ended"] == "completed"
    assert removed(answer) == 10
    assert "one unit deferred (constraint)" in answer.err


@pytest.fixture
def plan(store: Path, tmp_path: Path) -> Path:
    """Write the plan file of a store."""
    path = tmp_path / "plan.json"
    assert run_cli("plan", store, *POLICY, "--out", path).code == Exit.DONE
    return path


def listed(path: Path) -> list[str]:
    """Return the ids of a plan file."""
    units = json.loads(path.read_text())["units"]
    assert isinstance(units, list)
    return units


def rewrite(path: Path, **changes: object) -> None:
    """Change a plan file by hand."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_plan_file_lists_what_would_go_for_its_owner_alone(store: Path, plan: Path) -> None:
    """The file has the ids of the units that would go, mode 0600, and the report is the same as without."""
    assert sorted(listed(plan)) == sorted(f"run-{number}" for number in range(29, 40))
    assert stat.S_IMODE(plan.stat().st_mode) == 0o600
    bare = run_cli("plan", store, *POLICY, "--json").json
    other = run_cli("plan", store, *POLICY, "--json", "--out", plan.with_name("other.json")).json
    assert other["units"] == bare["units"]
    assert other["rows"] == bare["rows"]
    assert other["seconds"]["total"] > 0


@pytest.mark.parametrize("kind", ["file", "symlink", "dangling", "directory", "no-folder", "beside"])
def test_a_plan_file_is_always_a_new_one(store: Path, tmp_path: Path, kind: str) -> None:
    """--out overwrites nothing, follows no link and takes no name that SQLite uses."""
    out = tmp_path / "out.json"
    target = tmp_path / "target"
    if kind == "file":
        out.write_text("precious")
    elif kind == "symlink":
        target.write_text("precious")
        out.symlink_to(target)
    elif kind == "dangling":
        out.symlink_to(target)
    elif kind == "directory":
        out.mkdir()
    elif kind == "no-folder":
        out = tmp_path / "missing" / "out.json"
    else:
        out = Path(f"{store}-journal")
    with unchanged(store), unchanged(out), unchanged(target):
        answer = run_cli("plan", store, *POLICY, "--out", out)
    assert answer.code == Exit.USAGE
    assert out.name in answer.err


def test_a_plan_that_fails_in_the_middle_leaves_no_file(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan file is whole or not there."""
    monkeypatch.setattr(plan_file, "MAX_UNITS", 3)
    out = tmp_path / "out.json"
    answer = run_cli("plan", store, *POLICY, "--out", out)
    assert answer.code == Exit.USAGE
    assert "more units than a plan file" in answer.err
    assert not out.exists()


def test_an_interrupted_plan_leaves_no_file(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle takes the unfinished plan file away and ends with 130."""

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_file.PlanWriter, "add", interrupted)
    out = tmp_path / "out.json"
    answer = run_cli("plan", store, *POLICY, "--out", out, "--json")
    assert answer.code == Exit.INTERRUPTED
    assert answer.json["error"]["kind"] == "interrupted"
    assert not out.exists()


def test_a_plan_file_narrows_a_prune(store: Path, plan: Path) -> None:
    """Only what the file lists and the policy lets go is removed; dry run and apply agree."""
    rewrite(plan, units=["run-30", "run-35", "run-2", "live-0", "never-was"])
    dry = run_cli("prune", store, *POLICY, "--plan", plan, "--json").json
    assert dry["units"]["tree"]["expired"] - sum(dry["units"]["tree"]["skipped"].values()) == 2
    assert dry["rows"]["workflow_status"] == 2
    done = run_cli("prune", store, *POLICY, "--plan", plan, *APPLY, "--json")
    assert removed(done) == 2
    assert done.json["rows"] == dry["rows"]
    assert count(store) == 39


def test_a_plan_file_adds_nothing_to_a_policy(store: Path, plan: Path) -> None:
    """A listed unit that the policy keeps stays, and a policy must be given."""
    with unchanged(store):
        kept = run_cli("prune", store, "--keep-for", "300d", "--plan", plan, *APPLY, "--json")
        bare = run_cli("prune", store, "--plan", plan, *APPLY)
    assert removed(kept) == 0
    assert bare.code == Exit.REFUSED


def test_a_plan_of_another_store_is_refused(store: Path, plan: Path, tmp_path: Path) -> None:
    """A copy elsewhere is another store."""
    other = make_store(tmp_path / "other.sqlite")
    with unchanged(other):
        answer = run_cli("prune", other, *POLICY, "--plan", plan, *APPLY, "--json")
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "other-store"


def test_a_plan_of_another_profile_is_refused(store: Path, plan: Path) -> None:
    """What was planned by one profile is not removed by another."""
    rewrite(plan, profile="dbsos")
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--plan", plan, *APPLY, "--json")
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "other-profile"


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "afterrun-plan/4"},
        {"identity": "short"},
        {"units": "run-3"},
        {"units": [3]},
        {"units": [["generation"]]},
        {"units": None},
        {"surprise": 1},
        {"policy": ["keep_for"]},
    ],
)
def test_a_plan_file_with_a_fault_is_refused(store: Path, plan: Path, changes: dict[str, object]) -> None:
    """A plan file is checked like any other input; the fault is named by its place."""
    rewrite(plan, **changes)
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--plan", plan, *APPLY)
    assert answer.code == Exit.USAGE
    assert next(iter(changes)) in answer.err


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "text", "huge", "deep"])
def test_a_plan_file_that_is_none_is_refused(
    store: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is no plan file is refused by its name, without waiting for it or filling memory."""
    path = tmp_path / "plan.json"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("run-3\nrun-4\n")
    elif kind == "huge":
        monkeypatch.setattr(plan_file, "MAX_BYTES", 1_000)
        path.write_text(" " * 1_001)
    elif kind == "deep":
        path.write_text("[" * 100_000)
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--plan", path, *APPLY)
    assert answer.code == Exit.USAGE
    assert "plan.json" in answer.err


def test_a_command_without_backups_says_which_one_makes_them(store: Path) -> None:
    """An automatic sweep makes none, and says who does instead of a word that looks alike."""
    answer = run_cli("sweep", store, *POLICY, "--backup", "/somewhere")
    assert answer.code == Exit.USAGE
    assert "only prune --apply makes backups" in answer.err
