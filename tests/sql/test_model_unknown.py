"""What a profile does not know of a store: it blocks what it touches, and is told (Promise 3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError, Refused
from own_store import DAY, OLD, PLAIN, RUNS, OwnStore, own_store

TWO = f"""
INSERT INTO runs VALUES ('used', 'done', {OLD}, NULL), ('below', 'done', {OLD}, 'used'), ('free', 'done',
    {OLD}, NULL);
"""
STEPS = """
CREATE TABLE steps (id INTEGER PRIMARY KEY, run TEXT REFERENCES runs(id) ON DELETE CASCADE, number INTEGER,
                    UNIQUE (run, number));
CREATE TABLE parts (id INTEGER PRIMARY KEY, step INTEGER REFERENCES steps(id) ON DELETE CASCADE);
CREATE INDEX parts_step ON parts (step);
INSERT INTO steps VALUES (1, 'used', 1), (2, 'below', 1), (3, 'free', 1);
INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3);
"""
TREE = (
    PLAIN
    + """
edges = [{ column = "parent" }]
owned = [
  { table = "parts", column = "step", via = { table = "steps", key = "id", owner = "run" } },
  { table = "steps", column = "run" },
]
"""
)

FOREIGN = {
    "into the run table": "run TEXT REFERENCES runs(id)",
    "without a column": "run TEXT REFERENCES runs",
    "in other letters": "run TEXT REFERENCES RUNS(ID)",
    "that cascades": "run TEXT REFERENCES runs(id) ON DELETE CASCADE",
    "that sets null": "run TEXT REFERENCES runs(id) ON DELETE SET NULL",
    "that sets a default": "run TEXT DEFAULT 'free' REFERENCES runs(id) ON DELETE SET DEFAULT",
    "that restricts": "run TEXT REFERENCES runs(id) ON DELETE RESTRICT",
    "checked at the end": "run TEXT REFERENCES runs(id) DEFERRABLE INITIALLY DEFERRED",
}


def notices(own: OwnStore) -> str:
    """Return all that is told of a store's schema."""
    store = own.open()
    told = "\n".join(store.schema().notices)
    store.close()
    return told


@pytest.mark.parametrize("member", ["used", "below"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_row_of_an_unknown_table_blocks_the_tree_it_refers_to(
    tmp_path: Path, kind: str, member: str
) -> None:
    """A foreign key of any action blocks exactly the units that rows refer to; those rows do not change."""
    script = f"CREATE TABLE bills ({FOREIGN[kind]}); INSERT INTO bills VALUES ('{member}'), (NULL);"
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE)
    assert store.verdicts("used", "free") == {"used": "blocked unknown-reference:bills", "free": "expired"}
    assert "the profile does not know the table bills" in notices(store)
    bills = store.content()["bills"]
    store.prune()
    assert store.left() == ["below", "used"]
    assert store.left("steps") == [1, 2]
    assert store.content()["bills"] == bills


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("step INTEGER REFERENCES steps(id) ON DELETE CASCADE", "(1)"),
        ("step INTEGER REFERENCES Steps ON DELETE SET NULL", "(1)"),
        ("part INTEGER REFERENCES parts(id)", "(1)"),
        ("part INTEGER REFERENCES parts(id) ON DELETE CASCADE", "(2)"),
        ("run TEXT, number INTEGER, FOREIGN KEY (run, number) REFERENCES steps(run, number)", "('used', 1)"),
        ("number INTEGER, run TEXT, FOREIGN KEY (run, number) REFERENCES steps(run, number)", "(1, 'below')"),
    ],
)
def test_a_reference_into_an_owned_table_blocks_the_run_that_owns_it(
    tmp_path: Path, columns: str, row: str
) -> None:
    """Single and composite keys into rows that go with a run, directly or through a link, lead to the run."""
    script = f"CREATE TABLE bills ({columns}); INSERT INTO bills VALUES {row};"
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE)
    assert store.verdicts("used", "free") == {"used": "blocked unknown-reference:bills", "free": "expired"}
    bills = store.content()["bills"]
    store.prune()
    assert store.left("parts") == [1, 2]
    assert store.content()["bills"] == bills


def test_a_composite_reference_into_the_run_table(tmp_path: Path) -> None:
    """All columns of a key must agree before it holds a run."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, tenant TEXT, status TEXT, ended INTEGER, UNIQUE (tenant, id));
    CREATE TABLE bills (run TEXT, tenant TEXT, FOREIGN KEY (tenant, run) REFERENCES runs (tenant, id));
    INSERT INTO runs VALUES ('a', 't1', 'done', {OLD}), ('b', 't1', 'done', {OLD}), ('c', NULL, 'done',
        {OLD});
    INSERT INTO bills VALUES ('a', 't1'), ('b', NULL), ('c', NULL);
    """
    store = own_store(tmp_path, script)
    assert store.verdicts("a", "b", "c") == {
        "a": "blocked unknown-reference:bills",
        "b": "expired",
        "c": "expired",
    }
    store.prune()
    assert store.left() == ["a"]


@pytest.mark.parametrize("name", ["run_id", "RUN_ID", "Workflow_Id"])
def test_a_table_with_a_key_column_that_the_profile_does_not_mention(tmp_path: Path, name: str) -> None:
    """Without any foreign key, the engine's own names for a run's id tell that a table may need it."""
    script = f"CREATE TABLE holds ({name} TEXT); INSERT INTO holds VALUES ('below'), (NULL), ('no-run');"
    detect = 'key_columns = ["Run_Id", "workflow_id"]'
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE, detect=detect)
    assert store.verdicts("used", "free") == {"used": "blocked unknown-reference:holds", "free": "expired"}
    assert "does not know the table holds" in notices(store)
    store.prune()
    assert store.left() == ["below", "used"]
    assert store.counts()["holds"] == 3


def test_each_key_column_of_an_unknown_table_is_looked_at(tmp_path: Path) -> None:
    """One table may refer to runs in two ways."""
    script = """
    CREATE TABLE holds (run_id TEXT REFERENCES runs(id), workflow_id TEXT);
    INSERT INTO holds VALUES (NULL, 'used'), ('free', NULL);
    """
    detect = 'key_columns = ["run_id", "workflow_id"]'
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE, detect=detect)
    blocked = "blocked unknown-reference:holds"
    assert store.verdicts("used", "free") == {"used": blocked, "free": blocked}


def test_a_table_that_was_looked_at_needs_nothing(tmp_path: Path) -> None:
    """`known` says that a table with a key column needs no run; a foreign key of it still blocks."""
    script = """
    CREATE TABLE metrics (run_id TEXT); INSERT INTO metrics VALUES ('used');
    CREATE TABLE bills (run_id TEXT REFERENCES runs(id)); INSERT INTO bills VALUES ('free');
    """
    detect = 'key_columns = ["run_id"]\nknown = ["metrics", "bills"]'
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE, detect=detect)
    assert store.verdicts("used", "free") == {"used": "expired", "free": "blocked unknown-reference:bills"}
    store.prune()
    assert store.left() == ["free"]
    assert store.counts()["metrics"] == 1


def test_a_reference_to_a_row_that_stays_blocks_nothing(tmp_path: Path) -> None:
    """References by and to tables that lose no row are nobody's business."""
    script = f"""
    CREATE TABLE users (id INTEGER PRIMARY KEY); INSERT INTO users VALUES (1);
    CREATE TABLE bills (user INTEGER REFERENCES users(id)); INSERT INTO bills VALUES (1);
    ALTER TABLE runs ADD COLUMN user INTEGER REFERENCES users(id);
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL, 1);
    """
    store = own_store(tmp_path, RUNS + script)
    store.prune()
    assert (store.left(), store.counts()["bills"]) == ([], 1)


@pytest.mark.parametrize("action", ["", "ON DELETE CASCADE", "ON DELETE SET NULL"])
def test_a_run_table_that_refers_to_itself_by_its_edge(tmp_path: Path, action: str) -> None:
    """The parent's own foreign key is known: whole trees go, counted in full."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER,
        parent TEXT REFERENCES runs(id) {action});
    CREATE INDEX runs_parent ON runs (parent);
    INSERT INTO runs VALUES ('z', 'done', {OLD}, NULL), ('a', 'done', {OLD}, 'z'), ('m', 'done', {OLD}, 'a'),
        ('kept', 'running', NULL, NULL), ('stays', 'done', {OLD}, 'kept');
    """
    store = own_store(tmp_path, script, PLAIN + 'edges = [{ column = "parent" }]\n')
    assert dict(store.prune().rows) == {"runs": 3}
    assert store.left() == ["kept", "stays"]


def test_a_large_tree_of_runs_that_refer_to_each_other_goes_at_once(tmp_path: Path) -> None:
    """Promise 4: more members than a statement takes keys, tied by a foreign key without an action."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT REFERENCES runs(id));
    CREATE INDEX runs_parent ON runs (parent);
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
    INSERT INTO runs SELECT 'r' || i, 'done', {OLD}, 'a' FROM n;
    """
    store = own_store(tmp_path, script, PLAIN + 'edges = [{ column = "parent" }]\n')
    assert store.prune().rows["runs"] == 10_501


def test_a_run_table_that_refers_to_itself_by_another_column(tmp_path: Path) -> None:
    """A fork that the profile does not know as an edge blocks the run it was made from."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT,
                       forked_from TEXT REFERENCES runs(id) ON DELETE SET NULL);
    INSERT INTO runs VALUES ('base', 'done', {OLD}, NULL, NULL), ('fork', 'done', {OLD}, NULL, 'base');
    """
    store = own_store(tmp_path, script)
    assert store.verdicts("base", "fork") == {"base": "blocked unknown-reference:runs", "fork": "expired"}
    store.prune()
    assert store.left() == ["base"]
    assert store.verdicts("base") == {"base": "expired"}


def test_a_protection_with_a_foreign_key_protects_and_does_not_block(tmp_path: Path) -> None:
    """A table that the profile names as a protection is known, if each of its rows protects."""
    script = """
    CREATE TABLE queue (run TEXT REFERENCES runs(id), state TEXT); INSERT INTO queue VALUES ('used', 'ended');
    """
    protect = 'protect = [{ reason = "queued", table = "queue", column = "run" }]\n'
    whole = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE + protect)
    assert whole.verdicts("used") == {"used": "protected queued"}
    part = protect.replace(" }]", ', where = { state = { equals = "new" } } }]')
    whole.profile.write_text(whole.profile.read_text().replace(protect, part))
    assert whole.verdicts("used") == {"used": "blocked unknown-reference:queue"}


# Triggers


@pytest.mark.parametrize("table", ["runs", "steps", "parts", "RUNS"])
@pytest.mark.parametrize("when", ["AFTER DELETE", "BEFORE DELETE", "AFTER UPDATE"])
def test_an_unknown_trigger_on_a_table_that_loses_rows_is_refused(
    tmp_path: Path, table: str, when: str
) -> None:
    """What a trigger does to a removal is unknown: planning works, removal does not."""
    trigger = f"CREATE TRIGGER watch {when} ON {table} BEGIN SELECT 1; END;"
    store = own_store(tmp_path, RUNS + TWO + STEPS + trigger, TREE)
    assert store.plan().units.expired == 2
    before = store.content()
    with store.retention() as retention, pytest.raises(Refused, match="has a trigger 'watch'"):
        retention.prune(DAY)
    assert store.content() == before


def test_a_trigger_that_the_profile_lists_is_known(tmp_path: Path) -> None:
    """A profile can say that a trigger was looked at."""
    script = "CREATE TRIGGER watch AFTER DELETE ON steps BEGIN SELECT 1; END;"
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE, detect='triggers = ["watch"]')
    assert store.prune().units.removed == 2


def test_a_trigger_on_a_table_that_loses_no_row_does_not_matter(tmp_path: Path) -> None:
    """Only tables we delete from count."""
    script = (
        "CREATE TABLE users (id); CREATE TRIGGER watch AFTER DELETE ON users BEGIN DELETE FROM runs; END;"
    )
    assert own_store(tmp_path, RUNS + TWO + STEPS + script, TREE).prune().units.removed == 2


# What is told


def test_a_foreign_key_without_an_index_is_told(tmp_path: Path) -> None:
    """Each removal would read the whole referring table; its owner can help."""
    script = "CREATE TABLE bills (run TEXT REFERENCES runs(id));"
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE)
    assert "the foreign key of bills (run) has no index" in notices(store)
    store.run("CREATE INDEX bills_run ON bills (run)")
    assert "no index" not in notices(store)


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("ON runs (ended)", False),
        ("ON runs (ended DESC)", False),
        ("ON runs (ended, id)", False),
        ("ON runs (ended) WHERE ended IS NOT NULL", False),
        ("ON runs (ended) WHERE status = 'done'", True),
        ("ON runs (ended) WHERE ended > 5", True),
        ("ON runs (ended + 0)", True),
        ("ON runs (status, ended)", True),
    ],
)
def test_only_an_index_that_finds_every_end_serves_the_pages(tmp_path: Path, index: str, told: bool) -> None:
    """Partial indexes and those on an expression are no help, and do no harm."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER); CREATE INDEX "by end" {index};
    INSERT INTO runs VALUES ('a', 'done', {OLD}), ('b', 'done', {OLD + 1}), ('live', 'running', NULL);
    """
    store = own_store(tmp_path, script)
    assert ("no index serves ended" in notices(store)) == told
    assert store.prune().units.removed == 2


@pytest.mark.parametrize(
    "index", ["parent COLLATE NOCASE", "parent) WHERE (status = 'done'", "parent) WHERE (parent IS NOT NULL"]
)
def test_children_are_found_whatever_index_there_is(tmp_path: Path, index: str) -> None:
    """An index in another collation, or on some rows, cannot hide a child."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent TEXT);
    CREATE INDEX runs_parent ON runs ({index});
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL), ('b', 'running', NULL, 'a'), ('c', 'done', {OLD},
        NULL);
    """
    store = own_store(tmp_path, script, PLAIN + 'edges = [{ column = "parent" }]\n')
    assert store.verdicts("a", "c") == {"a": "protected live-member", "c": "expired"}
    store.prune()
    assert store.left() == ["a", "b"]


def test_an_owned_table_without_an_index_is_told(tmp_path: Path) -> None:
    """Each batch would read all of it."""
    script = "CREATE TABLE logs (run TEXT); INSERT INTO logs VALUES ('free'), ('other');"
    store = own_store(tmp_path, RUNS + TWO + script, PLAIN + 'owned = [{ table = "logs", column = "run" }]\n')
    assert "no index serves logs (run)" in notices(store)
    store.prune()
    assert store.left("logs", "run") == ["other"]


def test_views_are_ignored(tmp_path: Path) -> None:
    """A view holds no rows, whatever its columns are called; it can stand for no table of a profile."""
    script = "CREATE VIEW recent AS SELECT id AS run_id, id, status, ended FROM runs;"
    store = own_store(tmp_path, RUNS + TWO + STEPS + script, TREE, detect='key_columns = ["run_id"]')
    assert store.verdicts("used") == {"used": "expired"}
    other = own_store(_folder(tmp_path), RUNS + script, PLAIN.replace('"runs"', '"recent"'))
    with pytest.raises(ProfileError, match="there is no table recent"):
        other.open()


def _folder(path: Path) -> Path:
    folder = path / "other"
    folder.mkdir()
    return folder


# What does not fit


def misfits(own: OwnStore) -> tuple[str, ...]:
    """Open a store that its profile does not fit, and return what is told."""
    with pytest.raises(ProfileError, match="the profile own does not fit this store") as caught:
        own.open()
    return caught.value.problems


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    """Missing tables and columns of every part of a profile come with the nearest name that exists."""
    script = """
    CREATE TABLE run (id TEXT PRIMARY KEY, state TEXT);
    CREATE TABLE runs (id TEXT PRIMARY KEY, state TEXT, ended_at INTEGER);
    CREATE TABLE queue (run_id TEXT); CREATE TABLE task (id TEXT PRIMARY KEY);
    CREATE TABLE current (run TEXT PRIMARY KEY);
    """
    tree = (
        PLAIN.replace('"ended"', '"ended-at"').replace('"status"', '"status"')
        + """
    edges = [{ column = "parent" }, { column = "id", via = { table = "tasks", key = "id", owner = "run" } }]
    seen = [{ column = "made", format = "epoch_ms" }]
    group = ["name"]
    idempotency_key = "request"
    lookup.cur = { table = "current", on = { run_id = "id" } }
    protect = [
      { reason = "queued", table = "queue", column = "run", where = { state = { null = true } } },
      { reason = "held", where = { hold = { null = false }, "cur.hold" = { null = false } } },
    ]
    owned = [{ table = "queues", column = "run" }, { table = "later", column = "run", optional = true }]
    """
    )
    store = own_store(tmp_path, script, tree, detect='key_columns = ["run"]')
    assert misfits(store) == (
        "the table current has no column hold",
        "the table current has no column run_id (did you mean 'run'?)",
        "the table queue has no column run (did you mean 'run_id'?)",
        "the table queue has no column state",
        "there is no table queues (did you mean 'queue'?)",
        "the table runs has no column ended-at (did you mean 'ended_at'?)",
        "the table runs has no column hold",
        "the table runs has no column made",
        "the table runs has no column name",
        "the table runs has no column parent",
        "the table runs has no column request",
        "the table runs has no column status (did you mean 'state'?)",
        "there is no table tasks (did you mean 'task'?)",
    )


def test_a_version_that_cannot_be_read_does_not_fit(tmp_path: Path) -> None:
    """The table and the column of the version are needed, too."""
    own = own_store(tmp_path, RUNS)
    own.run("ALTER TABLE version RENAME COLUMN number TO no; ALTER TABLE version RENAME TO versions")
    assert misfits(own) == ("there is no table version (did you mean 'versions'?)",)
    own.run("ALTER TABLE versions RENAME TO version")
    assert misfits(own) == ("the table version has no column number",)


@pytest.mark.parametrize(
    ("script", "tree", "told"),
    [
        (
            "CREATE TABLE runs (id TEXT, status TEXT, ended INTEGER); CREATE INDEX i ON runs (id)",
            PLAIN,
            "nothing keeps runs (id) unique",
        ),
        (
            "CREATE TABLE runs (tenant TEXT, id TEXT, status TEXT, ended INTEGER, PRIMARY KEY (tenant, id))",
            PLAIN,
            "nothing keeps runs (id) unique",
        ),
        (
            (
                "CREATE TABLE runs (id TEXT, status TEXT, ended INTEGER);"
                "CREATE UNIQUE INDEX i ON runs (id) WHERE status = 'done'"
            ),
            PLAIN,
            "nothing keeps runs (id) unique",
        ),
        (
            f"{RUNS} CREATE TABLE cur (run TEXT, n INTEGER)",
            PLAIN + 'lookup.c = { table = "cur", on = { run = "id" } }\n',
            "nothing keeps cur (run) unique",
        ),
        (
            f"{RUNS} CREATE TABLE steps (id INTEGER, run TEXT)",
            PLAIN + 'edges = [{ column = "parent", via = { table = "steps", key = "id", owner = "run" } }]\n',
            "nothing keeps steps (id) unique",
        ),
    ],
)
def test_a_key_that_may_stand_for_several_rows_does_not_fit(
    tmp_path: Path, script: str, tree: str, told: str
) -> None:
    """Promise 1: removing one run by its key must never take another."""
    (line,) = misfits(own_store(tmp_path, f"{script};", tree))
    assert line.startswith(told)


def test_a_unique_index_tells_rows_apart_as_well_as_a_primary_key(tmp_path: Path) -> None:
    """What matters is that no two rows have the key."""
    script = f"""
    CREATE TABLE runs (n INTEGER PRIMARY KEY, id TEXT, status TEXT, ended INTEGER);
    CREATE UNIQUE INDEX runs_id ON runs (id) WHERE id IS NOT NULL;
    INSERT INTO runs (id, status, ended) VALUES ('a', 'done', {OLD}), (NULL, 'done', {OLD}), (NULL,
        'done', {OLD});
    """
    store = own_store(tmp_path, script)
    assert store.plan().units.blocked == {"unreadable-key": 2}
    store.prune()
    assert store.left() == [None, None]
