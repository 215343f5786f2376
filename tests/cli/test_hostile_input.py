"""Words and files that were made to break the command line: an ending in words, at once, and no change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from afterrun.cli.text import masked
from afterrun.core.batch import MAX_REST
from afterrun.core.errors import Exit
from afterrun.service.options import SystemClock
from afterrun.state import StateDirectory

from .kit import Answer, change, run_cli, unchanged

POLICY = ("--keep-for", "30d")
APPLY = ("--apply", "--no-backup", "--yes")
REMOVALS = [("prune", *POLICY, *APPLY), ("sweep", *POLICY)]
HIDDEN = "s3cret"
pytestmark = pytest.mark.timeout(20)


def ended(answer: Answer, code: Exit, *parts: str) -> None:
    """Expect an ending in words."""
    assert answer.code == code
    assert "bug" not in answer.err
    for part in parts:
        assert part in answer.err


# Pipes, which nobody writes to: reading one would wait for ever


@pytest.mark.parametrize("option", ["--policy", "--plan", "--profile"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(store: Path, tmp_path: Path, option: str) -> None:
    """A policy, plan or profile that is a pipe is an error at once."""
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    with unchanged(store):
        answer = run_cli("prune", store, *POLICY, option, pipe)
    ended(answer, Exit.USAGE, "pipe.toml", "not a regular file")


@pytest.mark.parametrize("words", REMOVALS, ids=lambda words: words[0])
def test_a_state_file_that_is_a_pipe_keeps_nobody_waiting(store: Path, words: tuple[str, ...]) -> None:
    """It is an error at once, also while the sweep lock is held."""
    file = StateDirectory().file_of(f"sqlite:{store.resolve()}")
    file.parent.mkdir()
    os.mkfifo(file)
    with unchanged(store):
        ended(run_cli(*words, store), Exit.ERROR, file.name, "not a regular file")


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("words", [("plan", *POLICY), *REMOVALS], ids=lambda words: words[0])
def test_a_pipe_beside_a_store_keeps_nobody_waiting(store: Path, ending: str, words: tuple[str, ...]) -> None:
    """SQLite would open a pipe that has the name of its journal; the store is not opened at all."""
    os.mkfifo(f"{store}{ending}")
    with unchanged(store):
        ended(run_cli(*words, store), Exit.ERROR, f"{ending} is no regular file")


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_link_beside_a_store_is_not_followed(store: Path, tmp_path: Path, ending: str) -> None:
    """A journal that leads to another file would have that file emptied."""
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    Path(f"{store}{ending}").symlink_to(victim)
    with unchanged(store), unchanged(victim):
        ended(run_cli("prune", store, *POLICY, *APPLY), Exit.ERROR, "is no regular file")


# Numbers, times and ids beyond all bounds


@pytest.mark.parametrize("pause", ["1e30", "100.1", "inf"])
@pytest.mark.parametrize("command", ["prune", "sweep"])
def test_a_pause_that_would_hardly_end_is_a_mistake_of_use(store: Path, command: str, pause: str) -> None:
    """Promise 6: every sweep is bounded, so --pause is, too."""
    with unchanged(store):
        ended(run_cli(command, store, *POLICY, "--pause", pause), Exit.USAGE, "at most 100")


def test_the_longest_pause_is_taken(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times the lock is slow, but a pause."""
    pauses: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda _self, seconds: pauses.append(seconds))
    done = run_cli("prune", store, "--keep-for", "40d", *APPLY, "--pause", "100", "--json")
    assert done.code == Exit.DONE
    longest = float(done.json["seconds"]["longest_batch"])
    assert max(pauses) == pytest.approx(min(100 * longest, MAX_REST), rel=0.01)


@pytest.mark.parametrize("number", ["9" * 25, "9" * 5_000, "1" + "0" * 9 + "1"])
def test_a_count_beyond_all_bounds_is_a_mistake_of_use(store: Path, number: str) -> None:
    """No database has to find out that it is too large."""
    with unchanged(store):
        ended(run_cli("plan", store, "--keep-last", number), Exit.USAGE)


@pytest.mark.parametrize(
    "rule",
    [
        "before = 0001-01-01T00:00:00+10:00",
        "before = 9999-12-31T23:59:59-10:00",
        "keep_last = 99999999999999999999",
    ],
)
def test_a_rule_of_a_file_beyond_all_bounds_is_a_mistake_of_use(
    store: Path, tmp_path: Path, rule: str
) -> None:
    """TOML has moments that no calendar holds in UTC, and numbers of any size."""
    file = tmp_path / "policy.toml"
    file.write_text(f"[policy]\n{rule}\n")
    with unchanged(store):
        ended(run_cli("plan", store, "--policy", file), Exit.USAGE)


@pytest.mark.parametrize(
    "run", ["9" * 5_000, "-" + "9" * 5_000, "--5", "-", "-5", "", "9" * 19, "\u0665", "a\0b", "\udcff"]
)
def test_an_id_that_no_run_can_have_is_not_found(store: Path, run: str) -> None:
    """An id may look like an option or a number of any length."""
    with unchanged(store):
        answer = run_cli("explain", *POLICY, "--json", "--", store, run)
    ended(answer, Exit.ERROR, "has the id")
    assert len(answer.err) < 500


def test_a_path_with_a_nul_in_it_is_a_mistake_of_use() -> None:
    """A URL can spell what no file name holds."""
    ended(run_cli("plan", "sqlite:///a%00b", *POLICY), Exit.USAGE, "NUL")


# What is repeated


def test_a_status_of_any_length_is_cut_in_a_message(store: Path) -> None:
    """Promise 12: a payload in the place of a status is not repeated beyond a word's length."""
    change(
        store,
        "UPDATE workflow_status SET status = 'W' || hex(zeroblob(1500000)) WHERE workflow_uuid = 'run-3'",
    )
    answer = run_cli("prune", store, *POLICY, *APPLY, "--json")
    ended(answer, Exit.REFUSED, "W" + "0" * 39 + " (1)")
    assert "0" * 40 not in answer.out + answer.err
    assert len(answer.out) < 1_000


LONG = "x" * 60
URLS = [
    f"postgres://u:p@{HIDDEN}@host/db",
    f"postgres://u:p@@{HIDDEN}@@host/db",
    f"postgresql+psycopg://u@corp:p@{HIDDEN}@host:5432/db?a=b",
    f"postgres://u:p'{HIDDEN}@host/db",
    f"postgres://u:{HIDDEN}{LONG}@host/db",
    f"mysql://u:a/{HIDDEN}:b@host/db",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "words",
    [
        ("{url}",),
        ("plan", "{url}", *POLICY),
        ("plan", "{store}", "{url}", *POLICY),
        ("plan", "{store}", "--keep-for", "{url}"),
        ("plan", "{store}", "--before", "{url}"),
        ("plan", "{store}", "--keep-last", "{url}"),
        ("plan", "{store}", *POLICY, "--group-by", "{url}"),
        ("plan", "{store}", *POLICY, "--profile", "{url}"),
        ("plan", "{store}", "--policy", "{url}"),
        ("prune", "{store}", *POLICY, "--pause", "{url}"),
        ("prune", "{store}", *POLICY, "--limit", "{url}"),
        ("plan", "{store}", "--{url}"),
        ("explain", "{store}", "{url}", *POLICY),
    ],
    ids=" ".join,
)
def test_a_password_is_masked_wherever_a_word_is_repeated(
    store: Path, words: tuple[str, ...], url: str
) -> None:
    """Whatever characters a password has, and wherever its URL was put by mistake, it is not shown."""
    given = [word.format(url=url, store=store) for word in words]
    for form in ((), ("--json",)):
        answer = run_cli(*given, *form)
        assert answer.code in {Exit.USAGE, Exit.ERROR}
        assert HIDDEN not in answer.out + answer.err
        assert "bug" not in answer.err


@pytest.mark.parametrize("text", ["http://host:8080/path", "me@host", "sqlite:////srv/a:b.sqlite", "a: b@c"])
def test_what_holds_no_password_is_shown_whole(text: str) -> None:
    """Masking leaves ports, paths and addresses alone."""
    assert masked(text) == text
