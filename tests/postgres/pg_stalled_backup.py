"""Starts a removal with a backup that stops for ever at a point, for a test to kill it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from afterrun import Retention, SweepOptions
from afterrun.stores.new_file import NewFile
from afterrun.stores.sql.backups import BackupOrder
from afterrun.stores.sql.postgres import backup_whole as postgres_backup_whole
from afterrun.stores.sql.postgres.backup_file import BackupFile, Writing
from afterrun.stores.sql.postgres.backup_whole import WholeDump
from afterrun.stores.sql.postgres.programs import output
from postgres.pg_backup_kit import MONTH


def stall(*_args: Any, **_words: Any) -> None:  # noqa: ANN401 - stands for anything
    """Say so, with the processes that work for us, and wait."""
    helpers = [str(child.pid) for child in psutil.Process().children()]
    sys.stdout.write(" ".join(["stalled", *helpers]) + "\n")
    sys.stdout.flush()
    signal.pause()


def first_only(*args: Any, **words: Any) -> Iterator[bytes]:  # noqa: ANN401 - stands for anything
    """Take the first part of what a program writes, and no more."""
    for chunk in output(*args, **words):
        yield chunk
        stall()


def main(url: str, profile: str, state: str, target: str, kind: str, point: str) -> None:
    """Remove, and stop on the way."""
    if point == "copying":
        Writing.finish = stall  # type: ignore[method-assign,assignment]
        postgres_backup_whole.output = first_only  # type: ignore[attr-defined]
    elif point == "verifying":
        BackupFile.verify = stall  # type: ignore[method-assign]
        WholeDump.verify = stall  # type: ignore[method-assign]
    else:
        NewFile._name = stall  # type: ignore[method-assign]
    order = BackupOrder(path=Path(target), kind="removed" if kind == "removed" else "whole")
    with Retention(url, profile=profile, state=Path(state)) as retention:
        retention.prune(MONTH, options=SweepOptions(offline=True), backup=order)


if __name__ == "__main__":
    main(*sys.argv[1:])
