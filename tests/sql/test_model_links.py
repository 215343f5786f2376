"""Foreign keys between rows of one run, as Prefect has them in circles: known, and still looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError
from own_store import OLD, PLAIN, OwnStore, own_store

TABLES = """
CREATE TABLE results (id INTEGER PRIMARY KEY, run TEXT);
CREATE TABLE states (id INTEGER PRIMARY KEY, run TEXT REFERENCES runs(id) ON DELETE CASCADE,
                     result INTEGER REFERENCES results(id) ON DELETE SET NULL);
CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT,
                   state INTEGER REFERENCES states(id) ON DELETE SET NULL);
CREATE INDEX runs_ended ON runs (ended);
CREATE INDEX runs_state ON runs (state);
CREATE INDEX states_run ON states (run);
CREATE INDEX states_result ON states (result);
CREATE INDEX results_run ON results (run);
"""
ROWS = f"""
INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL, 2), ('b', 'done', {OLD}, NULL, 3);
INSERT INTO runs VALUES ('live', 'running', NULL, NULL, 4);
INSERT INTO results VALUES (1, 'a'), (2, 'b'), (3, 'live');
INSERT INTO states VALUES (1, 'a', NULL), (2, 'a', 1), (3, 'b', 2), (4, 'live', 3);
"""
OWNED = """owned = [{ table = "states", column = "run" }, { table = "results", column = "run" }]
"""
LINKS = """links = [{ table = "runs", column = "state" }, { table = "states", column = "result" }]
"""


def linked(folder: Path, script: str = "", *, tree: str = OWNED + LINKS) -> OwnStore:
    """Make a store whose rows refer to each other in a circle."""
    return own_store(folder, TABLES + ROWS + script, PLAIN + tree)


def test_links_within_a_run_hold_nothing(tmp_path: Path) -> None:
    """Runs go with all their rows, and what the database sets to NULL on the way is counted nowhere."""
    store = linked(tmp_path)
    assert store.verdicts("a", "b") == {"a": "expired", "b": "expired"}
    planned = store.plan()
    assert dict(planned.rows) == {"states": 3, "results": 2, "runs": 2}
    assert dict(store.prune().rows) == dict(planned.rows)
    assert (store.left(), store.left("states"), store.left("results")) == (["live"], [4], [3])


@pytest.mark.parametrize("left_out", ["runs", "states"])
def test_a_link_that_the_profile_does_not_say_blocks(tmp_path: Path, left_out: str) -> None:
    """Each is said for itself."""
    links = '"runs", column = "state"', '"states", column = "result"'
    kept = next(part for part in links if left_out not in part)
    store = linked(tmp_path, tree=f"{OWNED}links = [{{ table = {kept} }}]\n")
    blocked = f"blocked unknown-reference:{left_out}"
    assert store.verdicts("a", "b") == {"a": blocked, "b": blocked}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE runs SET state = 2 WHERE id = 'live'", "linked-row:runs"),
        ("UPDATE states SET result = 1 WHERE run = 'live'", "linked-row:states"),
        ("UPDATE states SET result = 1 WHERE run = 'b'", "linked-row:states"),
        ("INSERT INTO states VALUES (9, NULL, 1)", "linked-row:states"),
        ("INSERT INTO states VALUES (9, 'no-run', 1)", "linked-row:states"),
    ],
)
def test_a_link_from_another_run_blocks(tmp_path: Path, change: str, reason: str) -> None:
    """A row that would change although its run stays, or has none, keeps the run it leads to."""
    store = linked(tmp_path, change + ";")
    assert store.verdicts("a")["a"] == f"blocked {reason}"
    assert store.verdicts("b")["b"] == "expired"
    before = store.content()
    store.prune()
    assert store.left() == ["a", "live"]
    after = store.content()
    assert {row for row in before["states"] if "b'b'" not in row} == set(after["states"])


def test_a_link_from_a_row_that_is_found_through_another(tmp_path: Path) -> None:
    """Whose a row is may take a table in between to tell."""
    script = """
    CREATE TABLE steps (id INTEGER PRIMARY KEY, run TEXT REFERENCES runs(id));
    CREATE TABLE parts (id INTEGER PRIMARY KEY, step INTEGER, result INTEGER REFERENCES results(id));
    CREATE INDEX steps_run ON steps (run); CREATE INDEX parts_step ON parts (step);
    CREATE INDEX parts_result ON parts (result);
    INSERT INTO steps VALUES (1, 'a'), (2, 'live');
    INSERT INTO parts VALUES (1, 1, 1), (2, 2, 2), (3, 2, NULL);
    """
    owned = OWNED.replace(
        "owned = [",
        'owned = [{ table = "parts", column = "step", via = { table = "steps", key = "id", owner = "run" } },'
        ' { table = "steps", column = "run" }, ',
    )
    links = LINKS.replace("links = [", 'links = [{ table = "parts", column = "result" }, ')
    store = linked(tmp_path, script, tree=owned + links)
    assert store.verdicts("a", "b") == {"a": "expired", "b": "blocked linked-row:parts"}
    store.prune()
    assert (store.left(), store.left("parts")) == (["b", "live"], [2, 3])


def test_a_child_that_refers_to_its_parent_through_a_link_table(tmp_path: Path) -> None:
    """The foreign key of an edge is known, whatever the database does with it: the child goes, too."""
    script = f"""
    CREATE TABLE steps (id INTEGER PRIMARY KEY, run TEXT REFERENCES runs(id) ON DELETE CASCADE);
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER,
                       started_by INTEGER REFERENCES steps(id) ON DELETE SET NULL);
    CREATE INDEX steps_run ON steps (run); CREATE INDEX runs_started ON runs (started_by);
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL), ('below', 'done', {OLD}, 1);
    INSERT INTO runs VALUES ('b', 'done', {OLD}, NULL), ('live', 'running', NULL, 2);
    INSERT INTO steps VALUES (1, 'a'), (2, 'b'), (3, 'below');
    """
    tree = """
    edges = [{ column = "started_by", via = { table = "steps", key = "id", owner = "run" } }]
    owned = [{ table = "steps", column = "run" }]
    """
    store = own_store(tmp_path, script, PLAIN + tree)
    assert store.verdicts("a", "below", "b") == {
        "a": "expired",
        "below": "in a: expired",
        "b": "protected live-member",
    }
    assert dict(store.prune().rows) == {"steps": 2, "runs": 2}
    assert store.left() == ["b", "live"]


@pytest.mark.parametrize(
    ("links", "told"),
    [
        ('{ table = "version", column = "number" }', "does not go with runs"),
        ('{ table = "states", column = "reslt" }', "has no column reslt"),
    ],
)
def test_a_link_must_be_of_a_table_that_goes(tmp_path: Path, links: str, told: str) -> None:
    """A link of another table would be one of the things that hold runs."""
    store = linked(tmp_path, tree=f"{OWNED}links = [{links}]\n")
    with pytest.raises(ProfileError) as caught:
        store.open()
    assert told in str([caught.value, *caught.value.problems])
