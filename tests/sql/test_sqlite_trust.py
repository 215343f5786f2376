"""Schemas that call functions: JSON's are let through, and nothing else that SQLite holds for unsafe."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.core.errors import Refused
from afterrun.stores.sql.sqlite.dialect import SQLite
from afterrun.stores.sql.sqlite.trust import INNOCUOUS
from own_store import OLD, RUNS, own_store

JSON = "CREATE INDEX by_tag ON runs (json_extract(parent, '$.tag'));"
OTHER = "rtreedepth"
UNSAFE = {
    "a check": f"CREATE TABLE odd (x, CHECK ({OTHER}(x) IS NULL));",
    "other letters and a comment": f"CREATE TABLE odd (x, CHECK ({OTHER.title()} /* ( */ (x) IS NULL));",
    "quotes": f'CREATE TABLE odd (x, CHECK ("{OTHER}"(x) IS NULL));',
    "a view": f"CREATE VIEW odd AS SELECT {OTHER}(parent) FROM runs;",
    "a trigger": f"CREATE TRIGGER odd AFTER DELETE ON runs BEGIN SELECT {OTHER}(old.parent); END;",
}


def flags(name: str) -> int:
    """Return what this SQLite says of a function; nothing is unsafe of one that it does not have."""
    with closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute(
            "SELECT flags FROM pragma_function_list WHERE name = ?", (name,)
        ).fetchall()
    return int(found[0][0]) if found else INNOCUOUS


def trusted(path: Path) -> bool:
    """Open a file and say whether its schema may call what it wants."""
    store = SQLite(path, writable=False)
    [[found]] = store.driver.execute("PRAGMA trusted_schema").fetchall()
    store.close()
    return bool(found)


def test_an_index_over_json_is_no_obstacle(tmp_path: Path) -> None:
    """Some versions of SQLite call their own JSON functions unsafe: such a store is pruned all the same."""
    store = own_store(tmp_path, RUNS + JSON + f"INSERT INTO runs VALUES ('a', 'done', {OLD}, '{{}}');")
    store.prune()
    assert store.left() == []
    assert trusted(store.path) == (not flags("json_extract") & INNOCUOUS)


def test_a_schema_without_such_an_index_is_not_trusted(tmp_path: Path) -> None:
    """Only where nothing could be read otherwise."""
    assert not trusted(own_store(tmp_path, RUNS + "CREATE VIEW v AS SELECT json(parent) FROM runs;").path)


@pytest.mark.parametrize("schema", UNSAFE)
def test_any_other_unsafe_function_beside_it_is_refused(tmp_path: Path, schema: str) -> None:
    """The schema is trusted as a whole or not at all, so its whole text is looked at."""
    if flags(OTHER) & INNOCUOUS or flags("json_extract") & INNOCUOUS:
        pytest.skip("this SQLite holds neither for unsafe")
    store = own_store(tmp_path, RUNS + JSON + UNSAFE[schema])
    before = store.content()
    with pytest.raises(Refused, match="has an index or view that calls a function") as caught:
        store.retention()
    assert caught.value.reason == "schema"
    assert store.content() == before


def test_words_that_are_no_calls_are_nothing(tmp_path: Path) -> None:
    """A column may have the name of a function."""
    script = "CREATE TABLE odd (match TEXT, offsets INTEGER); -- bm25(x)\n"
    assert trusted(own_store(tmp_path, RUNS + JSON + script).path) == (not flags("json_extract") & INNOCUOUS)
