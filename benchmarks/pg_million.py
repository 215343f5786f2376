"""One million runs in PostgreSQL, 600,000 of them expired: plan and live sweep, in time, memory and bytes.

Memory is the growth of the process's peak over the same work on a small store. Limits: a plan at most 5 MiB
more, a sweep at most 8 MiB more, the longest batch at most 250 ms.

Run: python benchmarks/pg_million.py [--runs 1000000] [--small 20000]
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import timedelta
from pathlib import Path

from _common import VERSION, answer, header, say, worker
from engines.pg_stores import clone_pg_store
from peak_memory import peak_kib
from pg_server import Server

SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB"}
EXPIRED = 0.6


def measure(job: str, url: str) -> None:
    """Do one job in this process; print its peak, its seconds and what it found."""
    import afterrun  # noqa: PLC0415 - only the worker needs it

    policy = afterrun.Policy(keep_for=timedelta(days=29))
    with tempfile.TemporaryDirectory() as state, afterrun.Retention(url, state=Path(state)) as retention:
        if job == "plan":
            report = retention.plan(policy)
            units = report.units.expired
        else:
            options = afterrun.SweepOptions(offline=job == "offline", rest=0.0)
            report = retention.prune(policy, options=options)
            units = report.units.removed
    answer(
        peak=peak_kib(),
        units=units,
        seconds=report.seconds,
        longest=report.longest_batch,
        before=report.file_before,
        after=report.file_after,
        rows=sum(report.rows.values()),
        ended=report.ended,
        message=report.message,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=20_000)
    parser.add_argument("--jobs", default="plan,live")
    parser.add_argument("--worker", nargs=2)
    arguments = parser.parse_args()
    if arguments.worker:
        measure(*arguments.worker)
        return
    header("One million runs in PostgreSQL")
    say("| job | runs | units | rows | seconds | us a unit | longest, ms | peak, MiB | MB before | after |")
    say("|---" * 10 + "|")
    with Server(durable=True, settings=SETTINGS) as server:
        for runs in (arguments.small, arguments.runs):
            store = server.create_database()
            clone_pg_store(store, runs=runs, version=VERSION, shape="flat", expired=EXPIRED)
            for job in arguments.jobs.split(","):
                found = worker(__file__, job, store.url())
                if found["ended"] != "completed":
                    raise SystemExit(f"{job} ended {found['ended']}: {found['message']}")
                say(
                    f"| {job} | {runs} | {found['units']} | {found['rows']} | {found['seconds']:.1f} | "
                    f"{found['seconds'] / found['units'] * 1e6:.0f} | {found['longest'] * 1_000:.0f} | "
                    f"{found['peak'] / 1024:.1f} | {found['before'] / 1e6:.0f} | {found['after'] / 1e6:.0f} |"
                )
            server.drop_database(store.name)


if __name__ == "__main__":
    main()
