"""Databases that keep their text in something else than UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from afterrun import Policy, Retention, UnitNotFound
from pg_server import Database, Server
from random_stores import SCHEMAS
from sites import DAY_MS, SCHEMA

MONTH: Final = Policy(keep_for=timedelta(days=30))
RUN: Final = (
    f"INSERT INTO {SCHEMA}.workflow_status (workflow_uuid, parent_workflow_id, name, status, completed_at,"
    f" created_at, updated_at) SELECT {{}}, {{}}, {{}}, 'SUCCESS', t, t, t FROM (SELECT"
    f" (extract(epoch FROM now()) * 1000)::bigint - {100 * DAY_MS} AS t) _;"
)
STEP: Final = f"INSERT INTO {SCHEMA}.operation_outputs (workflow_uuid, function_id) VALUES ({{}}, 1);"


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def odd(request: pytest.FixtureRequest, postgres: Server) -> Iterator[Database]:
    """Give an empty store in a database with another encoding."""
    database = postgres.create_database(options=f"ENCODING '{request.param}' LOCALE 'C'")
    database.run((SCHEMAS / "dbos-125.postgresql.sql").read_text(encoding="utf-8"))
    yield database
    postgres.drop_database(database.name)


def fill(database: Database, *keys: str) -> None:
    """Add expired runs with one step each; a key is an expression of SQL."""
    script = "".join(RUN.format(key, "NULL", key) + STEP.format(key) for key in keys)
    with database.connect() as connection:
        connection.execute("SET client_encoding = 'SQL_ASCII'")
        connection.execute(script.encode("ascii"))


def left(database: Database) -> list[str]:
    """Return the bytes of the ids that are there, in hexadecimal, of runs and of steps."""
    columns = "encode(textsend(workflow_uuid), 'hex')"
    statement = (
        f"SELECT {columns} FROM {SCHEMA}.workflow_status UNION ALL"
        f" SELECT {columns} FROM {SCHEMA}.operation_outputs ORDER BY 1"
    )
    with database.connect() as connection:
        connection.execute("SET client_encoding = 'SQL_ASCII'")
        return [bytes(key).decode() for (key,) in connection.execute(statement.encode()).fetchall()]


def test_text_beyond_ascii_is_read_and_removed(odd: Database, tmp_path: Path) -> None:
    """An id with a letter of the encoding goes like any other, and can be asked for."""
    letter = "E'\\351'" if "LATIN1" in encoding(odd) else "E'\\303\\251'"
    fill(odd, letter, "'plain'")
    with Retention(odd.url(), state=tmp_path / "state") as retention:
        assert retention.explain("é", MONTH).unit == "é"
        assert retention.prune(MONTH).units.removed == 2
        assert list(retention.verify()) == []
    assert left(odd) == []


def test_an_id_that_the_encoding_cannot_hold_is_not_found(odd: Database, tmp_path: Path) -> None:
    """Nor is it taken for the empty one, nor does it disturb what is asked for beside it."""
    fill(odd, "'plain'", "''")
    with Retention(odd.url(), state=tmp_path / "state") as retention:
        with pytest.raises(UnitNotFound):
            retention.explain("日本 \N{CRAB}", MONTH)
        assert retention.store.known(["\N{CRAB}", "plain"]) == {"plain"}
        assert retention.prune(MONTH).units.removed == 2


def test_bytes_that_are_no_text_block_their_run_alone(postgres: Server, tmp_path: Path) -> None:
    """SQL_ASCII takes any bytes; an id of such bytes cannot be bound again, so its run stays."""
    database = postgres.create_database(options="ENCODING 'SQL_ASCII' LOCALE 'C'")
    database.run((SCHEMAS / "dbos-125.postgresql.sql").read_text(encoding="utf-8"))
    fill(database, "E'\\377\\376'", "'plain'")
    script = RUN.format("'named'", "NULL", "E'\\377'") + RUN.format("'child'", "E'\\377\\376'", "'x'")
    with database.connect() as connection:
        connection.execute(script.encode())
    with Retention(database.url(), state=tmp_path / "state") as retention:
        report = retention.prune(MONTH)
        assert report.units.blocked == {"unreadable-key": 1}
        assert (report.ended, report.units.removed) == ("completed", 2)
        keep_last = Policy(keep_last=1, group_by=("name",))
        assert retention.plan(keep_last).units.blocked == {"unreadable-key": 1}
        assert retention.inspect()
    assert left(database) == ["6368696c64", "fffe", "fffe"]
    postgres.drop_database(database.name)


def encoding(database: Database) -> str:
    """Return the name of a database's encoding."""
    return str(database.rows("SHOW server_encoding")[0][0])
