"""Tables that exist in some versions of a schema only, and rows of which nothing tells whose they are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError
from own_store import OLD, PLAIN, RUNS, OwnStore, own_store

DAY_MS = 86_400_000
NOW = time.time_ns() // 1_000_000

RUN = f"INSERT INTO runs (id, status, ended) VALUES ('a', 'done', {OLD}), ('b', 'running', NULL);"
MAIL = "CREATE TABLE mail (run TEXT, due INTEGER, state TEXT);"
ANY_MAIL = 'protect = [{ reason = "mail", table = "mail", all_runs = true, optional = true, '
ANY_MAIL += 'where = { state = { equals = "new" } } }]\n'
OWN_MAIL = 'protect = [{ reason = "mail", table = "mail", column = "run", '
OWN_MAIL += 'overdue = { column = "due", format = "epoch_ms", days = 7 } }]\n'


def make(tmp_path: Path, tree: str, script: str = "") -> OwnStore:
    """Make a store with an ended and a live run."""
    return own_store(tmp_path, RUNS + RUN + script, PLAIN + tree)


def test_a_row_of_which_nothing_tells_whose_it_is_holds_every_run(tmp_path: Path) -> None:
    """It holds while its conditions are fulfilled, and whatever its columns say."""
    own = make(tmp_path, ANY_MAIL, MAIL + "INSERT INTO mail VALUES ('b', 1, 'new'), (NULL, 1, 'read');")
    assert own.verdicts("a") == {"a": "protected mail"}
    assert own.prune().units.protected == {"mail": 1}
    own.run("UPDATE mail SET state = 'read'")
    assert own.verdicts("a") == {"a": "expired"}
    assert own.prune().units.removed == 1


def test_a_table_that_may_be_missing_is_missed_aloud(tmp_path: Path) -> None:
    """Nothing protects by it then; only where a store of that very shape was read is that silent."""
    own = make(tmp_path, ANY_MAIL)
    told = "there is no table mail, whose rows would hold runs (mail)"
    assert any(told in notice for notice in own.plan().notices)
    with own.retention() as retention:
        digest = retention.store.digest
    text = own.profile.read_text("utf-8")
    own.profile.write_text(text.replace('"1" = ""', f'"1" = "{digest}"'), "utf-8")
    assert not any(told in notice for notice in own.plan().notices)


@pytest.mark.parametrize(
    "tree",
    [
        ANY_MAIL.replace("optional = true", "optional = false"),
        ANY_MAIL + 'owned = [{ table = "mail", column = "run" }]\n',
    ],
)
def test_a_table_that_is_needed_anywhere_is_needed(tmp_path: Path, tree: str) -> None:
    """What is optional in one place and not in another does not fit a store without it."""
    own = make(tmp_path, tree)
    with pytest.raises(ProfileError) as caught, own.retention():
        pass
    assert caught.value.problems == ("there is no table mail",)


def test_rows_that_hold_ended_runs_for_too_long_are_told(tmp_path: Path) -> None:
    """Counted are runs that ended and rows past the limit; a time that makes no sense is no such case."""
    rows: dict[str, list[object]] = {
        "'a'": [NOW - 8 * DAY_MS, NOW - 9 * DAY_MS, NOW - 6 * DAY_MS, NOW + DAY_MS, "'soon'", 5, "NULL"],
        "'b'": [NOW - 8 * DAY_MS],  # it lives: its engine may be down, and nothing is left behind
        "'c'": [NOW - 8 * DAY_MS],  # no run
    }
    values = ", ".join(f"({run}, {due}, 'new')" for run, dues in rows.items() for due in dues)
    own = make(tmp_path, OWN_MAIL, f"{MAIL} INSERT INTO mail VALUES {values};")
    told = [notice for notice in own.plan().notices if "waited" in notice]
    wanted = "1 runs that ended are held by rows of mail that have waited for more than 7 days (mail): "
    assert told == [wanted + "does an engine run that takes them?"]
    assert own.verdicts("a") == {"a": "protected mail"}
    own.run(f"DELETE FROM mail WHERE due < {NOW - 7 * DAY_MS} AND due > 5")
    assert not any("waited" in notice for notice in own.plan().notices)


@pytest.mark.parametrize(
    ("tables", "version"), [(["version", "other"], "1"), (["other"], "7"), (["version"], "1")]
)
def test_the_version_stands_in_the_first_table_that_exists(
    tmp_path: Path, tables: list[str], version: str
) -> None:
    """An alternative counts only where the table named first is missing."""
    own = make(tmp_path, "", "CREATE TABLE other (number INTEGER); INSERT INTO other VALUES (7);")
    text = own.profile.read_text("utf-8")
    text = text.replace('table = "version",', 'table = "version", alternatives = ["other"],')
    own.profile.write_text(text.replace('tables = ["version"]', 'tables = ["runs"]'), "utf-8")
    for table in {"version", "other"} - set(tables):
        own.run(f"DROP TABLE {table}")
    assert own.plan().schema.version == version
