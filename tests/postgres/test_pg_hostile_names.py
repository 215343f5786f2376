"""Names and ids that would break a statement put together without care."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from afterrun import Report
from cli.kit import run_cli
from pg_server import Database
from postgres.pg_own_store import COLUMN_WORDS, MONTH, TABLE_WORDS, OwnPgStore
from sites import DAY_MS

KINDS: Final[dict[str, str]] = {
    "quotes": """{}"'`\\""",
    "percent": "{}%s%(keys)s%%",
    "colon": "{}:keys::text",
    "dots": "a.b.{}",
    "blanks": " {}\N{NO-BREAK SPACE} ",
    "unicode": "größe\N{CRAB}\N{RIGHT-TO-LEFT OVERRIDE}{}",
    "words": "SELECT {} FROM",
    "capitals": "{}ORDER",
    "longest": "{:x<63}",
    "braces": "{{{{0}}}}{}",
}
ALIASES: Final = (
    "u",
    "p",
    "k",
    "r",
    "w",
    "t",
    "l",
    "h",
    "o",
    "raw",
    "rows",
    "live",
    "reached",
    "given",
    "each",
)
"""Names that our own statements use."""

LABELS: Final = {
    "id": "key",
    "status": "tie",
    "ended": "parent",
    "parent": "child",
    "kind": "ended",
    "run": "held",
    "child": "key",
    "number": "status",
}
"""Columns called like the columns of our statements, and crosswise."""

IDS: Final = [
    "",
    " ",
    "NULL",
    "null",
    "{}",
    "{a,b}",
    '"',
    '""',
    "'",
    "''; DROP TABLE runs; --",
    "\\",
    "\\\\",
    '\\"',
    ",",
    "a,b",
    "\n",
    "a\r\nb",
    "\t",
    "\x01\x7f",
    "%",
    "%s",
    "%(keys)s",
    ":keys",
    "$1",
    "\N{CRAB}",
    "\N{RIGHT-TO-LEFT OVERRIDE}x",
    "e\N{COMBINING ACUTE ACCENT}",
    "é",
    "É",
    "trailing ",
    "trailing",
    "TRAILING",
    "0",
    "00",
    "1e5",
    "[red]x[/red]",
    "x" * 2_000,
    "y" * 100_000,
    "\ufffe",
    "\U0010ffff",
]


def fill(store: OwnPgStore, ids: list[str]) -> None:
    """Make a tree of a root and a child for each id, and a live run that holds the last one."""
    (now,) = store.database.rows("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0]
    old = now - 100 * DAY_MS
    store.add(*((key, "done", old, None) for key in ids))
    store.add(*((f"child of {key}", "failed", old + 1, key) for key in ids))
    store.add(("the live one", "running", None, None))
    store.handle("the live one", ids[-1])


def check(store: OwnPgStore, ids: list[str]) -> Report:
    """Expect all trees to go but the one that is held, and each to be found by its id before."""
    fill(store, ids)
    with store.open() as retention:
        for key in ids:
            found = retention.explain(f"child of {key}", MONTH)
            assert (found.unit, len(found.members)) == (key, 2)
        assert retention.inspect()
        assert all(retention.store.statements().values())
    report = store.prune()
    assert report.units.removed == len(ids) - 1
    assert store.left() == sorted([ids[-1], f"child of {ids[-1]}", "the live one"])
    assert len(store.left("steps", "run")) == 4
    return report


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_every_kind_are_only_names(floor: Database, tmp_path: Path, kind: str) -> None:
    """Schema, tables and columns, with quotes, marks of parameters, dots, and of the greatest length."""
    tables = {word: KINDS[kind].format(word) for word in TABLE_WORDS}
    columns = {word: word if kind == "dots" else KINDS[kind].format(word) for word in COLUMN_WORDS}
    names = tables | columns  # a dot in a column's name is the profile's own, before a lookup's column
    store = OwnPgStore(database=floor, folder=tmp_path, schema=KINDS[kind].format("own"), names=names)
    assert check(store, ["x", "y", "z"]).rows == {names["runs"]: 4, names["steps"]: 4}
    words = ("--profile", store.profile, "--keep-for", "30d", "--json")
    answer = run_cli("plan", floor.url(schema=store.schema), *words, "--show-sql")
    assert answer.code == 0
    assert answer.json["units"]["tree"]["protected"] == {"handle": 1, "live-member": 1}


@pytest.mark.parametrize("own", ["runs", "steps"])
@pytest.mark.parametrize("alias", ALIASES)
def test_a_table_may_be_called_like_an_alias_of_ours(
    floor: Database, tmp_path: Path, alias: str, own: str
) -> None:
    """Every name of a statement is the one that is meant."""
    names = {word: word for word in (*TABLE_WORDS, *COLUMN_WORDS)} | {own: alias}
    check(OwnPgStore(database=floor, folder=tmp_path, names=names), ["x", "y", "z"])


def test_columns_may_be_called_like_those_of_our_statements(floor: Database, tmp_path: Path) -> None:
    """Each means what the profile says, not what a statement calls so."""
    names = {word: word for word in TABLE_WORDS} | LABELS
    check(OwnPgStore(database=floor, folder=tmp_path, names=names), ["x", "y", "z"])


def test_ids_of_every_kind_are_found_and_removed(floor: Database, tmp_path: Path) -> None:
    """Quotes, backslashes, line ends, the empty one and very long ones; alike ones are told apart."""
    check(OwnPgStore(database=floor, folder=tmp_path), IDS)


@pytest.mark.parametrize("held", ["", "NULL", "{}", "\\", '"', "trailing "])
def test_one_odd_id_alone_is_neither_lost_nor_taken_for_another(
    floor: Database, tmp_path: Path, held: str
) -> None:
    """The id that a live run refers to stays, however little of it there is."""
    others = [key for key in IDS if key != held]
    check(OwnPgStore(database=floor, folder=tmp_path), [*others, held])


def test_a_table_called_like_one_of_another_schema_is_told_apart(floor: Database, tmp_path: Path) -> None:
    """A table with a dot in its name, and one of a schema before that dot, block what each refers to."""
    store = OwnPgStore(database=floor, folder=tmp_path)
    fill(store, ["x", "y", "z", "held"])
    store.run(
        "CREATE SCHEMA other; CREATE TABLE other.b (run text REFERENCES {schema}.{runs});"
        "INSERT INTO other.b VALUES ('x');"
        'CREATE TABLE {schema}."other.b" (run text REFERENCES {schema}.{runs});'
        "INSERT INTO {schema}.\"other.b\" VALUES ('child of y')"
    )
    report = store.prune()
    assert report.units.removed == 1
    assert sorted(report.units.blocked) == ["unknown-reference:other.b", "unknown-reference:other.b'"]
    assert {"x", "y", "held"} <= set(store.left())
    assert "z" not in store.left()
