from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from afterrun.runs import RunStore
from afterrun.server.http.app import application
from afterrun.state.lock import SweepLock
from api.api_kit import Caller, QueueingHost
from runs.runs_kit import ManualClock

POLICY: Final = {"policy": {"keep_for": "30d"}}
NAMES: Final = [
    "..",
    "../outside",
    "/tmp/outside",  # noqa: S108 - it is refused
    "a/b",
    "a\\b",
    ".hidden",
    "",
    "a\0b",
    "a\nb",
    "%2e%2e%2fx",
    "x" * 101,
    "-rf",
    "~root",
    "ä",
    "file:x?mode=memory",
]


@pytest.fixture
def old(host: QueueingHost) -> list[str]:
    """Give the store three runs that ended months ago."""
    with RunStore.open(host.location, clock=ManualClock()) as past:
        runs = [past.create("old", content=b"1").run.id for _ in range(3)]
        for run in runs:
            past.start(run)
            past.finish(run)
    return runs


def left(host: QueueingHost) -> int:
    """Count the runs of the store."""
    return len(host.store.newest())


def test_a_plan_says_what_would_go(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """Its report is that of the command line; without a policy the server's own counts."""
    for body in (POLICY, {}):
        report = caller.post("/v1/plan", body).json()
        assert (report["units"]["tree"]["expired"], report["dry_run"]) == (len(old), True)
    younger = caller.post("/v1/plan", {"policy": {"keep_for": "9999d"}}).json()
    assert younger["units"]["tree"]["expired"] == 0
    assert left(host) == len(old)


def test_a_removal_needs_a_word_about_its_backup(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """Neither is refused, and both at once as well."""
    assert caller.post("/v1/prune", POLICY).status_code == 422
    both = {**POLICY, "no_backup": True, "backup": {"name": "a"}}
    assert caller.post("/v1/prune", both).status_code == 422
    assert left(host) == len(old)


def test_a_removal_without_a_backup(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """It removes what the plan counted, within its limit."""
    report = caller.post("/v1/prune", {**POLICY, "no_backup": True, "limit": 1}).json()
    assert report["units"]["tree"]["removed"] == 1
    report = caller.post("/v1/prune", {**POLICY, "no_backup": True}).json()
    assert report["units"]["tree"]["removed"] == len(old) - 1
    assert left(host) == 0


@pytest.mark.parametrize("kind", ["removed", "whole"])
def test_a_backup_is_a_new_file_in_the_folder(
    caller: Caller, host: QueueingHost, old: list[str], kind: str
) -> None:
    """It has the name that was asked for, and the answer tells no path."""
    assert host.backups is not None
    body = {**POLICY, "backup": {"name": "before.sqlite", "kind": kind}}
    answer = caller.post("/v1/prune", body)
    assert answer.json()["units"]["tree"]["removed"] == len(old)
    assert answer.json()["backup"]["path"] == "before.sqlite"
    assert [path.name for path in host.backups.iterdir()] == ["before.sqlite"]
    assert str(host.backups) not in answer.text


@pytest.mark.parametrize("name", NAMES)
def test_a_backup_has_a_plain_name(
    caller: Caller, host: QueueingHost, old: list[str], name: str, tmp_path: Path
) -> None:
    """No name leads out of the folder, hides in it, or means something to a shell."""
    before = {path for path in tmp_path.rglob("*") if path.suffix != ".sqlite-wal"}
    answer = caller.post("/v1/prune", {**POLICY, "backup": {"name": name}})
    assert answer.status_code == 422
    assert left(host) == len(old)
    assert {path for path in tmp_path.rglob("*") if path.suffix != ".sqlite-wal"} <= before


def test_a_backup_replaces_and_follows_nothing(
    caller: Caller, host: QueueingHost, old: list[str], tmp_path: Path
) -> None:
    """A file, a link to one, a link to nowhere and a folder of that name are refused alike."""
    assert host.backups is not None
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (host.backups / "file").write_text("mine")
    (host.backups / "link").symlink_to(outside)
    (host.backups / "nowhere").symlink_to(tmp_path / "made-by-backup")
    (host.backups / "folder").mkdir()
    for name in ("file", "link", "nowhere", "folder"):
        answer = caller.post("/v1/prune", {**POLICY, "backup": {"name": name}})
        assert (answer.status_code, answer.json()["reason"]) == (409, "backup-exists")
    assert (outside.read_text(), (host.backups / "file").read_text()) == ("mine", "mine")
    assert not (tmp_path / "made-by-backup").exists()
    assert left(host) == len(old)


def test_without_a_folder_there_is_no_backup(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """The settings say where backups go, and nobody else."""
    host.backups = None
    answer = caller.post("/v1/prune", {**POLICY, "backup": {"name": "a"}})
    assert (answer.status_code, answer.json()["reason"]) == (409, "backups")
    assert left(host) == len(old)


def test_a_backup_that_fails_tells_no_path(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """The folder that has gone is named by nobody."""
    assert host.backups is not None
    host.backups.rmdir()
    answer = caller.post("/v1/prune", {**POLICY, "backup": {"name": "a"}})
    assert answer.status_code in {409, 422, 503}
    assert str(host.backups.parent) not in answer.text
    assert left(host) == len(old)


def test_a_sweep_asks_and_is_approved(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """The guard holds over HTTP, too."""
    asked = caller.post("/v1/sweep").json()
    assert asked["ended"] == "guard"
    done = caller.post("/v1/sweep", {"approve": asked["fingerprint"]}).json()
    assert (done["ended"], done["units"]["tree"]["removed"]) == ("completed", len(old))


def test_space_is_looked_at_and_given_back(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """Without a word it is only looked at."""
    assert caller.post("/v1/reclaim").json()["ended"] == "planned"
    assert caller.post("/v1/reclaim", {"apply": True}).json()["ended"] in {"completed", "pinned", "skipped"}


def test_a_store_that_another_sweep_holds_says_so(caller: Caller, host: QueueingHost, old: list[str]) -> None:
    """The status is that of a lock, and the words are those of the command line."""
    with SweepLock(Path(host.location).resolve()):
        answer = caller.post("/v1/prune", {**POLICY, "no_backup": True})
    assert (answer.status_code, answer.json()["kind"]) == (423, "locked")
    assert left(host) == len(old)


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ({}, 409),
        ({"keep_for": "0"}, 422),
        ({"keep_for": "soon"}, 422),
        ({"keep_last": 0}, 422),
        ({"before": "2026-01-01"}, 422),
        ({"group_by": ["nothing"], "keep_last": 1}, 422),
        ({"store": "x"}, 422),
    ],
)
def test_a_policy_that_makes_no_sense_is_a_sentence(
    caller: Caller, host: QueueingHost, old: list[str], policy: dict[str, object], status: int
) -> None:
    """An empty policy is refused, as everywhere."""
    for path in ("/v1/plan", "/v1/prune", "/v1/sweep"):
        body = {"policy": policy, **({"no_backup": True} if path == "/v1/prune" else {})}
        assert caller.post(path, body).status_code == status
    assert left(host) == len(old)


def test_no_ask_names_a_store_a_profile_or_a_path(host: QueueingHost) -> None:
    """What can be asked has no such key, wherever one looks in the document."""
    schemas = application(host).openapi()["components"]["schemas"]
    asks = {name: schema for name, schema in schemas.items() if not name.endswith(("Answer", "Detail"))}
    keys = {key for schema in asks.values() for key in schema.get("properties", {})}
    assert {"policy", "backup", "approve"} <= keys
    assert not keys & {"store", "location", "url", "profile", "path", "datasources", "python", "folder"}
