"""Pairs as a removal leaves them that is cut off, made without a process that dies; and the command line."""

from __future__ import annotations

from typing import Any

import pytest

from afterrun.core.errors import Exit
from afterrun.stores.sql.elsewhere import Reaching
from cli.kit import run_cli
from datasource.pairs import EXPIRED, HELD, Pair


def recorded(pair: Pair) -> None:
    """Leave a pair as a removal does that is killed before it has removed anything."""
    with pair.retention() as retention:
        units = retention.store.units(sorted(EXPIRED))
        Reaching(retention.store.reach, retention.store.dialect).announce(units)
    assert pair.intents()


def between(pair: Pair) -> None:
    """Leave a pair as a removal does that is killed between its two commits."""
    recorded(pair)
    pair.lose(*HELD)


def run_file_cli(command: str, pair: Pair, *words: str) -> dict[str, Any]:
    """Run a command on a pair of files and return its JSON."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFTERRUN_STATE_DIR", str(pair.state))
        place = ("--datasource", pair.datasource.location)
        answer = run_cli(command, pair.store.location, *place, *words)
    assert answer.code == Exit.DONE, answer.err
    return answer.json
