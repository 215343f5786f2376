"""What the blobs of one tree cost, by the number of trees that are kept.

Each store keeps trees whose steps refer to blobs; each round adds an expired tree, some of whose references
are to blobs of the trees that stay, and removes it. Measured is the transaction that removes its blobs, alone
and with all else. Sizes take turns within a round, and the first round does not count. With ``--going`` more
trees go at once: then a small store gains, as several of its keys share a page of an index.

Run: python benchmarks/blobs.py [--trees 1000,100000] [--rounds 50] [--going 1]
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _common import header, say, spread
from afterrun import Retention, SweepOptions
from afterrun.core.blobs import Gone
from fakes import NOW, stand_still
from payloads.blob_kit import MONTH, NOW_MS, OLD_MS, PostgresShop, Session, Shop, SqliteShop
from pg_server import Server

BLOBS = 10
"""Steps of a tree, each with a blob of its own as output."""

SHARED = 10
"""One in so many references leads to a blob of a tree that stays."""

CONTENT = b"x" * 1_000
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "autovacuum": "off"}


def digest(*parts: object) -> str:
    """Return a key as content has it: spread over the whole index."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def tree(name: str, *, ended: int, shared: Callable[[int], str]) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the rows of a tree of one run, by table."""
    yield "runs", (name, "done", ended, None, None)
    previous = None
    for number in range(BLOBS):
        own = digest(name, number)
        yield "blobs", (own, CONTENT, len(CONTENT), NOW_MS)
        yield "steps", (name, previous, own)
        previous = own
    for number in range(BLOBS // SHARED):
        yield "steps", (name, None, shared(number))


@dataclass
class Kept:
    """A store with so many trees that stay, and what it measured."""

    trees: int
    shop: Shop
    blobs: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def fill(self) -> None:
        """Add the trees that stay."""
        with closing(self.shop.connect()) as session:
            for first in range(0, self.trees, 1_000):
                count = min(1_000, self.trees - first)
                self._add(session, (f"kept {first + number}" for number in range(count)), ended=NOW_MS)
            session.run("ANALYZE")

    def _add(self, session: Session, names: Iterator[str], *, ended: int) -> None:
        rows: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
        for name in names:
            for table, row in tree(name, ended=ended, shared=self._shared(name)):
                rows[table].append(row)
        session.run("BEGIN")
        for table, added in rows.items():
            session.run_many(f"INSERT INTO {table} VALUES ({', '.join('?' * len(added[0]))})", added)
        session.run("COMMIT")

    def _shared(self, name: str) -> Callable[[int], str]:
        return lambda number: digest(f"kept {hash((name, number)) % self.trees}", number)

    def measure(self, turn: int, *, going: int) -> None:
        """Add trees that go, remove them, and note the seconds of one tree."""
        names = [f"gone {turn} {number}" for number in range(going)]
        with closing(self.shop.connect()) as session:
            self._add(session, iter(names), ended=OLD_MS)
        held: list[float] = []
        place = {"profile": str(self.shop.profile), "state": self.shop.folder / "state"}
        with Retention(self.shop.location, **place) as retention:  # type: ignore[arg-type]
            stand_still(retention, NOW)
            self._time(retention, held)
            began = time.perf_counter()
            # a list of what goes keeps a full pass from joining in
            report = retention.prune(MONTH, options=SweepOptions(offline=True), only=set(names))
            seconds = time.perf_counter() - began
        if (report.units.removed, report.blobs.count) != (going, going * BLOBS):
            raise SystemExit(f"removed {report.units.removed} trees and {report.blobs.count} blobs")
        self.blobs.append(sum(held) / going)
        self.whole.append(seconds / going)

    @staticmethod
    def _time(retention: Retention, held: list[float]) -> None:
        blobs = retention.store.blobs
        if blobs is None:
            raise SystemExit("the profile has no blobs")
        plain = blobs.remove

        def remove(*arguments: Any, **words: Any) -> Gone:  # noqa: ANN401 - passed on
            gone = plain(*arguments, **words)
            held.append(gone.held)
            return gone

        blobs.remove = remove  # type: ignore[method-assign]


def shops(database: str, sizes: list[int], stack: ExitStack) -> list[Kept]:
    """Make a store of each size, empty."""
    server = stack.enter_context(Server(durable=True, settings=SETTINGS)) if database != "sqlite" else None
    found = []
    for trees in sizes:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shop = SqliteShop(folder) if server is None else PostgresShop(server.create_database(), folder)
        found.append(Kept(trees, shop))
    return found


def compare(database: str, sizes: list[int], *, rounds: int, going: int) -> None:
    """Measure one database and print its rows of the table."""
    with ExitStack() as stack:
        stores = shops(database, sizes, stack)
        for store in stores:
            store.fill()
        for turn in range(rounds + 1):
            for store in stores:
                store.measure(turn, going=going)
        base = stores[0]
        for store in stores:
            pairs = zip(store.blobs[1:], base.blobs[1:], strict=True)
            ratio = statistics.median(mine / least for mine, least in pairs)
            micros = [seconds * 1e6 for seconds in store.blobs[1:]]
            whole = [seconds * 1e6 for seconds in store.whole[1:]]
            say(f"| {database} | {store.trees} | {spread(micros)} | **{ratio:.2f}** | {spread(whole)} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--going", type=int, default=1)
    parser.add_argument("--databases", default="sqlite,postgresql")
    arguments = parser.parse_args()
    header("Blobs of one tree")
    say(f"| database | trees kept | blobs of one tree ({BLOBS}), us | to the smallest | the whole tree, us |")
    say("|---|---|---|---|---|")
    sizes = [int(trees) for trees in arguments.trees.split(",")]
    for database in arguments.databases.split(","):
        compare(database, sizes, rounds=arguments.rounds, going=arguments.going)


if __name__ == "__main__":
    main()
