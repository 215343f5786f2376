"""Starts a removal of trees and generations with a backup that stops for ever, for a test to kill it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from afterrun import Retention
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backed import BackedGenerations
from afterrun.stores.sql.backups import BackupOrder
from afterrun.stores.sql.postgres.backup_file import BackupFile
from afterrun.stores.sql.sqlite.attached import Attached
from generations.backed_loops import BOTH, OFFLINE


def stall(*_args: Any, **_words: Any) -> None:  # noqa: ANN401 - stands for anything
    """Say so and wait."""
    sys.stdout.write("stalled\n")
    sys.stdout.flush()
    signal.pause()


def main(location: str, folder: str, target: str, point: str) -> None:
    """Remove, and stop on the way."""
    if point == "between the kinds":
        BackedGenerations.bind = stall  # type: ignore[method-assign]
    elif point == "verifying":
        Attached.integrity = stall  # type: ignore[method-assign]
        BackupFile.verify = stall  # type: ignore[method-assign]
    else:
        NewFile._name = stall  # type: ignore[method-assign]
    profile, state = str(Path(folder) / "loops.toml"), Path(folder) / "state"
    with Retention(location, profile=profile, state=state) as retention:
        retention.prune(BOTH, options=OFFLINE, backup=BackupOrder(path=Path(target)))


if __name__ == "__main__":
    main(*sys.argv[1:])
