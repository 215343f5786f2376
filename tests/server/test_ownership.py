from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun.core.errors import UsageError
from afterrun.runs import RunStatus, RunStore, StaleEpoch
from afterrun.runs.calls import Call
from afterrun.runs.errors import StoreServed
from afterrun.runs.keys import VARIABLE
from server.server_kit import APP, Hosted, Server, ended, eventually, lines, output, start

SECOND = timedelta(seconds=1)


def test_a_store_has_one_server(location: str, store: RunStore, tmp_path: Path) -> None:
    """The second one waits for the lease of the first, and then leaves."""
    with Hosted(location, tmp_path) as first:
        second = Hosted(location, tmp_path, patience=timedelta(0))
        second._thread.start()
        second._thread.join()
        assert isinstance(second.failure, StoreServed)
        assert first.engine.ready
    with Hosted(location, tmp_path) as third:
        assert third.engine.ready


def test_a_server_that_lost_the_store_stops_and_writes_nothing_more(
    location: str, store: RunStore, tmp_path: Path
) -> None:
    """Another server took it over, as after a pause longer than the lease; its epochs are refused."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path, lease=SECOND) as server:
        eventually(lambda: "second" in lines(tmp_path))
        epoch = server.engine._dispatch.sessions[run].epoch
        lease = server.engine._lease
        assert lease is not None
        store.serving.release(lease)
        store.serving.acquire(owner="another", keep_for=timedelta(hours=1))
        store.claims.abandoned(prefix="workflow server ")
        server._thread.join()
    assert store.get(run).status is RunStatus.QUEUED
    with pytest.raises(StaleEpoch):
        store.calls.record(Call(run=run, epoch=epoch, number=2, name="second"), output=b"late")
    assert [entry.name for entry in store.history.page(run)] == ["first"]


def test_a_lost_lease_is_a_hand_off_and_no_failure(location: str, store: RunStore, tmp_path: Path) -> None:
    """Somebody else took the run: what the first owner does is dropped, and the run goes on where it was."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path) as server:
        eventually(lambda: "second" in lines(tmp_path))
        epoch = server.engine._dispatch.sessions[run].epoch
        store.claims.hand_off(run, epoch=epoch)
        server.engine.nudge()
        eventually(lambda: lines(tmp_path).count("second") == 2)
        (tmp_path / "open-second").touch()
        assert output(store, run) == ["first", "second", "third"]
        assert lines(tmp_path).count("third") == 1


def test_a_cancelled_tree_stops(location: str, store: RunStore, tmp_path: Path) -> None:
    """The runner is told, nothing more of the run happens, and there is room for others."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path, slots=1) as server:
        eventually(lambda: "second" in lines(tmp_path))
        store.cancel_tree(run, reason="no longer wanted")
        server.engine.nudge()
        assert output(store, start(store, "add_up", [1, 2])) == 3
        (tmp_path / "open-second").touch()
    assert store.get(run).status is RunStatus.CANCELLED
    assert "third" not in lines(tmp_path)


def test_a_server_that_is_told_to_stop_lets_steps_end(location: str, store: RunStore, tmp_path: Path) -> None:
    """What runs is recorded, the run is queued for the next server, and nothing is done twice."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path) as server:
        eventually(lambda: "second" in lines(tmp_path))
        server.engine.stop()
        eventually(lambda: not server.engine.ready)
        (tmp_path / "open-second").touch()
        server.stop()
    assert store.get(run).status is RunStatus.QUEUED
    assert [entry.name for entry in store.history.page(run)] == ["first", "second"]
    with Hosted(location, tmp_path):
        assert output(store, run) == ["first", "second", "third"]
    assert lines(tmp_path) == ["first", "second", "third"]


def test_a_step_that_outlasts_the_grace_is_done_again(location: str, store: RunStore, tmp_path: Path) -> None:
    """The server does not wait for ever."""
    run = start(store, "three_steps", str(tmp_path))
    with Hosted(location, tmp_path, grace=timedelta(milliseconds=50)) as server:
        eventually(lambda: "second" in lines(tmp_path))
        server.stop()
    assert store.get(run).status is RunStatus.QUEUED
    (tmp_path / "open-second").touch()
    with Hosted(location, tmp_path):
        assert output(store, run) == ["first", "second", "third"]
    assert lines(tmp_path).count("second") == 2


def test_a_runner_that_ends_again_and_again_fails_the_run(
    location: str, store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends its runner each time would do so for ever."""
    monkeypatch.setattr("afterrun.server.dispatch.CRASHES", 2)
    run = start(store, "poison")
    with Hosted(location, tmp_path) as server:
        assert ended(store, run).status is RunStatus.FAILED
        assert output(store, start(store, "add_up", [1])) == 1
        assert server.engine.status().counts["runner_exits"] == 2
    assert "ended 2 times" in (store.get(run).reason or "")


def test_runners_know_neither_store_nor_key(location: str, tmp_path: Path) -> None:
    """Not by a variable, not by an argument, not by a descriptor."""
    variables = {"PGPASSWORD": "a secret", "MY_STORE": f"at {location}"}
    with Server(location, tmp_path, variables=variables) as server:
        [runner] = eventually(lambda: server.runners)
        inherited = runner.environ()
        assert inherited.keys().isdisjoint({VARIABLE, *variables})
        assert os.environ[VARIABLE] not in inherited.values()
        assert location not in " ".join([*runner.cmdline(), *inherited.values()])
        links = {descriptor: _target(runner.pid, descriptor) for descriptor in _descriptors(runner.pid)}
    assert links[0] == "/dev/null"
    assert links[1] == links[2]
    assert links[1].startswith(("pipe:", "socket:"))
    own = [link for number, link in links.items() if number > 2]
    assert sorted(link.split(":")[0] for link in own if "anon_inode" not in link) == ["socket"] * 3
    assert not any("sqlite" in link for link in own)


def test_an_app_that_cannot_be_loaded_is_said(location: str, store: RunStore, tmp_path: Path) -> None:
    """At the start, in a sentence, without a traceback."""
    server = Hosted(location, tmp_path, app=f"{APP}s")
    server._thread.start()
    server._thread.join()
    assert isinstance(server.failure, UsageError)
    assert "is no App" in str(server.failure)
    assert store.serving.held_until() is None


def _descriptors(pid: int) -> list[int]:
    return sorted(int(name.name) for name in Path(f"/proc/{pid}/fd").iterdir())


def _target(pid: int, descriptor: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())
    except FileNotFoundError:
        return "anon_inode: it was closed meanwhile"
