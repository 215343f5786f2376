"""What holds a run from outside its row, and what holds it by its own: each condition a profile can say."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from afterrun.stores import open_store
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.store import SqlStore
from own_store import OLD, PLAIN, RUNS, OwnStore, own_store

NOW = time.time_ns() // 1_000_000
HOUR = 3_600_000

CONDITIONS = {
    "equals = 1": (["1", "1.0"], ["0", "2", "NULL", "'1'", "'x'", "x'31'"]),
    'equals = "a"': (["'a'"], ["'A'", "'a '", "''", "NULL", "1"]),
    'equals = "o\'clock"': (["'o''clock'"], ["'o'", "NULL"]),
    "in = [1, 2]": (["1", "2"], ["3", "NULL", "'1'"]),
    'in = ["a"]': (["'a'"], ["'b'", "NULL"]),
    'in = ["a", "b", 3]': (["'a'", "'b'", "3"], ["'c'", "4", "NULL"]),
    'not_in = ["a", "b"]': (["'c'", "''", "1", "NULL"], ["'a'", "'b'"]),
    'not_in = ["a"]': (["'b'", "NULL"], ["'a'"]),
    "null = true": (["NULL"], ["0", "''"]),
    "null = false": (["0", "''"], ["NULL"]),
    'future = "epoch_ms"': (
        [str(NOW + HOUR), str(NOW + HOUR + 0.5), "9e300", "'soon'", "x'00'", str(NOW // 1000)],
        [str(NOW - HOUR), str(OLD), "NULL"],
    ),
    'future = "epoch_s"': ([str(NOW // 1000 + 3600)], [str(NOW // 1000 - 3600)]),
    'future = "text_utc"': (
        ["'2999-01-01 00:00:00'", "'2999-01-01T00:00:00+02:00'", "'tomorrow'", "5"],
        ["'2020-01-01 00:00:00'", "NULL"],
    ),
    'future = "epoch_ms", not_in = [0]': ([str(NOW + HOUR), "'soon'"], ["0", str(NOW - HOUR)]),
    'null = false, not_in = ["a"]': (["'b'"], ["'a'", "NULL"]),
}
"""For each condition, values (as SQL) of a column that fulfil it and values that do not.

A time that makes no sense counts as future: unknown means keep.
"""


LOOKED_UP = '"m.mark"'
NEVER = '{ mark = { equals = "never" } }'


def rule(reason: str, where: str) -> str:
    """Return a protection by rows of the table of marks."""
    return f'{{ reason = "{reason}", table = "marks", column = "run", where = {where} }}'


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("place", ["own row", "lookup", "table", "beside another rule"])
def test_each_condition_holds_what_it_should(tmp_path: Path, condition: str, place: str) -> None:
    """A condition reads the same on the run's own row, on a lookup's, and on rows that refer to the run."""
    holding, free = CONDITIONS[condition]
    script = RUNS + "ALTER TABLE runs ADD COLUMN mark; CREATE TABLE marks (run TEXT PRIMARY KEY, mark);"
    for group, values in (("held", holding), ("free", free)):
        for number, value in enumerate(values):
            script += f"INSERT INTO runs VALUES ('{group}{number}', 'done', {OLD}, NULL, {value});"
            script += f"INSERT INTO marks VALUES ('{group}{number}', {value});"
    where, lookup = f"{{ mark = {{ {condition} }} }}", 'lookup.m = { table = "marks", on = { run = "id" } }\n'
    protect = {
        "own row": f'protect = [{{ reason = "marked", where = {where} }}]\n',
        "lookup": lookup
        + f'protect = [{{ reason = "marked", where = {where.replace("mark", LOOKED_UP, 1)} }}]\n',
        "table": f"protect = [{rule('marked', where)}]\n",
        "beside another rule": f"protect = [{rule('marked', where)}, {rule('never', NEVER)}]\n",
    }
    store = own_store(tmp_path, script, PLAIN + protect[place])
    expected = {f"held{number}": "protected marked" for number in range(len(holding))}
    expected |= {f"free{number}": "expired" for number in range(len(free))}
    assert store.verdicts(*expected) == expected
    store.prune()
    assert store.left() == sorted(run for run in expected if run.startswith("held"))


def test_all_conditions_of_a_protection_must_hold_and_any_protection_is_enough(tmp_path: Path) -> None:
    """Columns of one `where` are all needed; protections are alternatives, and all that hold are named."""
    script = (
        RUNS
        + f"""
    ALTER TABLE runs ADD COLUMN a; ALTER TABLE runs ADD COLUMN b;
    INSERT INTO runs VALUES ('none', 'done', {OLD}, NULL, 0, 0), ('a', 'done', {OLD}, NULL, 1, 0),
        ('b', 'done', {OLD}, NULL, 0, 1), ('both', 'done', {OLD}, NULL, 1, 1);
    """
    )
    protect = """protect = [
      { reason = "a-and-b", where = { a = { equals = 1 }, b = { equals = 1 } } },
      { reason = "has-b", where = { b = { equals = 1 } } },
    ]
    """
    store = own_store(tmp_path, script, PLAIN + protect)
    assert store.verdicts("none", "a", "b", "both") == {
        "none": "expired",
        "a": "expired",
        "b": "protected has-b",
        "both": "protected a-and-b has-b",
    }
    assert store.plan().units.protected == {"has-b": 2, "a-and-b": 1}


def test_rules_of_one_table_are_asked_together_and_each_is_named(tmp_path: Path) -> None:
    """One statement finds them all: a row may fulfil several, and rows of a run different ones."""
    script = (
        RUNS
        + f"""
    INSERT INTO runs SELECT value, 'done', {OLD}, NULL
        FROM json_each('["none", "shut", "one", "two", "each"]');
    CREATE TABLE marks (run TEXT, kind TEXT, open INTEGER, until INTEGER);
    INSERT INTO marks VALUES ('none', 'other', 1, NULL), ('shut', 'kind0', 0, NULL),
        ('one', 'kind1', 1, {OLD}), ('two', 'kind0', 1, NULL), ('each', 'kind39', 1, NULL),
        ('each', 'kind1', 1, {NOW + HOUR});
    """
    )
    kinds = [(f"k{number}", f'kind = {{ equals = "kind{number}" }}') for number in range(40)]
    kinds += [("free", "until = { null = true }, kind = { not_in = ['other'] }")]
    kinds += [("later", 'until = { future = "epoch_ms" }')]
    rules = [rule(reason, f"{{ open = {{ equals = 1 }}, {where} }}") for reason, where in kinds]
    store = own_store(tmp_path, script, PLAIN + f"protect = [{', '.join(rules)}]\n")
    assert store.verdicts("none", "shut", "one", "two", "each") == {
        "none": "expired",
        "shut": "expired",
        "one": "protected k1",
        "two": "protected free k0",
        "each": "protected free k1 k39 later",
    }
    assert len(store.open().facts.flags) == 2  # no more rules fit one number
    store.prune()
    assert store.left() == ["each", "one", "two"]


def test_a_rule_without_a_condition_holds_beside_others_of_its_table(tmp_path: Path) -> None:
    """Any row holds its run then, and what else the row fulfils is named as well."""
    script = (
        RUNS
        + f"""
    INSERT INTO runs VALUES ('any', 'done', {OLD}, NULL), ('marked', 'done', {OLD}, NULL),
        ('free', 'done', {OLD}, NULL);
    CREATE TABLE marks (run TEXT, mark TEXT);
    INSERT INTO marks VALUES ('any', NULL), ('marked', 'a');
    """
    )
    rules = ", ".join([rule("marked-a", '{ mark = { equals = "a" } }'), rule("any", "{}")])
    store = own_store(tmp_path, script, PLAIN + f"protect = [{rules}]\n")
    assert store.verdicts("any", "marked", "free") == {
        "any": "protected any",
        "marked": "protected any marked-a",
        "free": "expired",
    }


@pytest.mark.parametrize(
    "index", ["", "CREATE INDEX queue_run ON queue (run);"], ids=["unindexed", "indexed"]
)
def test_a_row_that_refers_to_any_member_holds_the_whole_tree(tmp_path: Path, index: str) -> None:
    """Promise 1: a message for a grandchild keeps its root."""
    script = (
        RUNS
        + f"""
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL), ('b', 'done', {OLD}, 'a'), ('c', 'done', {OLD}, 'b'),
        ('free', 'done', {OLD}, NULL);
    CREATE TABLE queue (run TEXT); {index}
    INSERT INTO queue VALUES ('c'), ('elsewhere'), (NULL);
    """
    )
    tree = (
        PLAIN
        + 'edges = [{ column = "parent" }]\n'
        + 'protect = [{ reason = "queued", table = "queue", column = "run" }]\n'
    )
    store = own_store(tmp_path, script, tree)
    assert store.verdicts("a", "free") == {"a": "protected queued", "free": "expired"}
    store.prune()
    assert store.left() == ["a", "b", "c"]
    assert store.counts()["queue"] == 3


BY_LIVE = f"""
ALTER TABLE runs ADD COLUMN note;
INSERT INTO runs (id, status, ended, parent) VALUES
    ('live', 'running', NULL, NULL), ('waits', 'queued', NULL, NULL), ('over', 'done', {OLD}, NULL),
    ('by-live', 'done', {OLD}, NULL), ('by-waiting', 'done', {OLD}, NULL), ('by-over', 'done', {OLD}, NULL),
    ('by-gone', 'done', {OLD}, NULL), ('by-nobody', 'done', {OLD}, NULL), ('by-both', 'done', {OLD}, NULL),
    ('root', 'done', {OLD}, NULL), ('child', 'done', {OLD}, 'root');
CREATE TABLE handles (holder TEXT, target TEXT);
CREATE INDEX handles_holder ON handles (holder);
INSERT INTO handles VALUES ('live', 'by-live'), ('waits', 'by-waiting'), ('over', 'by-over'), ('gone',
    'by-gone'),
    (NULL, 'by-nobody'), ('over', 'by-both'), ('live', 'by-both'), ('live', 'child'), ('live', NULL);
"""
BY_LIVE_TREE = (
    PLAIN.replace('live = [["running"]]', 'live = [["running"], ["queued", "paused"]]')
    + """
edges = [{ column = "parent" }]
protect = [{ reason = "handle", table = "handles", column = "target", by_live = "holder" }]
"""
)
STATUS_INDEX = "CREATE INDEX runs_running ON runs (id) WHERE status = 'running';"


@pytest.mark.parametrize(
    "index", ["", "CREATE INDEX handles_target ON handles (target);"], ids=["unindexed", "indexed"]
)
@pytest.mark.parametrize("statuses", ["", STATUS_INDEX], ids=["", "live index"])
def test_a_reference_by_a_live_run_holds_and_one_by_an_ended_run_does_not(
    tmp_path: Path, index: str, statuses: str
) -> None:
    """The same verdicts, whether the statement starts from the live runs or from what they refer to."""
    store = own_store(tmp_path, RUNS + BY_LIVE + index + statuses, BY_LIVE_TREE)
    expected = {
        "live": "protected live-member",
        "waits": "protected live-member",
        "over": "expired",
        "by-live": "protected handle",
        "by-waiting": "protected handle",
        "by-over": "expired",
        "by-gone": "expired",
        "by-nobody": "expired",
        "by-both": "protected handle",
        "root": "protected handle",
    }
    assert store.verdicts(*expected) == expected
    store.prune()
    assert store.left() == ["by-both", "by-live", "by-waiting", "child", "live", "root", "waits"]


def test_a_reference_by_a_run_whose_status_stands_in_a_lookup(tmp_path: Path) -> None:
    """Live runs are found through their lookup, too."""
    for index in ("", "CREATE INDEX handles_target ON handles (target);"):
        folder = tmp_path / f"with{index[:6]}"
        folder.mkdir()
        script = f"""
        CREATE TABLE runs (id TEXT PRIMARY KEY, ended INTEGER);
        CREATE TABLE states (run TEXT PRIMARY KEY, status TEXT);
        CREATE TABLE handles (holder TEXT, target TEXT); {index}
        INSERT INTO runs VALUES ('live', NULL), ('over', {OLD}), ('held', {OLD}), ('free', {OLD});
        INSERT INTO states VALUES ('live', 'running'), ('over', 'done'), ('held', 'done'), ('free', 'done');
        INSERT INTO handles VALUES ('live', 'held'), ('over', 'free');
        """
        tree = (
            PLAIN.replace('"status"', '"state.status"')
            + """
        lookup.state = { table = "states", on = { run = "id" } }
        protect = [{ reason = "handle", table = "handles", column = "target", by_live = "holder" }]
        owned = [{ table = "states", column = "run" }]
        """
        )
        store = own_store(folder, script, tree)
        store.prune()
        assert store.left() == ["held", "live"]
        assert store.left("states", "run") == ["held", "live"]


def test_a_lease_is_compared_with_the_clock_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease ends when the store's own clock passes it, to the microsecond."""
    until = 1_700_000_000_000_000
    script = (
        RUNS
        + f"""
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL);
    CREATE TABLE leases (run TEXT, until INTEGER); INSERT INTO leases VALUES ('a', {until});
    """
    )
    protect = """protect = [
      { reason = "lease", table = "leases", column = "run", where = { until = { future = "epoch_us" } } },
    ]
    """
    store = own_store(tmp_path, script, PLAIN + protect)
    for now, verdict in ((until - 1, "protected lease"), (until, "expired"), (until + 1, "expired")):
        monkeypatch.setattr(SQLite, "now", lambda _self, now=now: now)
        assert store.verdicts("a") == {"a": verdict}


def writable(own: OwnStore) -> SqlStore:
    """Open a store as a sweep does."""
    return open_store(str(own.path), profile=str(own.profile), writable=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("INSERT INTO queue VALUES ('b')", "queued"),
        ("INSERT INTO handles VALUES ('live', 'a')", "handle"),
        ("UPDATE runs SET status = 'running' WHERE id = 'b'", "live-member"),
        ("INSERT INTO runs VALUES ('c', 'running', NULL, 'b')", "live-member"),
        ("UPDATE runs SET mark = 1 WHERE id = 'a'", "marked"),
    ],
)
def test_a_protection_that_came_later_is_seen_by_the_recheck(
    tmp_path: Path, change: str, reason: str
) -> None:
    """Promise 2: inside the transaction the same statements find what has changed since the page."""
    script = (
        RUNS
        + f"""
    INSERT INTO runs VALUES ('a', 'done', {OLD}, NULL), ('b', 'done', {OLD}, 'a'), ('live', 'running',
        NULL, NULL);
    CREATE TABLE queue (run TEXT); CREATE TABLE handles (holder TEXT, target TEXT);
    """
    )
    change_first = "ALTER TABLE runs ADD COLUMN mark;" if "mark" in change else ""
    mark = '{ reason = "marked", where = { mark = { equals = 1 } } },' if change_first else ""
    protect = f"""edges = [{{ column = "parent" }}]
    protect = [{mark}
      {{ reason = "queued", table = "queue", column = "run" }},
      {{ reason = "handle", table = "handles", column = "target", by_live = "holder" }},
    ]
    """
    own = own_store(tmp_path, script + change_first, PLAIN + protect)
    store = writable(own)
    unit = store.find("a")
    assert (unit.protected, unit.blocked) == ((), ())
    own.run(change)
    with store.transaction(seconds=5) as batch:
        (fresh,) = batch.units([unit])
    store.close()
    assert [found.name for found in fresh.protected] == [reason]
