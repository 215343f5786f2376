"""Peak memory of a plan and of an offline removal, by the number of expired runs.

Run: python benchmarks/memory.py [--runs 20000,500000]
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import timedelta
from pathlib import Path

from _common import answer, copy_of, expired_store, header, say, worker


def measure(job: str, store: str) -> None:
    """Do one job in this process and print its peak resident size."""
    import afterrun  # noqa: PLC0415 - only the worker needs it

    policy = afterrun.Policy(keep_for=timedelta(days=29))
    with tempfile.TemporaryDirectory() as state, afterrun.Retention(store, state=Path(state)) as retention:
        if job == "plan":
            units = retention.plan(policy).units.expired
        else:
            options = afterrun.SweepOptions(offline=job == "offline", rest=0.0)
            units = retention.prune(policy, options=options).units.removed
    answer(peak=peak_kib(), units=units)


def peak_kib() -> int:
    """Return the greatest resident size of this process in KiB.

    The kernel's own mark for this program: that of ``getrusage`` also counts the parent before ``exec``.
    """
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="20000,500000")
    parser.add_argument("--jobs", default="plan,offline", help="also live, which takes its time")
    parser.add_argument("--worker", nargs=2)
    arguments = parser.parse_args()
    if arguments.worker:
        measure(*arguments.worker)
        return
    sizes = [int(runs) for runs in arguments.runs.split(",")]
    header("Peak memory")
    say("| job | " + " | ".join(f"{runs} runs, MiB" for runs in sizes) + " | growth, MiB |")
    say("|---|" + "---|" * (len(sizes) + 1))
    with tempfile.TemporaryDirectory() as folder:
        for job in arguments.jobs.split(","):
            peaks = []
            for runs in sizes:
                store = copy_of(expired_store(Path(folder), runs))
                found = worker(__file__, job, str(store))
                if found["units"] != runs:
                    raise SystemExit(f"{job}: {found['units']} units instead of {runs}")
                peaks.append(found["peak"] / 1024)
                store.unlink()
            cells = " | ".join(f"{peak:.1f}" for peak in peaks)
            say(f"| {job} | {cells} | **{peaks[-1] - peaks[0]:+.1f}** |")


if __name__ == "__main__":
    main()
