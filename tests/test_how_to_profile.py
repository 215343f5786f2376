"""The how-to on profiles is followed by its text alone: its files are written, its commands run, in order."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.kit import COMMAND
from pg_server import Database

PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "profile-for-your-own-tables.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ELSEWHERE = "postgresql://shop@db.example.com/shop?schema=public"
"""Stands on the page for a database of the reader's."""
SECONDS = 60.0
STAYING = {"import-3", "report-1", "report-1-a", "report-2", "old-2"}


@dataclass(frozen=True)
class Line:
    """A shell line of the page, and what came of it."""

    words: str
    code: int
    told: str


class Reader:
    """Follows the page in a folder: files as it names them, TOML appended, shell lines run."""

    def __init__(self, folder: Path, programs: Path, *, elsewhere: str) -> None:
        self.folder = folder
        self._elsewhere = elsewhere
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "AFTERRUN_STATE_DIR": str(folder / "state"),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        self.lines: list[Line] = []

    def follow(self, *, only: str = "") -> None:
        """Go through the page, first block to last; of shell lines those with ``only`` in them are run."""
        for found in BLOCK.finditer(TEXT):
            language, text = found[1], found[2]
            if language == "sh":
                self.lines += [self._run(words) for words in text.splitlines() if only in words]
            elif language == "toml":
                with (self.folder / "shop.toml").open("a", encoding="utf-8") as profile:
                    profile.write(f"{text}\n")
            elif language in ("sql", "python"):
                name = re.findall(r"`(\w+\.(?:sql|py))`", TEXT[: found.start()])[-1]
                (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, words: str) -> Line:
        line = words.replace(ELSEWHERE, shlex.quote(self._elsewhere))
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Line(words, done.returncode, done.stdout + done.stderr)

    def named(self, start: str) -> list[Line]:
        """Return the lines that begin so."""
        return [line for line in self.lines if line.words.startswith(start)]


def reader_in(folder: Path, *, elsewhere: str) -> Reader:
    """Return somebody who has Python and afterrun, and nothing else."""
    programs = folder / "bin"
    programs.mkdir()
    for name, words in (("afterrun", COMMAND), ("python", [sys.executable])):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    home = folder / "shop"
    home.mkdir()
    return Reader(home, programs, elsewhere=elsewhere)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Give somebody who has followed the page, without a server."""
    made = reader_in(tmp_path_factory.mktemp("reader"), elsewhere="postgresql://nobody@127.0.0.1:9/nothing")
    made.follow()
    return made


def shown(mark: str) -> list[str]:
    """Return the lines of output that the page shows after a mark."""
    found = re.search(rf"<!-- {mark} -->\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return plain(found[1])


def plain(text: str) -> list[str]:
    """Return the lines of a text, whatever the width of its columns."""
    return [" ".join(line.split()) for line in text.splitlines()]


def runs(path: Path) -> set[str]:
    """Return the runs of the shop."""
    with closing(sqlite3.connect(path)) as store:
        return {row[0] for row in store.execute("SELECT id FROM runs")}


def test_following_the_page_removes_what_it_says(reader: Reader) -> None:
    """From nothing but its text: a store, a profile, plans as they are shown, and the right runs gone."""
    here = [line for line in reader.lines if ELSEWHERE not in line.words]
    assert [(line.words, line.told) for line in here if line.code] == []
    plans = reader.named("afterrun plan shop.sqlite")
    assert [line for line in plain(plans[0].told) if line in shown("first plan")] == shown("first plan")
    assert [line for line in plain(plans[2].told) if line in shown("last plan")] == shown("last plan")
    assert re.search(r"^would go +0$", plans[-1].told, re.MULTILINE)
    assert runs(reader.folder / "shop.sqlite") == STAYING
    assert (reader.folder / "went.sqlite").exists()


def test_the_page_tells_of_each_look_what_it_shows(reader: Reader) -> None:
    """The digest is the one that the check prints; the notes are gone once the indexes are there."""
    checks = reader.named("afterrun profile check shop.sqlite")
    digest = re.search(r'^3 = "([0-9a-f]{16})"$', TEXT, re.MULTILINE)
    assert digest is not None
    assert re.search(rf"^digest +{digest[1]}$", checks[-1].told, re.MULTILINE)
    assert ["was never read" in line.told for line in checks] == [True, True, False]
    assert ["index" in line.told for line in checks] == [True, True, False]
    waiting, held = reader.named("afterrun explain")
    assert "live-member" in waiting.told
    assert "open-download" in held.told


def test_the_same_profile_serves_postgresql(database: Database, tmp_path: Path) -> None:
    """What the page says of PostgreSQL: the same tables, the same file, the same plan."""
    database.run(next(found[2] for found in BLOCK.finditer(TEXT) if found[1] == "sql"))
    database.run(
        "INSERT INTO runs SELECT 'run-' || n, NULL, 'import', 'done', '2020-01-01 00:00:00',"
        " CASE WHEN n > 1 THEN '2020-01-02 00:00:00' END, 'request ' || n FROM generate_series(1, 4) AS n;"
        "INSERT INTO steps VALUES ('run-1', 1, '', '2020-01-02T00:00:00Z');"
        "INSERT INTO downloads VALUES (1, 'run-2', '2999-01-01 00:00:00')"
    )
    reader = reader_in(tmp_path, elsewhere=database.url(schema="public"))
    reader.follow(only=ELSEWHERE)
    check, plan = reader.lines
    assert (check.code, plan.code) == (0, 0), plan.told
    assert re.search(r"^schema +3 \(read\)$", check.told, re.MULTILINE), check.told
    assert re.search(r"^would go +3$", plan.told, re.MULTILINE), plan.told
    assert re.search(r"^protected, open-download +1$", plan.told, re.MULTILINE)


def test_every_key_on_the_page_is_explained() -> None:
    """Whatever stands in its profile stands in the page on profiles."""
    text = "\n".join(found[2] for found in BLOCK.finditer(TEXT) if found[1] == "toml")
    page = (PAGE.parents[1] / "profiles.md").read_text(encoding="utf-8")
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", page))))
    assert keys_of(tomllib.loads(text)) - words == set()


def keys_of(part: object) -> set[str]:
    """Return the keys of a profile, at all levels, but for names of columns and versions."""
    if isinstance(part, list):
        return {key for each in part for key in keys_of(each)}
    if not isinstance(part, dict):
        return set()
    names = {"where": "conditions", "on": "columns", "read": "versions"}
    inner = {key for name, value in part.items() if name not in names for key in keys_of(value)}
    tests = {key for value in part.get("where", {}).values() for key in value}
    return {*part, *inner, *tests}
