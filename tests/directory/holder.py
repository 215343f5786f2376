"""A process that takes the sweep lock of a directory: says ``held`` or ``locked``, then waits for a line.

``compete`` takes and lets go of the lock a number of times, and fails if another one has it meanwhile.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from afterrun.core.errors import StoreLocked
from directory.pi_tree import opened


def hold(root: Path) -> None:
    """Hold the lock until a line comes."""
    with opened(root) as store:
        try:
            with store.sweep_lock():
                _say("held")
                sys.stdin.readline()
        except StoreLocked:
            _say("locked")


def compete(root: Path, times: int) -> None:
    """Hold the lock this often, alone each time."""
    mark = root / "only-one"
    won = 0
    with opened(root) as store:
        while won < times:
            try:
                with store.sweep_lock():
                    os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
                    mark.unlink()
                    won += 1
            except StoreLocked:
                continue
    _say("done")


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the command line says."""
    if sys.argv[1] == "hold":
        hold(Path(sys.argv[2]))
    else:
        compete(Path(sys.argv[2]), int(sys.argv[3]))


if __name__ == "__main__":
    main()
