"""Show on a real engine what afterrun does. Everything printed is real; a surprise ends it with an error."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from ageing import age, finished_runs
from copies import copy_run
from environments import engine_python, run_engine

ENGINE = "3.4.0"
STORE = "demo.sqlite"
POLICY = ("--keep-for", "30d")

AGED_DAYS = 45.0
YOUNG = frozenset(
    {
        *("simple-4", "simple-5", "failed-2", "retried-1", "queued-3", "cancelled-2", "mailbox-1"),
        *("forgiving-parent", "forgiving-parent-child", "fork-base", "fork-copy", "ended-parent"),
    }
)
"""Finished runs that stay as young as they are; all others are moved into the past."""
NEEDED = frozenset({"waiting-parent-child", "waiting-parent-grandchild", "watched", "watched-child"})
"""Finished runs that are old enough to go and that live runs still need."""

COPIED = "simple-1"
COPIES = 4_000
COPY_SPREAD_MS = 600_000


def main() -> None:
    """Make a store, let it grow old, prune it, and let the engine go on with it."""
    say(f"Make an environment with dbos {ENGINE} (kept in .engines, so only the first time takes long)")
    engine_python(ENGINE)
    with tempfile.TemporaryDirectory(prefix="afterrun-demo-") as name:
        show(Path(name), Path(name) / STORE)
    say("Done: all that was expired is gone, all that was needed is there, and the engine works.")


def show(folder: Path, store: Path) -> None:
    """Tell the whole story in one folder."""
    live = make_old_store(store)
    before = pages(store)
    expired = expired_runs(store)

    say("What would go, what stays and why. This deletes nothing.")
    afterrun(folder, "plan", STORE, *POLICY)
    assert expired == expired_runs(store)

    say("Why does a finished, old run stay? Its parent still waits for its result.")
    afterrun(folder, "explain", STORE, "waiting-parent-child", *POLICY)
    say("And one that goes.")
    afterrun(folder, "explain", STORE, "tree-parent", *POLICY)

    say("Now for good.")
    afterrun(folder, "prune", STORE, *POLICY, "--apply", "--no-backup", "--yes")
    afterrun(folder, "verify", STORE)
    kept = set(statuses(store))
    assert not kept & expired
    assert kept == live | YOUNG | NEEDED

    say("Start DBOS again: it recovers what was waiting, and runs new work.")
    recover(store)
    report_size(store, before)


def make_old_store(store: Path) -> set[str]:
    """Run real workflows, age part of them and multiply one; return the ids of runs that are not finished."""
    say("Run real workflows: simple, failing, retried, cancelled, queued, parents with children, ...")
    run_engine(ENGINE, "populate", store)
    told = Counter(statuses(store).values())
    show_line(", ".join(f"{count} {status}" for status, count in told.most_common()))
    finished = set(finished_runs(store))
    live = set(statuses(store)) - finished
    old = finished - YOUNG
    assert old > NEEDED
    age(store, old, AGED_DAYS)
    show_line(f"{len(old)} of the {len(finished)} finished ones now look {AGED_DAYS:.0f} days old")
    copy_run(store, COPIED, COPIES, spread_ms=COPY_SPREAD_MS)
    show_line(f"and {COPIED} was copied {COPIES:,} times, so that there is something to see")
    size, free = pages(store)
    show_line(f"{STORE}: {size:,} bytes, {free:,} of them free")
    return live


def expired_runs(store: Path) -> set[str]:
    """Return what must go by the way the store was made, whatever afterrun says."""
    return set(finished_runs(store)) - YOUNG - NEEDED


def recover(store: Path) -> None:
    """Restart the engine and insist that everything that waited comes to its end."""
    answer: dict[str, Any] = run_engine(ENGINE, "recover", store)
    for run, status in sorted(answer["statuses"].items()):
        show_line(f"{run:20} {status:10} {answer['results'].get(run, '')}")
    assert not answer["stuck"], f"still waiting: {answer['stuck']}"
    assert set(answer["statuses"].values()) == {"SUCCESS"}
    assert answer["results"]["waiting-parent"] == "a message: worked on [worked on []]"
    assert answer["new"] == "SUCCESS"
    assert answer["queue"]["delayed-1"] == "DELAYED", "it is due in a year"
    show_line(f"{'a new run':20} {answer['new']}")
    again = run_engine(ENGINE, "rerun", store, COPIED)
    assert again["executed"], "something of the removed run is left"
    show_line(f"{COPIED:20} was removed; submitted again, it runs its body again")


def report_size(store: Path, before: tuple[int, int]) -> None:
    """Say what became of the file: it keeps its size, and new work uses what is free in it."""
    size, free = pages(store)
    say("The file. A SQLite database does not shrink by itself; its free pages are used again.")
    show_line(f"before: {before[0]:>12,} bytes, {before[1]:>12,} of them free")
    show_line(f"after:  {size:>12,} bytes, {free:>12,} of them free ({free / size:.0%})")
    show_line("DBOS has already worked in the freed pages: the file did not grow")
    assert size == before[0] == store.stat().st_size
    assert free > size / 2


def afterrun(folder: Path, *arguments: str) -> None:
    """Run a command as a person would, seen and for real; any exit code but 0 ends the demo."""
    print(f"\n$ afterrun {' '.join(arguments)}", flush=True)
    command = [str(Path(sys.executable).with_name("afterrun")), *arguments]
    environment = os.environ | {"AFTERRUN_STATE_DIR": str(folder / "state")}
    code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    assert code == 0, f"it ended with exit code {code}"


def statuses(store: Path) -> dict[str, str]:
    """Return the status of every run, read past afterrun and past the engine."""
    with closing(sqlite3.connect(store)) as connection:
        return dict(connection.execute("SELECT workflow_uuid, status FROM workflow_status").fetchall())


def pages(store: Path) -> tuple[int, int]:
    """Return the bytes of the database and how many of them are free."""
    with closing(sqlite3.connect(store)) as connection:
        count, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return count * size, free * size


def say(text: str) -> None:
    """Print what comes next."""
    print(f"\n== {text}", flush=True)


def show_line(text: str) -> None:
    """Print what was found."""
    print(f"   {text}", flush=True)


if __name__ == "__main__":
    main()
