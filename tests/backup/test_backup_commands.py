"""`prune --backup` and `restore` as a person types them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import Terminal, count, make_store, run_cli, unchanged

POLICY = ("--keep-for", "30d")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AFTERRUN_STORE", raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store of 40 runs, ended 1 to 40 days ago, and a live one."""
    return make_store(tmp_path / "store.sqlite")


def test_a_prune_with_a_backup_and_its_way_back(store: Path, folder: Path) -> None:
    """The report names the backup and its checksum; restore says what came back and that it is old."""
    target = folder / "b.sqlite"
    done = run_cli("prune", store, *POLICY, "--apply", "--yes", "--backup", target)
    assert done.code == Exit.DONE
    assert f"{target} (removed, 11 units)" in done.out
    assert "verified before the first batch in" in done.out
    assert count(store) == 30
    one = run_cli("restore", store, target, "run-35", "--offline")
    assert one.code == Exit.DONE
    assert "next sweep takes it again" in one.out
    assert "--pin" in one.out
    assert count(store) == 31
    rest = run_cli("restore", store, target, "--offline", "--json")
    assert rest.code == Exit.DONE
    assert (rest.json["units"], rest.json["present"], rest.json["refused"]) == (10, 1, {})
    assert count(store) == 41


def test_json_has_the_facts_of_the_backup(store: Path, folder: Path) -> None:
    """Scripts find path, kind, size, units, rows and checksum of the backup in the report."""
    target = folder / "b.sqlite"
    done = run_cli("prune", store, *POLICY, "--apply", "--yes", "--backup", target, "--json").json
    backup = done["backup"]
    assert (backup["path"], backup["kind"], backup["units"]) == (str(target), "removed", 11)
    assert backup["bytes"] == target.stat().st_size
    assert backup["rows"] == done["rows"]
    assert len(backup["checksum"]) == 64
    assert run_cli("plan", store, *POLICY, "--json").json["backup"] is None


@pytest.mark.parametrize("reply", ["n\n", "y\n"])
def test_the_question_names_the_backup(store: Path, folder: Path, reply: str) -> None:
    """A person is told where the backup goes; without a yes neither backup nor removal is made."""
    target = folder / "b.sqlite"
    words = ("prune", store, *POLICY, "--apply", "--backup", target)
    answer = run_cli(*words, stdin=Terminal(reply))
    assert f"Remove 11 units after a backup to {target}? [y/N]" in answer.err
    assert target.exists() == (reply == "y\n")
    assert count(store) == (30 if reply == "y\n" else 41)


def test_a_dry_run_makes_no_backup_and_says_what_a_whole_one_costs(store: Path, folder: Path) -> None:
    """With a rollback journal the plan says for how long the engine could not commit, as an estimate."""
    target = folder / "b.sqlite"
    answer = run_cli("prune", store, *POLICY, "--backup", target, "--backup-kind", "whole")
    assert answer.code == Exit.DONE
    assert "cannot commit" in answer.out
    assert "(estimated)" in answer.out
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--backup", "b.sqlite"), Exit.USAGE),
        (("--backup", ""), Exit.USAGE),
        (("--backup", "/b.sqlite", "--backup-kind", "some"), Exit.USAGE),
        (("--backup", "/dev/null"), Exit.USAGE),
    ],
)
def test_a_wrong_backup_is_said_before_anything(store: Path, words: tuple[str, ...], code: Exit) -> None:
    """Wrong words about the backup change nothing."""
    with unchanged(store):
        assert run_cli("prune", store, *POLICY, "--apply", "--yes", *words).code == code


def test_an_unsafe_folder_is_refused_with_four(store: Path, folder: Path) -> None:
    """A folder that others can write to is refused, and the reason has a stable name."""
    folder.chmod(0o777)
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, "--apply", "--yes", "--backup", folder / "b", "--json")
    assert answer.code == Exit.REFUSED
    assert answer.json["error"]["reason"] == "backup-folder"


def test_restore_says_what_it_left_out(store: Path, folder: Path) -> None:
    """All trees but those that are back: exit 3. One that is back: exit 4. An unknown one: exit 1."""
    target = folder / "b.sqlite"
    run_cli("prune", store, *POLICY, "--apply", "--yes", "--backup", target)
    other = make_store(store, runs=1)  # everything else is gone, run-0 alone is there
    assert count(other) == 2
    run_cli("restore", other, target, "--offline")
    run_cli("prune", other, "--keep-for", "35d", "--apply", "--yes", "--no-backup")
    back = make_store(folder / "elsewhere.sqlite", runs=36)
    answer = run_cli("restore", back, target, "--offline", "--json")
    assert answer.code == Exit.DEFERRED
    assert sum(answer.json["refused"].values()) + answer.json["present"] == 7
    assert answer.json["units"] == 4
    missing = run_cli("restore", back, target, "never-was", "--json")
    assert (missing.code, missing.json["error"]["kind"]) == (Exit.ERROR, "not-found")


def test_a_removal_that_is_no_backup_is_refused(store: Path, folder: Path) -> None:
    """A whole backup cannot be restored tree by tree, and the message says what it is for."""
    target = folder / "b.sqlite"
    run_cli("prune", store, *POLICY, "--apply", "--yes", "--backup", target, "--backup-kind", "whole")
    with unchanged(store):
        answer = run_cli("restore", store, target, "--json")
    assert (answer.code, answer.json["error"]["reason"]) == (Exit.REFUSED, "no-backup")
    assert "whole" in answer.err


def test_ctrl_c_takes_the_unfinished_backup_away(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted while the backup is made: nothing was removed, no file stays, exit 130."""

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("afterrun.stores.sql.sqlite.removed_backup.RemovedBackup._index", interrupted)
    with unchanged(store):
        answer = run_cli(
            "prune", store, *POLICY, "--apply", "--yes", "--backup", folder / "b", stdin=io.StringIO()
        )
    assert answer.code == Exit.INTERRUPTED
    assert list(folder.iterdir()) == []
