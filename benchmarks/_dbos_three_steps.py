"""The same three steps in DBOS, in the engine's own environment: URL, runs, runs at a time. Prints JSON."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

WARM = 16
"""Runs before the clock starts."""


@DBOS.step()
def more(number: int) -> int:
    """Add one."""
    return number + 1


@DBOS.workflow()
def three_steps(number: int) -> int:
    """Pass three steps."""
    for _ in range(3):
        number = more(number)
    return number


def main(url: str, runs: int, at_a_time: int) -> None:
    """Run so many, and print how long they took."""
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": url,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    with ThreadPoolExecutor(at_a_time) as threads:
        list(threads.map(three_steps, range(WARM)))
        began = time.perf_counter()
        outputs = list(threads.map(three_steps, range(runs)))
        seconds = time.perf_counter() - began
    DBOS.destroy()
    assert outputs == [number + 3 for number in range(runs)]
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
