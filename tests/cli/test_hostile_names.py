"""Names from a store are shown and do nothing."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from afterrun.cli.text import masked, size, to_json, visible
from afterrun.core.errors import Exit

from .kit import DAY_MS, add_run, change, run_cli, unchanged

HOSTILE = [
    "[red]bold[/red]",
    "\x1b[2J\x1b[31mred",
    "two\nlines\rback",
    "rtl \u202egnp.exe\u2066",
    "\x9b31m c1 \x07 bell \x08",
    "zero\u200bwidth\ufeff",
    "del\x7f",
]
RAW = re.compile(r"[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Whatever may do something to a terminal; a line end of ours is none."""


@pytest.fixture
def hostile(store: Path) -> Path:
    """Make a store whose ids, names, statuses and an unknown table are hostile."""
    ended = time.time_ns() // 1_000_000 - 90 * DAY_MS
    table = '"evil \x1b[31m[red] \u202e\n table"'
    with closing(sqlite3.connect(store)) as connection, connection:
        for word in HOSTILE:
            add_run(connection, word, ended, name=f"flow {word}")
            add_run(connection, f"{word} child", ended, parent=word, name=word)
        connection.execute(f"CREATE TABLE {table} (workflow_uuid REFERENCES workflow_status, note)")
        connection.execute(f"INSERT INTO {table} VALUES ('run-39', 'x')")
    return store


@pytest.mark.parametrize("run", HOSTILE)
def test_an_explanation_shows_hostile_names_without_their_effect(hostile: Path, run: str) -> None:
    """Markup, escapes, line ends and marks of direction in ids and names are written out."""
    with unchanged(hostile):
        told = run_cli("explain", hostile, "--keep-for", "30d", "--", f"{run} child")
        as_json = run_cli("explain", hostile, "--keep-for", "30d", "--json", "--", f"{run} child")
    assert (told.code, as_json.code) == (Exit.DONE, Exit.DONE)
    assert not RAW.search(told.out)
    assert visible(run) in told.out
    assert not RAW.search(as_json.out)
    assert as_json.json["unit"] == run
    assert [member["run"] for member in as_json.json["members"]] == [run, f"{run} child"]
    assert as_json.json["group"]["name"] == f"flow {run}"


@pytest.mark.parametrize("words", [("plan",), ("prune",), ("sweep",), ("profile", "check"), ("verify",)])
def test_a_hostile_table_is_shown_without_its_effect(hostile: Path, words: tuple[str, ...]) -> None:
    """The name of a table that nobody knows stands in notes and reasons, written out."""
    policy = ("--keep-for", "30d") if words[0] in {"plan", "prune", "sweep"} else ()
    told = run_cli(*words, hostile, *policy)
    as_json = run_cli(*words, hostile, *policy, "--json")
    for answer in (told, as_json):
        assert not RAW.search(answer.out + answer.err)
    assert isinstance(as_json.json, dict)
    if policy:
        assert r"evil \x1b[31m[red] \u202e\x0a table" in told.out
        assert "evil \x1b[31m[red] \u202e\n table" in json.dumps(as_json.json, ensure_ascii=False).replace(
            "\\u001b", "\x1b"
        ).replace("\\n", "\n")


def test_hostile_statuses_are_shown_without_their_effect(store: Path) -> None:
    """An unknown status is named in the refusal, written out."""
    status = "\x1b[31mFROZEN[blink]\n\u202e"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE workflow_status SET status = ? WHERE workflow_uuid = 'run-5'", (status,))
    answer = run_cli("prune", store, "--keep-for", "30d", "--apply", "--no-backup", "--yes", "--json")
    assert answer.code == Exit.REFUSED
    assert not RAW.search(answer.err + answer.out)
    assert "FROZEN[blink]" in answer.err


def test_an_id_that_is_no_text_reaches_json(store: Path) -> None:
    """Bytes that are no UTF-8, blobs and infinite numbers leave the JSON strict."""
    change(
        store,
        "UPDATE workflow_status SET parent_workflow_id = 'run-39' WHERE workflow_uuid LIKE 'run-3_' "
        "AND workflow_uuid IN ('run-38', 'run-37')",
        "UPDATE workflow_status SET workflow_uuid = CAST(x'fffe61' AS TEXT) WHERE workflow_uuid = 'run-38'",
        "UPDATE workflow_status SET status = 9e999 WHERE workflow_uuid = 'run-37'",
        "UPDATE workflow_status SET name = CAST(x'ff' AS TEXT) WHERE workflow_uuid = 'run-39'",
    )
    answer = run_cli("explain", store, "run-39", "--keep-for", "30d", "--json")
    assert answer.code == Exit.DONE
    assert answer.json["verdict"] == "blocked"
    assert answer.json["group"]["name"] == r"\xff"
    assert run_cli("plan", store, "--keep-for", "30d", "--json").code == Exit.DONE


@pytest.mark.parametrize("run", [*HOSTILE, "\udcff\udcfe", "\0", "x" * 5_000])
def test_a_hostile_word_of_the_command_line_is_shown_without_effect(store: Path, run: str) -> None:
    """What a person typed comes back in the error, written out and bounded."""
    answer = run_cli("explain", store, "--keep-for", "30d", "--json", "--", run)
    assert answer.code == Exit.ERROR
    assert not RAW.search(answer.err + answer.out)
    assert len(answer.err) < 1_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünïcödé 日本", "plain text, ünïcödé 日本"),
        ("a\tb", r"a\x09b"),
        ("\x1b[0m", r"\x1b[0m"),
        ("\u202e", r"\u202e"),
        ("\U000e0001", r"\U000e0001"),
        ("\udcff", r"\xff"),
        ("[b]", "[b]"),
    ],
)
def test_visible_text_is_printable(text: str, shown: str) -> None:
    """Whatever is not printable is written as an escape; anything else stays as it is."""
    assert visible(text) == shown


def test_long_text_is_cut() -> None:
    """A name of any length fits a table."""
    assert visible("x" * 1_000, limit=10) == "x" * 10 + "..."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg://me:secret@host:1/db", "postgresql+psycopg://me:***@host:1/db"),
        ("no password: me@host", "no password: me@host"),
        ("x mysql://a:p:w@h and pg://b:@h", "x mysql://a:***@h and pg://b:***@h"),
    ],
)
def test_passwords_of_urls_are_masked(text: str, shown: str) -> None:
    """Only the password of a URL is replaced."""
    assert masked(text) == shown


def test_json_is_ascii_and_strict() -> None:
    """JSON has no raw control character, no lone surrogate and no number that JSON lacks."""
    value = {"a\x7f": ["\x1b\u202e\udcff", float("inf"), b"\x01", None, 1.5, True]}
    text = to_json(value)
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == {"a\x7f": ["\x1b\u202e\\xff", "inf", "x'01'", None, 1.5, True]}


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_are_written_for_people(count: int, shown: str) -> None:
    """Bytes are written in powers of 1024."""
    assert size(count) == shown
