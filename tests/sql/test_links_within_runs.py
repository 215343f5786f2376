"""Foreign keys over several columns: those that lead to other rows of the same run hold nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from own_store import OLD, PLAIN, RUNS, own_store

RUN = f"INSERT INTO runs (id, status, ended) VALUES ('a', 'done', {OLD}), ('b', 'done', {OLD});"
STEPS = "CREATE TABLE steps (run TEXT, number INTEGER, PRIMARY KEY (run, number));"
TRIES = "CREATE TABLE tries (run TEXT, step INTEGER, other TEXT, FOREIGN KEY ({columns}) REFERENCES steps);"
ROWS = "INSERT INTO steps VALUES ('a', 1), ('b', 1); INSERT INTO tries VALUES ('a', 1, 'b');"
OWNED = 'owned = [{ table = "tries", column = "run" }, { table = "steps", column = "run" }]\n'


def test_a_key_within_a_run_holds_nothing(tmp_path: Path) -> None:
    """Both rows go with the one run, in the profile's order, and the plan counts them."""
    script = RUNS + RUN + STEPS + TRIES.format(columns="run, step") + ROWS
    own = own_store(tmp_path, script, PLAIN + OWNED)
    assert own.verdicts("a", "b") == {"a": "expired", "b": "expired"}
    assert own.prune().rows == {"tries": 1, "steps": 2, "runs": 2}


@pytest.mark.parametrize("owned", [OWNED, OWNED.replace('{ table = "tries", column = "run" }, ', "")])
def test_a_key_that_may_lead_to_another_run_blocks_that_one(tmp_path: Path, owned: str) -> None:
    """Not the column of the run leads there, so a row that stays may need the one that would go."""
    script = RUNS + RUN + STEPS + TRIES.format(columns="other, step") + ROWS
    own = own_store(tmp_path, script, PLAIN + owned)
    assert own.verdicts("a", "b") == {"a": "expired", "b": "blocked unknown-reference:tries"}
