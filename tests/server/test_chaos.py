from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest

from afterrun.core.times import DAY
from afterrun.runs import RunNotFound, RunStatus, RunStore
from afterrun.runs.effect_rows import Effect
from afterrun.runs.words import EffectStatus
from afterrun.server.again import again
from server.server_kit import HERE, PATIENCE, POLL, Server, eventually, output, start

SOAK = os.environ.get("AFTERRUN_SOAK") == "1"
IN_FLIGHT = 12
PAUSE = 0.05
"""Seconds after a sign of progress within which a kill comes."""

KEPT = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many runs there are and how many kills; every fifth is one of the server."""

    runs: int
    kills: int


SCALES = {
    "sqlite": Scale(200, 200) if SOAK else Scale(20, 10),
    "postgresql": Scale(200, 200) if SOAK else Scale(10, 5),
}


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Path]:
    """Give the log of a process outside; its door is beside it."""
    log = tmp_path / "sink"
    process = subprocess.Popen(
        [sys.executable, str(HERE / "sink.py"), str(tmp_path / "door"), str(log)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield log
        process.kill()


class Chaos:
    """Keeps runs going while runners and the server are killed, and settles what is in doubt."""

    def __init__(self, server: Server, store: RunStore, sink: Path, chance: random.Random) -> None:
        """Take what is to be tormented."""
        self.runs: list[str] = []
        self.settled = self.kills = 0
        self._server, self._store, self._sink, self._chance = server, store, sink, chance

    def keep_going(self, total: int) -> None:
        """Start runs while few are live and there are more to start."""
        live = sum(self._store.get(run).ended_at is None for run in self.runs[-2 * IN_FLIGHT :])
        while live < IN_FLIGHT and len(self.runs) < total:
            given = {"number": len(self.runs), "sink": str(self._sink.with_name("door"))}
            self.runs.append(start(self._store, "errand", given))
            live += 1

    def settle(self) -> None:
        """Look outside for each effect in doubt, and say what became of it."""
        unsettled = self._store.effects.unsettled()
        self._ask_sink()
        told = self.told()
        for effect in unsettled:
            again(partial(self._settle, effect, applied=effect.key in told))
            self.settled += 1

    def _settle(self, effect: Effect, *, applied: bool) -> None:
        self._store.effects.settle(effect, applied=applied, by="a person", receipt=b'"taken"')

    def _ask_sink(self) -> None:
        """Wait until the sink has taken all that it was told before."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self._sink.with_name("door")))
            link.sendall(b"#\n")
            assert link.recv(100) == b"taken\n"

    def kill(self) -> None:
        """Kill a runner, or the server and with it all of them."""
        self.kills += 1
        if self.kills % 5 == 0:
            self._server.kill()
            self._server.start()
            return
        with suppress(psutil.NoSuchProcess, IndexError):
            self._chance.choice(self._server.runners).kill()

    def told(self) -> Counter[str]:
        """Return how often the sink was told each key."""
        return Counter(line.split()[0] for line in self._sink.read_text().splitlines())

    def await_progress(self) -> None:
        """Wait until something more happened outside, for a moment at most, and then for no fixed time."""
        before, until = self._sink.stat().st_size, time.monotonic() + 1
        while self._sink.stat().st_size == before and time.monotonic() < until:
            time.sleep(POLL)
        time.sleep(self._chance.uniform(0, PAUSE))


def _past(location: str, store: RunStore) -> tuple[list[str], list[str]]:
    """Make runs that ended long ago: some that may go, and some whose results nobody has taken."""
    moment = int(store.get(start(store, "nobody's")).created_at.timestamp() * 1_000_000) - 2 * DAY
    expired: list[str] = []
    protected: list[str] = []
    with RunStore.open(location, clock=lambda: moment) as past:
        for number in range(20):
            run = past.create("import", content=str(number).encode()).run.id
            past.start(run)
            past.finish(run, output=b"out", deliver_to="somebody" if number % 2 else None)
            (protected if number % 2 else expired).append(run)
    return expired, protected


def _is_there(store: RunStore, run: str) -> bool:
    try:
        store.get(run)
    except RunNotFound:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(3_600 if SOAK else 240)
def test_every_run_ends_once_whatever_is_killed(
    location: str, store: RunStore, sink: Path, tmp_path: Path
) -> None:
    """Effects happen once or are reported; what is protected stays, and what has expired goes."""
    seed = int(os.environ.get("AFTERRUN_SEED", str(random.randrange(10**6))))
    print("seed", seed)  # noqa: T201 - to repeat what failed
    scale = SCALES["postgresql" if "://" in location else "sqlite"]
    expired, protected = _past(location, store)
    settings = {"runners": 2, "keep_for": KEPT.total_seconds(), "interval": 0.5}
    with Server(location, tmp_path, settings) as server:
        chaos = Chaos(server, store, sink, random.Random(seed))
        while chaos.kills < scale.kills:
            chaos.keep_going(scale.runs)
            chaos.await_progress()
            chaos.settle()
            chaos.kill()
        _let_all_end(chaos, store, scale.runs)
        eventually(lambda: not any(_is_there(store, run) for run in expired))
        assert all(_is_there(store, run) for run in protected)
        _check(chaos, store)
    print("kills", chaos.kills, "runs", len(chaos.runs), "in doubt", chaos.settled)  # noqa: T201 - what it was


def _let_all_end(chaos: Chaos, store: RunStore, total: int) -> None:
    until = time.monotonic() + (20 * PATIENCE if SOAK else PATIENCE)
    while len(chaos.runs) < total or any(store.get(run).ended_at is None for run in chaos.runs):
        chaos.keep_going(total)
        chaos.settle()
        assert time.monotonic() < until, "some runs did not end"
        time.sleep(POLL)


def _check(chaos: Chaos, store: RunStore) -> None:
    """Look at every run: its output, its record, and what it did outside."""
    told = chaos.told()
    keys = []
    for number, run in enumerate(chaos.runs):
        expected = {"sums": [2 * number + 3, 2 * number], "told": ["taken", "taken"]}
        assert output(store, run) == expected
        effects = store.effects.of(run)
        assert [effect.status for effect in effects] == [EffectStatus.APPLIED] * 2
        keys += [effect.key for effect in effects]
        names = [entry.name for entry in store.history.page(run)]
        assert names == ["think", "tell before", "add_up", "add_up", "sleep", "tell after"]
        tree = store.tree(run)
        assert tree is not None
        assert not tree.open
        assert [part.status for part in tree.runs] == [RunStatus.COMPLETED] * 3
    assert told == Counter(keys)
