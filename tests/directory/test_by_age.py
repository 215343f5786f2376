"""Folders of which only age tells that their run has ended: wandb, hydra, and a user's own layout."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError
from afterrun.core.judge import judge
from afterrun.core.plan import make_plan
from afterrun.profiles.directory import DirectoryProfile
from afterrun.profiles.directory_loader import (
    detect_directory,
    directory_names,
    load_directory,
    load_directory_file,
)
from afterrun.stores.directory.site import Root
from afterrun.stores.directory.store import DirectoryStore
from directory.pi_tree import DAY, MONTH, Pass, PiTree, opened

OLD = time.time() - 40 * DAY


def age(folder: Path, when: float = OLD) -> None:
    """Set the times of everything in a folder."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        os.utime(path, (when, when), follow_symlinks=False)


def offline_run(root: Path, name: str, *, synced: bool) -> Path:
    """Make a run as wandb leaves it offline."""
    folder = root / name
    (folder / "files").mkdir(parents=True)
    (folder / "run-abc.wandb").write_bytes(b"log")
    (folder / "files" / "output.log").write_text("x")
    if synced:
        (folder / "run-abc.wandb.synced").write_text("")
    age(folder)
    return folder


def reasons(store: DirectoryStore) -> dict[str, set[str]]:
    """Return verdict and reasons of all units of a store."""
    plan = make_plan(store.runs, MONTH, now=store.runs.now())
    found = {}
    for key in store.runs.index.order:
        judged = judge(store.runs.find(str(key)), plan.rules)
        found[str(key)] = {judged.verdict.value, *(reason.name for reason in judged.reasons)}
    return found


def test_an_offline_run_of_wandb_stays_until_it_is_delivered(tmp_path: Path) -> None:
    """The folder is the only copy until the synced mark is there, however old it is."""
    offline_run(tmp_path, "offline-run-20260101_000000-a", synced=True)
    offline_run(tmp_path, "offline-run-20260101_000000-b", synced=False)
    (tmp_path / "run-20260101_000000-c").mkdir()
    (tmp_path / "latest-run").symlink_to("offline-run-20260101_000000-b")
    with opened(tmp_path, "wandb") as store:
        assert reasons(store) == {
            "offline-run-20260101_000000-a": {"expired"},
            "offline-run-20260101_000000-b": {"protected", "undelivered"},
        }
        assert any("results that somebody wants" in notice for notice in store.schema().notices)
        assert [report.units.removed for report in Pass(tmp_path).over(store)] == [1]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"offline-run-20260101_000000-b", "run-20260101_000000-c", "latest-run", ".afterrun"}


def hydra_run(root: Path, path: str) -> Path:
    """Make a run of Hydra."""
    folder = root / path
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text("a: 1")
    (folder / "app.log").write_text("x")
    age(folder)
    return folder


def test_runs_of_hydra_are_told_by_their_age_alone(tmp_path: Path) -> None:
    """A day and a time make a run; one file that is newer keeps all of it; a sweep is one unit."""
    hydra_run(tmp_path, "outputs/2026-01-01/10-00-00")
    fresh = hydra_run(tmp_path, "outputs/2026-01-01/11-00-00")
    os.utime(fresh / "app.log", (time.time() - DAY,) * 2)
    sweep = tmp_path / "multirun/2026-01-01/12-00-00"
    hydra_run(tmp_path, "multirun/2026-01-01/12-00-00/0")
    hydra_run(tmp_path, "multirun/2026-01-01/12-00-00/1")
    (sweep / "multirun.yaml").write_text("a: 1")
    age(sweep)
    (tmp_path / "outputs/2026-01-01/13-00-00").mkdir()
    age(tmp_path / "outputs/2026-01-01/13-00-00")
    (tmp_path / "outputs/notes").mkdir()
    with opened(tmp_path, "hydra") as store:
        assert reasons(store) == {
            "outputs/2026-01-01/10-00-00": {"expired"},
            "outputs/2026-01-01/11-00-00": {"recent", "keep-for"},
            "outputs/2026-01-01/13-00-00": {"blocked", "unrecognised"},
            "multirun/2026-01-01/12-00-00": {"expired"},
        }
        assert [report.units.removed for report in Pass(tmp_path).over(store)] == [2]
    assert (tmp_path / "outputs/notes").is_dir()
    assert not sweep.exists()


def test_an_old_run_that_somebody_uses_stays(tmp_path: Path) -> None:
    """An open file, a working folder, a lock or a living process each hold a run that has no status."""
    runs = {name: hydra_run(tmp_path, f"outputs/2026-01-01/10-00-0{i}") for i, name in enumerate("abcde")}
    (runs["d"] / "x.pid").write_text(f"{os.getppid()}\n")
    (runs["e"] / "x.pid").write_text(str(2**22 + 1))
    for name in "de":
        age(runs[name])
        os.utime(runs[name] / "x.pid", (time.time() - 31 * DAY,) * 2)
    program = (
        "import os, sys; f = open(sys.argv[1]); os.chdir(sys.argv[2]); print('open', flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(runs["a"] / "app.log"), str(runs["b"])]
    lock = os.open(runs["c"], os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "open\n"
        with opened(tmp_path, "hydra") as store:
            found = {key[-1]: names for key, names in reasons(store).items()}
        user.communicate("\n")
    os.close(lock)
    assert found == {
        "0": {"protected", "open-file"},
        "1": {"protected", "open-file"},
        "2": {"protected", "locked"},
        "3": {"expired"},  # the process began after the file was written, so it has only the same id
        "4": {"expired"},
    }


CUSTOM = """
name = "mine"
engine = "My own"

[detect]
entries = ["runs"]

[units.directory]
runs = ["runs/*"]
protect = [
  { kind = "equals", reason = "kept", field = "keep", words = ["yes"] },
  { kind = "marker", reason = "pinned-by-file", path = "pins/{id}" },
]

[units.directory.status]
file = "state.json"
state = "phase.word"
end = [{ field = "phase.at", format = "text_utc" }]
terminal = ["done", "broken"]
successful = ["done"]
live = ["going"]
group = ["task"]
parent = ["parent"]
missing = "root"
"""


def custom(tmp_path: Path, text: str = CUSTOM) -> DirectoryProfile:
    """Read a profile of a user's own."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return load_directory_file(file)


def test_a_users_own_layout_is_described_in_a_file(tmp_path: Path) -> None:
    """Fields, states, times, trees and references of folders that no profile of ours knows."""
    profile = custom(tmp_path)
    root = tmp_path / "store"
    states: dict[str, dict[str, object]] = {
        "old": {},
        "kept": {"keep": "yes"},
        "pinned": {},
        "live": {"phase": {"word": "going"}},
        "parent": {},
        "child": {"parent": "parent", "phase": {"word": "going"}},
        "lost": {"parent": "gone"},
    }
    for name, extra in states.items():
        folder = root / "runs" / name
        folder.mkdir(parents=True)
        state: dict[str, object] = {"phase": {"word": "done", "at": "2026-01-01T00:00:00Z"}, "task": "t"}
        state |= extra
        (folder / "state.json").write_text(json.dumps(state))
        age(folder)
    (root / "pins").mkdir()
    (root / "pins" / "pinned").touch()
    store = DirectoryStore(Root(str(root)), profile)
    assert reasons(store) == {
        "old": {"expired"},
        "kept": {"protected", "kept"},
        "pinned": {"protected", "pinned-by-file"},
        "live": {"protected", "live-member"},
        "parent": {"protected", "live-member"},
        "lost": {"expired"},
    }
    store.close()


def test_without_a_status_removal_is_refused_unless_age_is_said_to_tell(tmp_path: Path) -> None:
    """A plan works, so that one can look; removal needs the word in the profile."""
    text = 'name = "mine"\nengine = "x"\n[detect]\nentries = ["runs"]\n[units.directory]\nruns = ["runs/*"]\n'
    root = tmp_path / "store"
    (root / "runs" / "a").mkdir(parents=True)
    store = DirectoryStore(Root(str(root)), custom(tmp_path, text))
    assert any('ended = "by-age"' in problem for problem in store.schema().problems)
    store.close()
    store = DirectoryStore(Root(str(root)), custom(tmp_path, text + 'ended = "by-age"\n'))
    assert store.schema().problems == ()
    store.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (('runs = ["runs/*"]', 'runs = ["../x/*"]'), "no '..'"),
        (('runs = ["runs/*"]', 'runs = ["/runs/*"]'), "no empty part"),
        (('runs = ["runs/*"]', 'runs = ["runs/**"]'), "no '**'"),
        (('runs = ["runs/*"]', 'runs = ["runs"]'), "the last part of runs is a pattern"),
        (('"pins/{id}"', '"pins/all"'), "write {id} once"),
        (('live = ["going"]', 'live = ["done"]'), "live and as terminal"),
        (('successful = ["done"]', 'successful = ["going"]'), "not terminal"),
        (('file = "state.json"', 'file = "../state.json"'), "own folder"),
        (("terminal =", "terminals ="), "did you mean 'terminal'"),
        (('format = "text_utc"', 'format = "guess"'), "text_utc"),
        (('kind = "marker"', 'kind = "oracle"'), "oracle"),
    ],
)
def test_a_faulty_profile_is_refused_with_its_place(
    change: tuple[str, str], problem: str, tmp_path: Path
) -> None:
    """Strict as those of databases: every fault with its path, before anything is opened."""
    with pytest.raises(ProfileError) as caught:
        custom(tmp_path, CUSTOM.replace(*change))
    assert problem in str(caught.value)


def test_by_age_goes_with_no_status(tmp_path: Path) -> None:
    """A folder with a status ends by its state."""
    text = CUSTOM.replace("[units.directory]\n", '[units.directory]\nended = "by-age"\n')
    with pytest.raises(ProfileError, match="without a status file"):
        custom(tmp_path, text)


def test_what_is_in_a_directory_tells_its_profile(tree: PiTree, tmp_path: Path) -> None:
    """Each built-in profile is the only one that fits its own store; others are refused with a sentence."""
    known = [load_directory(name) for name in directory_names()]
    assert [profile.name for profile in known] == ["hydra", "pi-subagents", "wandb"]
    wandb, hydra, none = tmp_path / "w", tmp_path / "h", tmp_path / "n"
    offline_run(wandb, "offline-run-20260101_000000-a", synced=True)
    hydra_run(hydra, "outputs/2026-01-01/10-00-00")
    none.mkdir()
    for folder, name in ((tree.root, "pi-subagents"), (wandb, "wandb"), (hydra, "hydra")):
        root = Root(str(folder))
        assert detect_directory(root.has, known).name == name
        root.close()
    root = Root(str(none))
    with pytest.raises(ProfileError, match="--profile FILE"):
        detect_directory(root.has, known)
    root.close()
