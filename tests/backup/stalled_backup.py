"""Starts a removal with a backup that stops for ever at a point, for a test to kill it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from afterrun import SweepOptions
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backups import BackupOrder
from afterrun.stores.sql.sqlite.attached import Attached
from afterrun.stores.sql.sqlite.removed_backup import RemovedBackup
from afterrun.stores.sql.sqlite.whole_backup import WholeBackup
from backup.backup_kit import MONTH
from own_store import OwnStore


def stall(*_args: Any, **_words: Any) -> None:  # noqa: ANN401 - stands for anything
    """Say so and wait."""
    sys.stdout.write("stalled\n")
    sys.stdout.flush()
    signal.pause()


def main(path: str, profile: str, state: str, target: str, kind: str, point: str) -> None:
    """Remove, and stop on the way."""
    if point == "copying":
        RemovedBackup._index = stall  # type: ignore[method-assign]
        WholeBackup._note_held = stall  # type: ignore[method-assign,assignment]
    elif point == "verifying":
        Attached.integrity = stall  # type: ignore[method-assign]
    else:
        NewFile._name = stall  # type: ignore[method-assign]
    order = BackupOrder(path=Path(target), kind="removed" if kind == "removed" else "whole")
    with OwnStore(Path(path), Path(profile), Path(state)).retention() as retention:
        retention.prune(MONTH, options=SweepOptions(offline=True), backup=order)


if __name__ == "__main__":
    main(*sys.argv[1:])
