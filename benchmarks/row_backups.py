"""Backups of log rows before they go, and the way back.

Old log rows are removed offline without a backup, then with one of the rows that go, and put back from it.
Limit: with a backup it takes at most 8 times as long, and the file has at most 3 times the bytes of content.

Run: python benchmarks/row_backups.py [--rows 100000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from _common import header, say
from afterrun import BackupOrder, SweepOptions
from pg_server import Server
from row_policies.tables import Shop, keep, policy
from rows import SETTINGS, fill_logs, shops

RULES = policy(logs=keep(6))
LIMIT = 8.0
FILE_LIMIT = 3.0
CONTENT = 160
"""Bytes of a row's values, about."""


def removed(shop: Shop, target: Path | None) -> tuple[float, int]:
    """Remove; return the seconds and the rows."""
    order = None if target is None else BackupOrder(path=target)
    began = time.monotonic()
    with shop.open() as retention:
        report = retention.prune(RULES, options=SweepOptions(offline=True), backup=order)
    return time.monotonic() - began, report.tables["logs"].rows


def measure(folder: Path, server: Server, count: int) -> None:
    """Measure each kind of store."""
    say(f"\n{count:,} log rows, of which nine tenths go\n")
    say("| store | removal, s | with a backup, s | times (at most 8) | file, bytes a row | restore, s |")
    say("|---" * 6 + "|")
    plain = {}
    for kind, shop in shops(folder, server, "plain"):
        fill_logs(shop, count)
        plain[kind], _ = removed(shop, None)
    for kind, shop in shops(folder, server, "backed"):
        fill_logs(shop, count)
        target = folder / f"{kind}.backup"
        seconds, rows = removed(shop, target)
        size = target.stat().st_size / rows
        began = time.monotonic()
        with shop.open() as retention:
            restored = retention.restore(target, rest=0.0)
        if restored.units != rows:
            raise RuntimeError(f"{restored.units} of {rows} came back")
        times = seconds / plain[kind]
        fits = "" if times <= LIMIT and size <= FILE_LIMIT * CONTENT else " MISSED"
        say(
            f"| {kind} | {plain[kind]:.2f} | {seconds:.2f} | {times:.2f}{fits} | {size:.0f} "
            f"| {time.monotonic() - began:.2f} |"
        )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    asked = parser.parse_args()
    header("Backups of rows")
    with tempfile.TemporaryDirectory() as name, Server(durable=True, settings=SETTINGS) as server:
        measure(Path(name), server, asked.rows)


if __name__ == "__main__":
    main()
