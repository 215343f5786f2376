"""Whose rights foreign keys and triggers act with when rows go, and that a role is told what they lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from afterrun import Refused, Report, Retention, SweepOptions
from own_store import DAY, HEAD, OLD
from pg_server import SUPERUSER, Database

TREE: Final = """
table = "runs"
key = "id"
status = "status"
terminal = ["done"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
owned = [{ table = "parts", column = "run" }]
unlinked = [{ table = "notes", column = "run" }]
"""
TABLES: Final = f"""
CREATE SCHEMA app;
CREATE TABLE app.version (number integer);
INSERT INTO app.version VALUES (1);
CREATE TABLE app.runs (id text PRIMARY KEY, status text, ended bigint);
CREATE INDEX runs_ended ON app.runs (ended);
CREATE TABLE app.parts (id bigint PRIMARY KEY, run text REFERENCES app.runs ON DELETE CASCADE);
CREATE INDEX parts_run ON app.parts (run);
CREATE TABLE app.notes (id bigint PRIMARY KEY, run text REFERENCES app.runs ON DELETE SET NULL);
CREATE INDEX notes_run ON app.notes (run);
INSERT INTO app.runs VALUES ('old', 'done', {OLD}), ('live', 'running', NULL);
INSERT INTO app.parts VALUES (1, 'old'), (2, 'live');
INSERT INTO app.notes VALUES (1, 'old'), (2, 'live');
"""
LEAST: Final = """
GRANT USAGE ON SCHEMA app TO "{role}";
GRANT SELECT ON app.version, app.runs, app.parts, app.notes TO "{role}";
GRANT DELETE ON app.runs, app.parts TO "{role}";
GRANT UPDATE (status) ON app.runs TO "{role}";
"""
TRIGGER: Final = """
ALTER TABLE app.notes DROP CONSTRAINT notes_run_fkey;
CREATE FUNCTION app.empty() RETURNS trigger LANGUAGE plpgsql {security} AS
  $$ BEGIN UPDATE app.notes SET run = NULL WHERE run = OLD.id; RETURN OLD; END $$;
CREATE TRIGGER emptying BEFORE DELETE ON app.runs FOR EACH ROW EXECUTE FUNCTION app.empty();
"""


class Place:
    """A store of one run that has ended, and a role with the least rights that removing it takes."""

    def __init__(self, database: Database, role: str, folder: Path) -> None:
        """Make it."""
        self.database, self.role, self._folder = database, role, folder
        database.run(TABLES)
        database.run(LEAST.format(role=role))
        detect = 'triggers = ["emptying"]'
        (folder / "own.toml").write_text(HEAD.format(detect=detect, tree=TREE), encoding="utf-8")

    def prune(self) -> Report:
        """Remove as that role."""
        url = self.database.url(self.role, schema="app")
        with Retention(url, profile=str(self._folder / "own.toml"), state=self._folder / "state") as opened:
            return opened.prune(DAY, options=SweepOptions(offline=True))

    def notes(self) -> list[str | None]:
        """Return the runs that notes belong to."""
        ask = "SELECT run FROM app.notes ORDER BY id"
        return [row[0] for row in self.database.rows(ask, user=SUPERUSER)]

    def refused(self, words: str) -> None:
        """Expect a sentence with these words, and all rows to be there."""
        with pytest.raises(Refused, match=words):
            self.prune()
        assert self.notes() == ["old", "live"]

    def removed(self) -> None:
        """Expect the run to go and the note to stay without its link."""
        report = self.prune()
        assert (report.ended, report.units.removed) == ("completed", 1), report.message
        assert self.notes() == [None, "live"]


@pytest.fixture
def place(database: Database, role: str, tmp_path: Path) -> Place:
    """Give a store and its role."""
    return Place(database, role, tmp_path)


@pytest.fixture
def keeper(database: Database) -> Iterator[str]:
    """Give a second role, which may own tables."""
    database.server.create_role("keeper")
    yield "keeper"
    database.run("DROP OWNED BY keeper CASCADE", user=SUPERUSER)
    database.server.drop_role("keeper")


def test_foreign_keys_take_no_right_of_the_role_that_removes(place: Place) -> None:
    """SET NULL and CASCADE act with the rights of the tables' owner: SELECT and DELETE are enough here."""
    place.removed()


def test_an_owner_that_may_not_enter_the_schema_is_told(place: Place, keeper: str) -> None:
    """A table given to a role without USAGE: every foreign key of it would fail, so nothing is tried."""
    place.database.run(f"ALTER TABLE app.notes OWNER TO {keeper}", user=SUPERUSER)
    place.refused("GRANT USAGE ON SCHEMA app TO keeper")
    place.database.run(f"GRANT USAGE ON SCHEMA app TO {keeper}")
    place.removed()


@pytest.mark.parametrize(
    ("table", "right", "action"),
    [
        ("notes", "UPDATE", ""),
        ("notes", "SELECT", ""),
        ("parts", "DELETE", ""),
        ("parts", "UPDATE", "NO ACTION"),
    ],
)
def test_an_owner_without_a_right_on_its_own_table_is_told(
    place: Place, table: str, right: str, action: str
) -> None:
    """SET NULL takes UPDATE, CASCADE takes DELETE, and a key without an action locks what it looks at."""
    if action:
        place.database.run(
            f"ALTER TABLE app.{table} DROP CONSTRAINT {table}_run_fkey;"
            f"ALTER TABLE app.{table} ADD FOREIGN KEY (run) REFERENCES app.runs ON DELETE {action}"
        )
    place.database.run(f"REVOKE {right} ON app.{table} FROM app")
    place.refused(f"owner app, who lacks {right} on it: GRANT {right} ON app.{table} TO app")
    place.database.run(f"GRANT {right} ON app.{table} TO app", user=SUPERUSER)
    place.removed()


def test_what_goes_by_a_cascade_is_followed(place: Place, keeper: str) -> None:
    """A key to rows that go by a cascade acts, too, however far from the run it is."""
    place.database.run(
        "CREATE TABLE app.marks (id bigint PRIMARY KEY, part bigint REFERENCES app.parts ON DELETE CASCADE);"
        "CREATE INDEX marks_part ON app.marks (part);"
        "CREATE TABLE app.signs (id bigint PRIMARY KEY, mark bigint REFERENCES app.marks ON DELETE SET NULL);"
        "CREATE INDEX signs_mark ON app.signs (mark);"
        "INSERT INTO app.marks VALUES (1, 1); INSERT INTO app.signs VALUES (1, 1);"
        f'GRANT SELECT ON app.marks, app.signs TO "{place.role}"'
    )
    place.database.run(f"ALTER TABLE app.signs OWNER TO {keeper}", user=SUPERUSER)
    place.refused("GRANT USAGE ON SCHEMA app TO keeper")


def test_a_trigger_acts_with_the_rights_of_the_role_that_removes(place: Place) -> None:
    """Where a trigger empties links, the role needs UPDATE of that one column, and is told so before."""
    place.database.run(TRIGGER.format(security=""))
    place.refused(r"GRANT UPDATE \(run\) ON app.notes TO")
    place.database.run(f'GRANT UPDATE (run) ON app.notes TO "{place.role}"')
    place.removed()


def test_a_trigger_of_its_owner_takes_no_right_of_the_role(place: Place) -> None:
    """SECURITY DEFINER: the function's owner writes."""
    place.database.run(TRIGGER.format(security="SECURITY DEFINER"))
    place.removed()
