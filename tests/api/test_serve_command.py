"""`afterrun serve` by processes: a client and a command line beside it, its end, and the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.runs import RunStatus, RunStore
from afterrun.server.errors import ServerUnreachable
from afterrun.server.places import ServerFolder
from api.serve_kit import PATIENCE, Serving
from api.waiting import eventually
from runs.runs_kit import KEYS, ManualClock


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Give a server whose store has two runs that ended long ago, and which makes backups."""
    folder = tmp_path_factory.mktemp("serving")
    (folder / "backups").mkdir()
    settings = '[policy]\nkeep_for = "forever"\n[server]\nbackups = "backups"\nlisten = "unix"\n'
    (folder / "afterrun.toml").write_text(settings)
    with RunStore.open(str(folder / "runs.sqlite"), clock=ManualClock(), sealing=KEYS) as store:
        for _ in range(2):
            run = store.create("old").run.id
            store.start(run)
            store.finish(run)
    with Serving(folder, ("--config", "afterrun.toml", "--listen", "127.0.0.1:0")) as started:
        yield started


def test_a_client_starts_a_run_and_has_its_result(serving: Serving) -> None:
    """The value comes back exactly, and the store's file is closed to nobody meanwhile."""
    with serving.client() as client:
        run = client.start("greet", "you", idempotency_key="once")
        assert client.wait(run.id, seconds=PATIENCE) == "HELLO, YOU"
        assert client.start("greet", "you", idempotency_key="once").id == run.id
        assert [step.name for step in client.steps(run.id)] == ["find words", "shout"]
        assert client.state().counts["finished"] >= 1


def test_the_command_line_speaks_to_the_server(serving: Serving) -> None:
    """A run is started, asked, answered and ended by commands alone."""
    started = serving.json("run", "start", "publish", "--input", f'"{serving.folder}"')
    assert (started["served"], started["new"]) == (True, True)
    run = started["run"]["id"]
    view = eventually(lambda: (found := serving.json("run", "show", run))["questions"] and found)
    assert (view["questions"][0]["subject"], view["progress"]) == ("publish it?", '{"drafted":true}')
    assert "yes, no" in serving.run("run", "show", run)
    assert run in serving.run("run", "list", "--status", "waiting")
    answered = serving.json("run", "decide", run, "yes", "--by", "somebody")
    assert answered["answer"] == "yes"
    assert serving.run("run", "result", run, "--wait", "60") == '"published yes"\n'
    assert "publish" in serving.run("run", "steps", run)
    assert run in serving.run("run", "tree", run)
    assert (serving.folder / "log").read_text().splitlines() == ["drafted", "published yes"]


def test_a_message_is_heard_and_a_run_cancelled(serving: Serving) -> None:
    """What a person says reaches the run, and what was cancelled has no result."""
    heard, silent = (serving.json("run", "start", "listen")["run"]["id"] for _ in range(2))
    (serving.folder / "message.json").write_text('{"a": [1, 2]}')
    serving.run("run", "message", heard, "--input-file", "message.json")
    assert serving.run("run", "result", heard, "--wait", "60") == '{"a":[1,2]}\n'
    assert serving.json("run", "cancel", silent, "--reason", "enough")["cancelled"] == 1
    assert "cancelled" in serving.run("run", "result", silent, "--wait", "60", code=4)
    assert "cannot go on" in serving.run("run", "resume", silent, code=4)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "show", "01890a5d-ac96-774b-bcce-b302099a8057"), 4, "there is no such run"),
        (("run", "show", "../../health"), 4, "there is no such run"),
        (("run", "show"), 2, "Missing argument 'RUN'"),
        (("run", "start", "greet", "--input", "{"), 2, "no JSON"),
        (("run", "start", ""), 2, "workflow"),
        (("run", "list", "--after", "x"), 2, "after"),
        (("run", "lst"), 2, "did you mean 'list'"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(
    serving: Serving, words: tuple[str, ...], code: int, said: str
) -> None:
    """The words are those of an open store."""
    assert said in serving.run(*words, code=code)


def test_retention_goes_through_the_server(serving: Serving) -> None:
    """Plans and removals have the same words, and a backup is in the server's folder."""
    old = ("--keep-for", "30d")
    plan = serving.json("plan", *old)
    assert (plan["units"]["tree"]["expired"], plan["dry_run"]) == (2, True)
    assert "other_ages" not in plan  # which only the store itself is asked
    assert "would go" in serving.run("plan", *old)
    outside = serving.folder / "outside.sqlite"
    refused = serving.run("prune", *old, "--apply", "--yes", "--backup", str(outside), code=5)
    assert str(serving.folder / "backups") in refused
    inside = serving.folder / "backups" / "before.sqlite"
    done = serving.json("prune", *old, "--apply", "--yes", "--backup", str(inside), "--limit", "1")
    assert (done["units"]["tree"]["removed"], done["backup"]["path"]) == (1, "before.sqlite")
    assert inside.exists()
    again = serving.json("prune", *old, "--apply", "--yes", "--no-backup")
    assert again["units"]["tree"]["removed"] == 1
    assert "given back" in serving.run("reclaim", "--apply")
    assert serving.json("sweep", *old)["ended"] == "completed"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--keep-for", "30d", "--show-sql"),
        ("plan", "--keep-for", "30d", "--profile", "native"),
        ("prune", "--keep-for", "30d", "--offline"),
        ("sweep", "--keep-for", "30d", "--secure-delete"),
        ("reclaim", "--profile", "native"),
    ],
)
def test_an_option_that_no_server_is_told_is_refused(serving: Serving, words: tuple[str, ...]) -> None:
    """The sentence says which, and what to do."""
    said = serving.run(*words, code=5)
    assert "a server holds this store" in said
    assert next(word for word in words if word.startswith("--") and word != "--keep-for") in said


def test_a_second_server_of_the_store_is_refused(serving: Serving) -> None:
    """It says so at once, and the first one goes on."""
    said = serving.run("serve", str(serving.store), "--app", "flows.py:app", code=5)
    assert "another server of this machine holds this store" in said
    test_a_client_starts_a_run_and_has_its_result(serving)


def test_the_state_tells_of_nothing_single(serving: Serving) -> None:
    """Counts and moments, by the command line as well."""
    told = serving.run("run", "state", "--json")
    assert serving.json("run", "state")["ready"] is True
    for private in (str(serving.folder), "greet", "publish", "once", "token"):
        assert private not in told


def test_logs_name_no_run_and_no_path(serving: Serving) -> None:
    """What was done before left nothing in the log but events."""
    log = "".join(serving.log)
    assert "server-ready" in log
    for private in (str(serving.folder), "greet", "you", "published"):
        assert private not in log


def test_sigterm_ends_a_server_and_sigkill_loses_nothing(tmp_path: Path) -> None:
    """What waits is there for the next server, whatever the end of the one before."""
    serving = Serving(tmp_path, ("--runners", "1"))
    (tmp_path / "afterrun.toml").write_text('[server]\nlease = "1s"\n')
    serving.words = (*serving.words, "--config", "afterrun.toml")
    with serving:
        run = serving.json("run", "start", "publish", "--input", f'"{tmp_path}"')["run"]["id"]
        eventually(lambda: serving.json("run", "show", run)["questions"])
        serving.kill()
    assert ServerFolder(str(serving.store), state=serving.state).find() is None
    with pytest.raises(ServerUnreachable):
        serving.client()
    assert serving.json("run", "decide", run, "yes", "--by", "somebody")["answer"] == "yes"
    with serving:
        assert serving.run("run", "result", run, "--wait", "60") == '"published yes"\n'
        assert serving.stop() == 0
    assert "server-ended" in "".join(serving.log)
    with RunStore.open(str(serving.store), sealing=KEYS) as store:
        assert store.get(run).status is RunStatus.COMPLETED
    assert (tmp_path / "log").read_text().splitlines()[-1] == "published yes"


def test_without_a_server_a_run_waits_for_one(tmp_path: Path) -> None:
    """Commands open the store themselves; it is made by a server, and by nobody else."""
    serving = Serving(tmp_path, ("--listen", "127.0.0.1:0"))
    assert not serving.store.exists()
    assert "`afterrun serve` makes" in serving.run("run", "list", code=4)
    assert not serving.store.exists()
    RunStore.open(str(serving.store), sealing=KEYS).close()
    started = serving.json("run", "start", "greet", "--input", '"you"')
    assert started["served"] is False
    run = started["run"]["id"]
    assert serving.run("run", "result", run, "--wait", "0", code=3)
    assert "no server" in serving.run("run", "state", code=4)
    with serving:
        assert serving.run("run", "result", run, "--wait", "60") == '"HELLO, YOU"\n'
