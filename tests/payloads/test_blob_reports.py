"""What people and scripts are told of blobs, by names of any kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afterrun import BackupOrder
from afterrun.core.errors import ProfileError
from cli.kit import run_cli
from payloads.blob_kit import (
    HEAD,
    MONTH,
    OLD_MS,
    PINS,
    REFERENCES,
    Shop,
    SqliteShop,
    add_blobs,
    add_runs,
    execute,
    left,
    opened,
    refer,
)

HOSTILE = "bl\"o%(b)s:x'"
KEY = "k e'y%\""
COLUMN = 'o"u;t%s'


def test_the_command_line_tells_blobs_to_people_and_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a dry run what would go, after it what went."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    shop = SqliteShop(tmp_path)
    add_runs(shop, "a")
    add_blobs(shop, "x", "y")
    refer(shop, ("a", "x"), ("a", "y"))
    words: list[str | Path] = [shop.location, "--profile", shop.profile, "--keep-for", "30d"]
    assert "2 blobs of 20 B that nothing would refer to any more" in run_cli("plan", *words).out
    apply = ["--apply", "--no-backup", "--yes"]
    done = run_cli("prune", *words, *apply, "--json").json
    assert done["blobs"] == {"count": 2, "bytes": 20}
    assert (done["rows"]["blobs"], done["rows"]["steps"]) == (2, 2)
    add_runs(shop, "b")
    add_blobs(shop, "z")
    refer(shop, ("b", "z"))
    said = run_cli("prune", *words, *apply).out
    assert "1 blobs of 10 B removed, as nothing referred to them any more" in said


def test_an_automatic_sweep_removes_blobs_and_makes_full_passes(shop: Shop) -> None:
    """As a manual apply does, by the same state."""
    add_runs(shop, "a")
    add_blobs(shop, "x", "stray")
    refer(shop, ("a", "x"))
    with opened(shop) as retention:
        assert retention.sweep(MONTH, always=True).blobs.count == 2
        add_blobs(shop, "stray too")
        assert retention.sweep(MONTH, always=True).blobs.count == 0, "a full pass was made a moment ago"
        assert retention.inspect().schema.read
    assert left(shop) == ["stray too"]


def test_any_name_will_do(shop: Shop, tmp_path: Path) -> None:
    """Names that mean something in SQL, in formats and in parameters: removed, backed up and restored."""
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in (HOSTILE, KEY, COLUMN)}

    def escape(text: str) -> str:
        return text if shop.name == "sqlite" else text.replace("%", "%%")

    execute(shop, escape(f"ALTER TABLE blobs RENAME COLUMN digest TO {quoted[KEY]}"))
    execute(shop, escape(f"ALTER TABLE blobs RENAME TO {quoted[HOSTILE]}"))
    execute(shop, escape(f"ALTER TABLE steps RENAME COLUMN output TO {quoted[COLUMN]}"))
    table, key, column = (json.dumps(name) for name in (HOSTILE, KEY, COLUMN))
    shop.profile.write_text(
        f"{HEAD}[[blobs]]\ntable = {table}\nkey = {key}\n{PINS}"
        + REFERENCES.replace('"steps", column = "output"', f'"steps", column = {column}'),
        encoding="utf-8",
    )
    add_runs(shop, "a")
    add_runs(shop, "live", live=True)
    awkward = ["it's", 'a"b', "back\\slash", "tab\tand\nline", "per%s", "{braces},", "ümlaut", "\\N"]
    rows = [(name, b"x", 1, OLD_MS) for name in [*awkward, "kept"]]
    execute(shop, escape(f"INSERT INTO {quoted[HOSTILE]} VALUES ") + "(?, ?, ?, ?)", *rows)
    add = escape(f"INSERT INTO steps (run, {quoted[COLUMN]}) VALUES ") + "(?, ?)"
    execute(shop, add, *(("a", name) for name in [*awkward, "kept"]), ("live", "kept"))
    path = tmp_path / "backup"
    with opened(shop) as retention:
        planned = retention.plan(MONTH)
        report = retention.prune(MONTH, backup=BackupOrder(path=path))
        assert report.ended == "completed", report.message
        assert report.blobs.count == planned.blobs.count == len(awkward)
        assert retention.restore(path).rows[HOSTILE] == len(awkward)
        assert list(retention.verify()) == [], "all came back, and nothing dangles"


def test_a_profile_that_does_not_fit_names_what_is_missing(shop: Shop) -> None:
    """Every table and column under blobs is compared with the real ones, and the key must be unique."""
    text = shop.profile.read_text(encoding="utf-8")
    shop.profile.write_text(
        text.replace('"size"', '"sice"').replace('until = "lease"', 'until = "leese"'), encoding="utf-8"
    )
    with pytest.raises(ProfileError) as caught, opened(shop):
        pass
    assert caught.value.problems == (
        "the table blobs has no column sice (did you mean 'size'?)",
        "the table pins has no column leese (did you mean 'lease'?)",
    )
    shop.profile.write_text(text.replace('key = "digest"', 'key = "content"'), encoding="utf-8")
    with pytest.raises(ProfileError, match="nothing keeps blobs \\(content\\) unique"), opened(shop):
        pass
