"""The page on PostgreSQL: its grants are enough on real stores, and its words are the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from cli.kit import Answer, run_cli
from crash.aged import EXPIRED, OLD_DAYS, TREES, kept, standing
from dumps import Dump
from engines.pg_stores import SCHEMA, age_pg_runs, make_pg_store
from engines.stores import ENGINES, run_engine
from pg_dumps import dump_postgres
from pg_server import SUPERUSER, Database
from random_stores import SCHEMAS

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")
SCRIPTS: Final = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
POLICY: Final = ("--keep-for", "30d", "--json")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own settings, state and terminal out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFTERRUN_STORE", "AFTERRUN_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def rows(database: Database) -> Dump:
    """Return all rows."""
    with database.connect(SUPERUSER) as connection:
        return dump_postgres(connection, SCHEMA)


def ask(*words: str) -> Answer:
    """Run a command that must do its work, on the store that the environment names."""
    answer = run_cli(*words)
    assert answer.code == 0, answer
    return answer


@pytest.mark.engine
@pytest.mark.parametrize("version", ENGINES)
def test_the_grants_of_the_page_are_enough(
    version: str, database: Database, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With them alone a role plans, explains, inspects, sweeps and verifies; the engine goes on."""
    make_pg_store(version, database)
    assert age_pg_runs(database, OLD_DAYS, sorted(EXPIRED)) == len(EXPIRED)
    before = rows(database)
    for script in SCRIPTS[: 2 if version.startswith("3") else 1]:
        database.run(re.sub(r"\bTO afterrun\b", f'TO "{role}"', script))
    monkeypatch.setenv("AFTERRUN_STORE", database.url(role))
    planned = ask("plan", *POLICY).json
    assert planned["units"]["tree"]["expired"] == len(TREES)
    assert ask("explain", "simple-1", *POLICY).json["verdict"] == "expired"
    assert ask("inspect", "--json").json
    assert ask("verify", "--json").json["ok"]
    shown = run_cli("sweep", *POLICY)
    assert (shown.code, shown.json["ended"]) == (4, "guard")
    swept = ask("sweep", *POLICY, "--approve", shown.json["fingerprint"]).json
    assert (swept["ended"], swept["units"]["tree"]["removed"]) == ("completed", len(TREES))
    assert ask("verify", "--json").json["ok"]
    after = rows(database)
    assert standing(after, before) == [False] * len(TREES)
    assert kept(after) == kept(before)
    recovered = run_engine(version, "recover", database.url(schema=SCHEMA))
    assert (recovered["stuck"], recovered["new"]) == ([], "SUCCESS")


def test_every_grant_of_the_page_is_needed(
    database: Database, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any one of its statements a sweep is refused, and says what is missing."""
    database.run((SCHEMAS / "dbos-125.postgresql.sql").read_text("utf-8"))
    statements = [part.strip() for script in SCRIPTS for part in script.split(";") if part.strip()]
    assert len(statements) == 5
    monkeypatch.setenv("AFTERRUN_STORE", database.url(role, schema=SCHEMA))
    for missing in range(len(statements)):
        database.run(f'DROP OWNED BY "{role}"', user=SUPERUSER)
        for place, statement in enumerate(statements):
            if place != missing:
                database.run(statement.replace("TO afterrun", f'TO "{role}"'))
        answer = run_cli("prune", "--keep-for", "30d", "--apply", "--no-backup", "--yes")
        assert answer.code == 4, statements[missing]
        assert "GRANT" in answer.err
    database.run(statements[-1].replace("TO afterrun", f'TO "{role}"'))
    assert run_cli("prune", "--keep-for", "30d", "--apply", "--no-backup", "--yes").code == 0
