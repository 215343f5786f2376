"""Profiles that name code of the package: what they may say, and how their stores are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import ProfileError
from afterrun.profiles import Profile, detect, load_built_in
from afterrun.profiles.loader import built_in_text, load_profile
from checkpoints.hostile_kit import Hostile

TEXT = built_in_text("langgraph")
SQLITE = {"checkpoints", "writes"}
SERVER = {"checkpoints", "checkpoint_writes", "checkpoint_blobs", "checkpoint_migrations"}


def test_either_set_of_tables_tells_the_engine() -> None:
    """The SQLite saver has other tables than the PostgreSQL saver; one of the sets must be whole."""
    profile = load_built_in("langgraph")
    for tables in (SQLITE, SERVER, SQLITE | SERVER | {"app"}):
        assert detect(tables, [profile]) is profile
    for tables in ({"checkpoints"}, SERVER - {"checkpoint_blobs"}, {"writes", "checkpoint_writes"}):
        with pytest.raises(ProfileError):
            detect(tables, [profile])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('records = "langgraph-threads"', 'records = "another"', "units.tree.records"),
        ('records = "langgraph-threads"\n', "", "uuid6"),
        ('keep_set = "langgraph-checkpoints"', 'keep_set = "my.module:function"', "units.keep_set"),
        ('key = "thread_id"', 'key = "thread_id"\ngroup = ["metadata"]', "records"),
        ('key = "thread_id"', 'key = "thread_id"\nedges = [{ column = "parent" }]', "records"),
        ('key = "thread_id"', 'key = "thread_id"\nidempotency_key = "run_id"', "records"),
    ],
)
def test_code_is_a_name_of_a_closed_list(old: str, new: str, words: str) -> None:
    """A profile can name no code of its own, and say nothing that the code would not look at."""
    assert old in TEXT
    with pytest.raises(ProfileError, match=words):
        load_profile(TEXT.replace(old, new, 1), source="a test")


def test_without_a_table_of_versions_the_shape_is_the_version(tmp_path: Path) -> None:
    """A column more makes another version, which is not removed from."""
    store = Hostile(tmp_path / "checkpoints.sqlite")
    with store.retention() as retention:
        schema = retention.store.schema()
        assert schema.version == f"shape:{retention.store.digest}"
        assert schema.read
    with store.open() as database:
        database.execute("ALTER TABLE checkpoints ADD COLUMN expires_at TEXT")
    with store.retention() as retention:
        schema = retention.store.schema()
    assert not schema.read
    assert "never read" in schema.problems[0]


def test_generations_are_known_where_code_tells_them() -> None:
    """Both ways to say what is superseded count."""
    names = {"langgraph": True, "duroxide": True, "dbos": False}
    for name, known in names.items():
        profile: Profile = load_built_in(name)
        assert profile.units.have_generations is known
