"""Names and keys as engines may have them: hostile names, other types, loose collations, odd tables."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy
from own_store import HOURS_AGO, OLD, PLAIN, own_store

NAMES = [
    *(
        "select",
        "group",
        "order",
        "table",
        "index",
        "from",
        "rowid",
        "key",
        "keys",
        "now",
        "value",
        "position",
    ),
    *(
        "raw",
        "ranked",
        "reached",
        "u",
        "p",
        "k",
        "r",
        "w",
        "l",
        "t",
        "h",
        "o",
        "ended",
        "tie",
        "child",
        "parent",
    ),
    *("two words", " lead", "o'clock", 'say "hi"', '"; DROP TABLE version; --', "'); DROP TABLE version; --"),
    *(
        "a.b",
        "100%",
        "%s",
        "%(name)s",
        ":x",
        "?",
        "@v",
        "$1",
        "[x]",
        "`x`",
        "a,b",
        "a;b",
        "a--b",
        "/*",
        "\\",
        "{x}",
    ),
    *(
        "l\u00e4uft",
        "\u8d70",
        "\U0001f3c3",
        "la\u0308uft",
        "anon_1",
        "count_1",
        "lookup-m",
    ),
]


def sql(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def toml(name: str) -> str:
    """Quote a name for TOML."""
    return json.dumps(name, ensure_ascii=False)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_or_column_is_only_a_name(tmp_path: Path, name: str) -> None:
    """All names of a profile, hostile at once: verdicts, counts and removal are right all the same."""
    columns = {part: f"{name}{part}" for part in ("status", "ended", "group", "mark", "holder")}
    t, key, up = sql(name), sql(name), sql(f"{name}2")
    status, ended, group, mark, holder = (sql(column) for column in columns.values())
    steps, held, meta = (sql(f"{name} {part}") for part in ("steps", "held", "meta"))
    script = f"""
    CREATE TABLE {t} ({key} TEXT PRIMARY KEY, {status} TEXT, {ended} INTEGER,
        {up} TEXT REFERENCES {t}({key}), {group} TEXT);
    CREATE INDEX {sql(name + " by end")} ON {t} ({ended});
    CREATE INDEX {sql(name + " by parent")} ON {t} ({up});
    CREATE TABLE {steps} ({key} TEXT REFERENCES {t} ({key}));
    CREATE INDEX {sql(name + " by run")} ON {steps} ({key});
    CREATE TABLE {held} ({key} TEXT, {holder} TEXT, {mark} INTEGER);
    CREATE TABLE {meta} ({key} TEXT PRIMARY KEY, {mark} TEXT);
    CREATE TABLE {sql(name + " bills")} ({mark} TEXT REFERENCES {t} ({key}));
    INSERT INTO {t} VALUES ('a', 'done', {OLD}, NULL, 'g'), ('b', 'done', {OLD}, 'a', 'g'),
        ('live', 'running', NULL, NULL, 'g'), ('held', 'done', {OLD}, NULL, 'g'), ('own', 'done', {OLD},
            NULL, 'g'),
        ('billed', 'done', {OLD}, NULL, 'g'), ('late', 'done', {HOURS_AGO}, NULL, 'g');
    INSERT INTO {steps} VALUES ('a'), ('b'), ('b'), ('live');
    INSERT INTO {held} VALUES ('held', 'live', 1), ('a', 'live', 0), ('b', 'held', 1);
    INSERT INTO {meta} VALUES ('own', 'x');
    INSERT INTO {sql(name + " bills")} VALUES ('billed');
    """
    refers = f'reason = "held", table = {toml(name + " held")}, column = {toml(name)}'
    refers += f", by_live = {toml(columns['holder'])}"
    tree = f"""
    table = {toml(name)}
    key = {toml(name)}
    status = {toml(columns["status"])}
    terminal = ["done"]
    successful = ["done"]
    live = [["running"]]
    end = [{{ column = {toml(columns["ended"])}, format = "epoch_ms" }}]
    seen = [{{ column = {toml(columns["ended"])}, format = "epoch_ms" }}]
    edges = [{{ column = {toml(name + "2")} }}]
    group = [{toml(columns["group"])}]
    lookup.m = {{ table = {toml(name + " meta")}, on = {{ {toml(name)} = {toml(name)} }} }}
    owned = [{{ table = {toml(name + " steps")}, column = {toml(name)} }}]
    protect = [
      {{ {refers}, where = {{ {toml(columns["mark"])} = {{ equals = 1 }} }} }},
      {{ reason = "own", where = {{ {toml("m." + columns["mark"])} = {{ equals = "x" }} }} }},
    ]
    """
    if "." in name:  # a dot stands for a lookup in these places
        script, tree = (
            text.replace(name + "status", "s").replace(name + "ended", "e") for text in (script, tree)
        )
        script, tree = script.replace(name + "group", "g"), tree.replace(name + "group", "g")
    store = own_store(tmp_path, script, tree)
    expected = {
        "a": "expired",
        "b": "in a: expired",
        "live": "protected live-member",
        "held": "protected held",
        "own": "protected own",
        "billed": f"blocked unknown-reference:{name} bills",
        "late": "recent keep-for",
    }
    assert store.verdicts(*expected) == expected
    with store.retention(writable=False) as retention:
        assert retention.store.newest(retention.store.now()) == HOURS_AGO * 1_000
        assert retention.store.groups((0,)) == 1
        assert list(retention.store.problems()) == []
    newest = Policy(keep_last=1)
    assert store.verdicts("a", "late", policy=newest) == {"a": "expired", "late": "recent keep-last"}
    assert store.prune().rows[name] == 2
    assert store.left(name.replace('"', '""'), name.replace('"', '""')) == [
        "billed",
        "held",
        "late",
        "live",
        "own",
    ]
    assert store.left("version", "number") == [1]


def test_the_hostile_names_are_hostile() -> None:
    """The names above are all different, and none holds a control character."""
    assert len(set(NAMES)) == len(NAMES)
    assert all(char >= " " for name in NAMES for char in name)


# Keys of other types


@pytest.mark.parametrize("kind", ["INTEGER", "INT", "BIGINT", "", "NUMERIC"])
@pytest.mark.parametrize("option", ["", " WITHOUT ROWID"])
def test_runs_may_have_numbers_for_keys(tmp_path: Path, kind: str, option: str) -> None:
    """Keys of any size are found again exactly, by number and by what is typed."""
    big = 2**63 - 1
    script = f"""
    CREATE TABLE runs (id {kind} PRIMARY KEY, status TEXT, ended INTEGER, parent {kind}){option};
    CREATE INDEX runs_parent ON runs (parent);
    CREATE TABLE steps (run {kind});
    INSERT INTO runs VALUES (1, 'done', {OLD}, NULL), (2, 'done', {OLD}, 1), ({big}, 'done', {OLD}, NULL),
        ({big - 1}, 'running', NULL, NULL), (-7, 'done', {OLD}, {big - 1}), (0, 'done', {OLD}, NULL);
    INSERT INTO steps VALUES (1), (2), ({big}), ({big - 1}), (-7), (10);
    """
    tree = PLAIN + 'edges = [{ column = "parent" }]\nowned = [{ table = "steps", column = "run" }]\n'
    store = own_store(tmp_path, script, tree)
    assert store.verdicts("1", "2", str(big), str(big - 1), "-7", "0") == {
        "1": "expired",
        "2": "in 1: expired",
        str(big): "expired",
        str(big - 1): "protected live-member",
        "-7": f"in {big - 1}: protected live-member",
        "0": "expired",
    }
    assert dict(store.prune().rows) == {"steps": 3, "runs": 4}
    assert store.left() == [-7, big - 1]
    assert store.left("steps", "run") == [-7, 10, big - 1]


REFERENCE = """
edges = [{ column = "parent" }]
protect = [{ reason = "queued", table = "queue", column = "run" }]
owned = [{ table = "steps", column = "run" }]
"""


@pytest.mark.parametrize("kind", ["TEXT", "INTEGER", "", "BLOB", "REAL"])
def test_a_reference_of_another_type_protects_what_it_may_mean(tmp_path: Path, kind: str) -> None:
    """Promise 3: where the database takes '5' and 5 for equal, the reference holds, and rows match."""
    script = f"""
    CREATE TABLE runs (id INTEGER PRIMARY KEY, status TEXT, ended INTEGER, parent INTEGER);
    CREATE TABLE queue (run {kind}); CREATE TABLE steps (run {kind});
    INSERT INTO runs VALUES (5, 'done', {OLD}, NULL), (55, 'done', {OLD}, 5), (6, 'done', {OLD}, NULL);
    INSERT INTO queue VALUES (CAST(55 AS {kind or "INTEGER"}));
    INSERT INTO steps VALUES (CAST(5 AS {kind or "INTEGER"})), (CAST(6 AS {kind or "INTEGER"}));
    """
    store = own_store(tmp_path, script, PLAIN + REFERENCE)
    verdict = store.verdicts("5", "6")
    if kind == "BLOB":  # bytes equal no number anywhere in the database
        assert verdict == {"5": "expired", "6": "expired"}
        store.plan()
    else:
        assert verdict == {"5": "protected queued", "6": "expired"}
        store.prune()
        assert (store.left(), store.counts()["steps"]) == ([5, 55], 1)


@pytest.mark.parametrize(
    "kinds", [("INTEGER", "TEXT"), ("TEXT", "INTEGER"), ("INTEGER", ""), ("TEXT", "")], ids=str
)
def test_a_parent_of_another_type_never_lets_a_parent_go_alone(
    tmp_path: Path, kinds: tuple[str, str]
) -> None:
    """Promise 1: a live child that spells its parent in another type keeps it, if only by a block."""
    key, parent = kinds
    script = f"""
    CREATE TABLE runs (id {key} PRIMARY KEY, status TEXT, ended INTEGER, parent {parent});
    CREATE INDEX runs_parent ON runs (parent); CREATE INDEX runs_ended ON runs (ended);
    INSERT INTO runs VALUES (5, 'done', {OLD}, NULL), (6, 'running', NULL, '5'), (7, 'done', {OLD}, NULL),
        (8, 'running', NULL, 5);
    """
    store = own_store(tmp_path, script, PLAIN + 'edges = [{ column = "parent" }]\n')
    store.prune()
    assert {str(run) for run in store.left()} >= {"5", "6", "8"}


@pytest.mark.parametrize("live", ["5", "'5'"])
def test_a_number_and_its_text_can_be_two_runs(tmp_path: Path, live: str) -> None:
    """Promise 1: where the key column has no type, 5 and '5' are two runs, and one goes alone."""
    script = f"""
    CREATE TABLE runs (id PRIMARY KEY, status TEXT, ended INTEGER); CREATE TABLE steps (run);
    INSERT INTO runs VALUES (5, 'done', {OLD}), ('5', 'done', {OLD});
    UPDATE runs SET status = 'running' WHERE id = {live};
    INSERT INTO steps VALUES (5), ('5');
    """
    store = own_store(tmp_path, script, PLAIN + 'owned = [{ table = "steps", column = "run" }]\n')
    assert dict(store.prune().rows) == {"steps": 1, "runs": 1}
    assert [repr(run) for run in store.left()] == [live] == [repr(run) for run in store.left("steps", "run")]


# Keys that compare loosely


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM"])
@pytest.mark.parametrize("option", ["", " WITHOUT ROWID"])
def test_runs_whose_keys_compare_loosely(tmp_path: Path, collation: str, option: str) -> None:
    """All columns in one loose collation: an id in other letters is the same run to the engine."""
    same = {"NOCASE": "RUN", "RTRIM": "run  "}[collation]
    kind = f"TEXT COLLATE {collation}"
    script = f"""
    CREATE TABLE runs (id {kind} PRIMARY KEY, status TEXT, ended INTEGER, parent {kind}){option};
    CREATE INDEX runs_parent ON runs (parent); CREATE INDEX runs_ended ON runs (ended);
    CREATE TABLE queue (run {kind}); CREATE TABLE steps (run {kind});
    INSERT INTO runs VALUES ('run', 'done', {OLD}, NULL), ('free', 'done', {OLD}, NULL), ('kid', 'done',
        {OLD}, '{same}');
    INSERT INTO steps VALUES ('{same}'), ('free');
    """
    store = own_store(tmp_path, script, PLAIN + REFERENCE)
    found = store.verdicts("run", "free")
    assert found == {"run": "blocked ambiguous-parent", "free": "expired"}
    store.run("DELETE FROM runs WHERE id = 'kid'")
    store.run(f"INSERT INTO queue VALUES ('{same}')")
    assert store.verdicts("run", "free") == {"run": "protected queued", "free": "expired"}
    store.prune()
    assert (store.left(), store.left("steps", "run")) == (["run"], [same])
    store.run("DELETE FROM queue")
    assert dict(store.prune().rows) == {"steps": 1, "runs": 1}


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM"])
def test_a_column_that_is_looser_than_the_key_takes_no_row_of_another_run(
    tmp_path: Path, collation: str
) -> None:
    """Promise 5: runs whose ids differ by letters alone keep their own rows and children."""
    other = {"NOCASE": "RUN", "RTRIM": "run "}[collation]
    kind = f"TEXT COLLATE {collation}"
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, parent {kind});
    CREATE INDEX runs_parent ON runs (parent);
    CREATE TABLE queue (run TEXT); CREATE TABLE steps (id TEXT PRIMARY KEY, run {kind});
    CREATE TABLE parts (step {kind}); CREATE INDEX steps_run ON steps (run);
    INSERT INTO runs VALUES ('run', 'done', {OLD}, NULL), ('{other}', 'running', NULL, NULL),
        ('kid', 'done', {OLD}, 'run'), ('{other}-kid', 'running', NULL, '{other}');
    INSERT INTO steps VALUES ('s', 'run'), ('{other.replace("run", "s").replace("RUN", "S")}', '{other}'),
        ('k', 'kid');
    INSERT INTO parts VALUES ('s'), ('{other.replace("run", "s").replace("RUN", "S")}');
    """
    owned = """owned = [
      { table = "parts", column = "step", via = { table = "steps", key = "id", owner = "run" } },
      { table = "steps", column = "run" },
    ]"""
    tree = PLAIN + REFERENCE.replace('owned = [{ table = "steps", column = "run" }]', owned)
    store = own_store(tmp_path, script, tree)
    assert store.verdicts("run", other) == {"run": "expired", other: "protected live-member"}
    assert dict(store.prune().rows) == {"parts": 1, "steps": 2, "runs": 2}
    assert store.left() == sorted([other, f"{other}-kid"])
    assert store.left("steps", "run") == [other]
    assert len(store.left("parts", "step")) == 1


def test_a_status_that_compares_loosely_is_still_an_exact_word(tmp_path: Path) -> None:
    """Promise 3: `DONE` is not `done`, even where the database says so: the census sees an unknown word."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT COLLATE NOCASE, ended INTEGER);
    INSERT INTO runs VALUES ('a', 'done', {OLD}), ('b', 'DONE', {OLD}), ('c', 'Running', NULL);
    """
    store = own_store(tmp_path, script)
    assert store.verdicts("a", "b", "c") == {
        "a": "expired",
        "b": "blocked unknown-status",
        "c": "blocked unknown-status",
    }
    with store.retention(writable=False) as retention:
        assert dict(retention.store.census().unknown) == {"DONE": 1, "Running": 1}
    assert store.plan().units.blocked == {"unknown-status": 2}


def test_groups_that_compare_loosely_are_kept_apart(tmp_path: Path) -> None:
    """`keep_last` counts exact values: two spellings are two groups."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, name TEXT COLLATE NOCASE);
    INSERT INTO runs VALUES ('a1', 'done', {OLD}, 'x'), ('a2', 'done', {OLD + 5}, 'x'), ('b1', 'done',
        {OLD + 1}, 'X'),
        ('b2', 'done', {OLD + 4}, 'X'), ('n1', 'done', {OLD}, NULL), ('n2', 'done', {OLD + 1}, NULL);
    """
    store = own_store(tmp_path, script, PLAIN + 'group = ["name"]\n')
    assert store.prune(Policy(keep_last=1)).units.removed == 3
    assert store.left() == ["a2", "b2", "n2"]
    with store.retention(writable=False) as retention:
        assert retention.store.groups((0,)) == 3


def test_a_collation_that_only_the_engine_has_does_not_keep_us_from_opening(tmp_path: Path) -> None:
    """Another table of the database may use what this process lacks."""
    store = own_store(
        tmp_path,
        "CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER);"
        f"INSERT INTO runs VALUES ('a', 'done', {OLD});",
    )
    store.run(
        "PRAGMA writable_schema = ON;"
        "INSERT INTO sqlite_schema SELECT 'table', 'names', 'names', 0, 'x' WHERE 0;"
        "CREATE TABLE names (name TEXT);"
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE names (name TEXT COLLATE ICU_DE)' WHERE name = 'names';"
    )
    assert store.prune().units.removed == 1


def test_generated_columns_and_strict_tables(tmp_path: Path) -> None:
    """Modern tables are tables like others; a generated column can hold the end."""
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, started INTEGER, took INTEGER,
                       ended INTEGER GENERATED ALWAYS AS (started + took) VIRTUAL) STRICT;
    CREATE INDEX runs_ended ON runs (ended);
    INSERT INTO runs (id, status, started, took) VALUES ('a', 'done', {OLD}, 5), ('b', 'running', {OLD},
        NULL),
        ('c', 'done', {OLD}, NULL);
    """
    store = own_store(tmp_path, script)
    assert store.verdicts("a", "c") == {"a": "expired", "c": "blocked unknown-end-time"}
    store.prune()
    assert store.left() == ["b", "c"]
    with store.retention(writable=False) as retention:
        assert [stream.indexed for stream in retention.store.streams()] == [True]


def test_ages_and_groups_together(tmp_path: Path) -> None:
    """Two keep rules of a user's own store hold together as on any other."""
    runs = ", ".join(f"('r{i}', 'done', {OLD + i}, 'g{i % 2}')" for i in range(10))
    script = f"""
    CREATE TABLE runs (id TEXT PRIMARY KEY, status TEXT, ended INTEGER, name TEXT);
    INSERT INTO runs VALUES {runs}, ('new', 'done', {HOURS_AGO}, 'g0');
    """
    store = own_store(tmp_path, script, PLAIN + 'group = ["name"]\n')
    store.prune(Policy(keep_for=timedelta(days=1), keep_last=2))
    assert store.left() == ["new", "r7", "r8", "r9"]
