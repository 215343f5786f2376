"""Keys of every type that PostgreSQL has for them: whole trees go, what is referred to stays."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg
import pytest

from afterrun import Policy, UnitNotFound
from pg_binaries import majors
from pg_server import SUPERUSER, Database
from postgres.pg_own_store import MONTH, OwnPgStore
from sites import DAY_MS

oldest = pytest.mark.parametrize("postgres", majors()[-1:], indirect=True)
"""The build in the wheel lacks what collations need; an older one from a distribution has it."""

UUIDS: Final = [f"{number:08x}-0000-4000-8000-00000000000a" for number in range(6)]

NOBODY: Final = [
    "nobody",
    ",".join(UUIDS[:2]),
    "0,5",
    "1.5",
    "-",
    "",
    "{}",
    '"',
    "'",
    "\\",
    "NULL",
    "99999999999999999999",
    "1" * 400,
    "%s",
]
"""Ids that no run has, and most of which cannot be of the key's type."""

LETTERS: Final = ["a", "B", "c C", "d'", "\N{CRAB}", "f" * 80]

TYPES: Final[dict[str, list[str]]] = {
    "text": LETTERS,
    "varchar(80)": LETTERS,
    'text COLLATE "C"': LETTERS,
    "name": ["a", "B", "c", "d", "e", "f"],
    "uuid": UUIDS,
    "smallint": ["-32768", "-1", "0", "1", "2", "32767"],
    "integer": ["-2147483648", "-1", "0", "1", "2", "2147483647"],
    "bigint": ["-9223372036854775808", "-1", "0", "5", "1234567890123456789", "9223372036854775807"],
    "numeric": ["-4", "1", "2.50", "123456789012345678901234567890", "0.001", "7"],
    "numeric(10,2)": ["1.00", "2.50", "-3.00", "4.00", "5.00", "6.00"],
    "character(5)": ["a", "B", "c c", "d", "e", "fffff"],
    "date": [f"2001-02-0{number}" for number in range(1, 7)],
    "public.word": LETTERS,
    "public.choice": ["one", "two", "three", "four", "five", "six"],
}
TOLD_APART_BY_NOBODY: Final = {"double precision": ["1", "2.5", "3", "4", "5", "6"], "bytea": list("abcdef")}

MORE_TYPES: Final = """
CREATE DOMAIN public.word AS text;
CREATE TYPE public.choice AS ENUM ('one', 'two', 'three', 'four', 'five', 'six');
CREATE EXTENSION citext SCHEMA public;
CREATE DOMAIN public.loose_word AS public.citext;
"""


@pytest.fixture(scope="module")
def floor(floor: Database) -> Database:
    """Give the module's database, with more types in it."""
    floor.run(MORE_TYPES, user=SUPERUSER)
    return floor


def store_of(floor: Database, folder: Path, key: str, ids: list[str], *, link: str = "") -> OwnPgStore:
    """Make a store: a tree of 0 and 1, then 2 that a live run refers to, the live 3, an old 4, a recent 5."""
    store = OwnPgStore(database=floor, folder=folder, key=key, link=link)
    (now,) = floor.rows("SELECT (extract(epoch FROM now()) * 1000)::bigint")[0]
    old = now - 100 * DAY_MS
    store.add(
        (ids[0], "done", old, None),
        (ids[1], "failed", old, ids[0]),
        (ids[2], "done", old, None),
        (ids[3], "running", None, None),
        (ids[4], "done", old + 1, None),
        (ids[5], "done", now - 10 * DAY_MS, None),
    )
    store.handle(ids[3], ids[2])
    return store


@pytest.mark.parametrize("key", TYPES)
def test_trees_go_by_keys_of_any_type(floor: Database, tmp_path: Path, key: str) -> None:
    """Root and child, protection by a reference, and the search by id are those of text."""
    ids = TYPES[key]
    store = store_of(floor, tmp_path, key, ids)
    with store.open() as retention:
        assert retention.explain(ids[1], MONTH).unit == ids[0]
        assert {reason.name for reason in retention.explain(ids[2], MONTH).reasons} == {"handle"}
        assert retention.store.known([*ids, *NOBODY]) == set(ids)
        for nobody in NOBODY:
            with pytest.raises(UnitNotFound):
                retention.explain(nobody, MONTH)
        assert retention.plan(Policy(keep_last=1)).units.recent == 1
    report = store.prune()
    assert (report.units.removed, report.units.protected) == (2, {"handle": 1})
    assert store.left() == sorted([ids[2], ids[3], ids[5]])
    assert store.left("steps", "run") == sorted([ids[2], ids[3], ids[3], ids[5]])


@pytest.mark.parametrize("key", TOLD_APART_BY_NOBODY)
def test_a_key_that_cannot_be_found_again_exactly_blocks_its_run(
    floor: Database, tmp_path: Path, key: str
) -> None:
    """Inexact numbers and bytes: every run stays, and the plan says so."""
    store = store_of(floor, tmp_path, key, TOLD_APART_BY_NOBODY[key])
    report = store.prune()
    assert report.units.removed == 0
    assert report.units.blocked["unreadable-key"] == 3
    assert len(store.left()) == 6
    with store.open() as retention:
        for nobody in NOBODY[:-3]:
            with pytest.raises(UnitNotFound):
                retention.explain(nobody, MONTH)


@pytest.mark.parametrize(
    ("key", "link"),
    [
        ("bigint", "integer"),
        ("integer", "bigint"),
        ("bigint", "numeric"),
        ("numeric(10,2)", "numeric"),
        ("bigint", "double precision"),
        ("text", "varchar(80)"),
        ("varchar(80)", "text"),
        ("text", "character(8)"),
        ("character(5)", "character(8)"),
    ],
)
def test_links_of_another_type_lead_to_their_run_or_keep_it(
    floor: Database, tmp_path: Path, key: str, link: str
) -> None:
    """A child is found or its tree is blocked, and a reference protects, however its type spells the key."""
    ids = ["1", "2", "3", "4", "5", "6"]
    store = store_of(floor, tmp_path, key, ids, link=link)
    report = store.prune()
    blocked = report.units.blocked["ambiguous-parent"]
    left = {float(value) for value in store.left()}
    assert {3, 4, 6} <= left
    assert len(left & {1, 2}) in {0, 2}
    assert (report.units.removed > 0) != (blocked > 0)


def test_links_that_the_server_cannot_compare_are_told(floor: Database, tmp_path: Path) -> None:
    """No engine could follow them either; the message has the types and nothing of a row."""
    store = store_of(floor, tmp_path, "uuid", UUIDS, link="text")
    with store.open() as retention, pytest.raises(Exception, match="operator does not exist"):
        retention.plan(MONTH)


@pytest.mark.parametrize("key", ["public.citext", "public.loose_word"])
def test_a_type_with_an_equality_of_its_own_removes_nothing(
    floor: Database, tmp_path: Path, key: str
) -> None:
    """A reference spelled in other letters may mean the run, and no statement of ours would see it."""
    store = store_of(floor, tmp_path, key, list("abcdef"))
    with store.open() as retention:
        problems = retention.store.schema().problems
        assert "runs (id) is of an extension's type" in problems[0]
        assert retention.plan(MONTH).units.scanned == 4


def ignoring_case(floor: Database) -> str:
    """Make a collation that takes letters in both cases for equal; return a type with it."""
    try:
        floor.run(
            "CREATE COLLATION IF NOT EXISTS public.loosely"
            " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this build of PostgreSQL has no ICU; Debian's package has")
    return "text COLLATE public.loosely"


@oldest
def test_a_collation_that_ignores_case_counts_as_the_server_counts(floor: Database, tmp_path: Path) -> None:
    """With one collation for all keys, a reference in other letters protects its run."""
    store = store_of(floor, tmp_path, ignoring_case(floor), list("abcdef"))
    store.handle("D", "E")
    report = store.prune()
    assert (report.units.removed, report.units.protected) == (1, {"handle": 2})
    assert store.left() == ["c", "d", "e", "f"]
    with store.open() as retention:
        assert retention.explain("E", MONTH).unit == "e"


@oldest
def test_a_collation_that_ignores_case_in_one_column_alone_is_refused(
    floor: Database, tmp_path: Path
) -> None:
    """The key would take for equal what other tables keep apart."""
    store = store_of(floor, tmp_path, ignoring_case(floor), list("abcdef"), link="text")
    with store.open() as retention:
        assert "keeps apart, by their collations" in retention.store.schema().problems[0]


def test_uuids_are_found_as_people_write_them(floor: Database, tmp_path: Path) -> None:
    """In capitals, too; and text that only looks like one is nobody's id."""
    store = store_of(floor, tmp_path, "uuid", UUIDS)
    with store.open() as retention:
        assert retention.explain(UUIDS[4].upper(), MONTH).unit == UUIDS[4]
        with pytest.raises(UnitNotFound):
            retention.explain(UUIDS[4] + "0", MONTH)
