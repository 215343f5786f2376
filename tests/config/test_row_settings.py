"""Rules for row tables in a settings file and in variables."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterrun.config import load_settings
from afterrun.core.policy import FOREVER
from config.conftest import Write
from config.test_settings_file import faults, only

FILE = """
    [policy]
    keep_for = "30d"
    [tables.logs]
    keep_for = "14d"
    [tables.task-runs]
    keep_latest = 5
    statuses = ["ok"]
    [stores.my-orders]
    store = "a.db"
    [stores.my-orders.tables.logs]
    keep_latest = 100
"""


def test_tables_merge_key_by_key(write: Write, tmp_path: object) -> None:
    """A store has the general rules, with its own keys in their place; one that is not named has these."""
    settings = load_settings(write(FILE), environ={})
    tables = only(settings).rules.tables
    assert tables["logs"].keep_for == timedelta(days=14)
    assert tables["logs"].keep_latest == 100
    assert (tables["task-runs"].keep_latest, tables["task-runs"].statuses) == (5, ("ok",))
    assert settings.tables_of(f"{tmp_path}/other.db")["logs"].keep_latest is None
    assert settings.tables_of(f"{tmp_path}/a.db")["logs"].keep_latest == 100


def test_a_store_that_stands_alone_has_its_own_tables(write: Write) -> None:
    """Without inheritance, general tables do not count, and what is left must have a rule."""
    text = FILE.replace('store = "a.db"', 'store = "a.db"\n    inherit = false')
    assert set(only(load_settings(write(text), environ={})).rules.tables) == {"logs"}
    alone = text.replace("[stores.my-orders.tables.logs]\n    keep_latest = 100", "")
    (told,) = faults(write(alone))
    assert "keeps nothing" in told


def test_a_policy_of_tables_alone_is_one(write: Write) -> None:
    """A file without rules for runs is right, and lets no run go."""
    text = '[tables.logs]\nkeep_for = "14d"\n[stores.a]\nstore = "a.db"\n'
    assert not only(load_settings(write(text), environ={})).rules.has_rules


def test_variables_come_before_the_file(write: Write) -> None:
    """A variable of the store comes before one of all stores, and names tables that the file does not."""
    environ = {
        "AFTERRUN_ROWS_LOGS_KEEP_FOR": "forever",
        "AFTERRUN_ROWS_TASK_RUNS_STATUSES": "ok,failed",
        "AFTERRUN_STORES_MY_ORDERS_ROWS_LOGS_KEEP_LATEST": "7",
        "AFTERRUN_STORES_MY_ORDERS_ROWS_NEW_ONE_KEEP_FOR": "1d",
    }
    tables = only(load_settings(write(FILE), environ=environ)).rules.tables
    assert (tables["logs"].keep_for, tables["logs"].keep_latest) == (FOREVER, 7)
    assert tables["task-runs"].statuses == ("ok", "failed")
    assert tables["new-one"].keep_for == timedelta(days=1)


def test_faults_of_tables_are_said_with_all_others(write: Write) -> None:
    """Each has its place or its variable."""
    text = FILE.replace("keep_latest = 5", "keep_latest = 0").replace('keep_for = "14d"', 'keep_fro = "14d"')
    told = faults(write(text), AFTERRUN_ROWS_LOGS_KEEP_FOR="soon", AFTERRUN_ROWS_LOGS_KEEP="1d")
    assert any(line.startswith("tables.task-runs.keep_latest: ") for line in told)
    assert "tables.logs.keep_fro: unknown key (did you mean 'keep_for'?)" in told
    assert any(line.startswith("the variable AFTERRUN_ROWS_LOGS_KEEP_FOR: ") for line in told)
    assert any(line.startswith("the variable AFTERRUN_ROWS_LOGS_KEEP: it names a row table") for line in told)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[tables.logs]\nstatuses = ['ok']", "tables.logs: rules for rows need keep_for or keep_latest"),
        ("[tables.logs]\nkeep_for = '0d'", "tables.logs: keep_for must be longer than nothing"),
        ("[tables.Logs]\nkeep_for = '1d'", "tables.Logs: a name is of a-z"),
    ],
)
def test_rules_that_make_no_sense_are_faults(write: Write, table: str, told: str) -> None:
    """A table without a rule, one that keeps nothing, and a name that no profile can have."""
    assert any(line.startswith(told) for line in faults(write(table)))
