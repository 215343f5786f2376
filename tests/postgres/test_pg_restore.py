"""Removed from PostgreSQL, backed up and restored: every value of every row is what it was."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from afterrun import Refused, StoreLocked, StoreUnreadable, UnitNotFound
from afterrun.core.errors import BackupFailed
from afterrun.stores.sql.backups import BackupOrder
from afterrun.stores.sql.postgres import backup_rows as postgres_backup_rows
from afterrun.stores.sql.postgres import restore as postgres_restore
from afterrun.stores.sql.postgres.backup_head import Totals
from afterrun.stores.sql.postgres.backup_rows import UnitSum
from pg_server import Database

from .pg_backup_kit import HOSTILE, MONTH, SCHEMA, UNITS, PgStore, content, head_of, rewritten, strange_store

FOLDER_MODE = 0o700


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for backups that nobody else can write to."""
    made = tmp_path / "backups"
    made.mkdir(mode=FOLDER_MODE)
    return made


@pytest.fixture
def store(database: Database, tmp_path: Path) -> PgStore:
    """Make a store with every kind of value."""
    return strange_store(database, tmp_path)


@pytest.mark.parametrize("size", [1, 4, 1_000])
def test_a_store_is_the_same_after_restore(
    store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Removed, restored and compared: all rows are equal in every value, in pieces and groups of any size."""
    monkeypatch.setattr(postgres_backup_rows, "PIECE_UNITS", size)
    monkeypatch.setattr(postgres_restore, "GROUP_UNITS", size)
    before = store.content()
    report = store.prune(folder / "b.zip")
    assert report.ended == "completed"
    assert store.ids() == {"alive"}
    assert report.backup is not None
    assert report.backup["units"] == report.units.removed == UNITS
    assert report.backup["rows"] == dict(report.rows)
    restored = store.restore(folder / "b.zip")
    assert store.content() == before
    assert (restored.units, restored.members, restored.rows) == (UNITS, UNITS + 2, report.rows)
    with store.retention() as retention:
        assert list(retention.verify()) == []


def test_a_session_that_writes_values_otherwise_changes_nothing(store: PgStore, folder: Path) -> None:
    """Whatever the database's own settings of bytes, floats, dates and intervals, values come back exact."""
    name = store.database.name
    for setting in (
        "bytea_output = escape",
        "extra_float_digits = -5",
        "intervalstyle = iso_8601",
        "datestyle = 'German'",
        "timezone = 'America/Caracas'",
    ):
        store.run(f'ALTER DATABASE "{name}" SET {setting}', user="postgres")
    before = store.content()
    store.prune(folder / "b.zip")
    store.restore(folder / "b.zip")
    assert store.content() == before


def test_large_units_go_back_alone(store: PgStore, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit beyond what is held in memory is read from the file while it goes back."""
    monkeypatch.setattr(postgres_restore, "GROUP_BYTES", 1_000)
    store.run("INSERT INTO loose SELECT 'run-3', repeat('x', 5000) FROM generate_series(1, 50)")
    before = store.content()
    store.prune(folder / "b.zip")
    assert store.restore(folder / "b.zip").units == UNITS
    assert store.content() == before


def test_a_backup_is_one_private_file_with_exactly_what_went(store: PgStore, folder: Path) -> None:
    """The file is mode 0600, alone in its folder, and its text is what COPY takes in, without afterrun."""
    before = store.content()
    store.prune(folder / "b.zip")
    assert [path.name for path in folder.iterdir()] == ["b.zip"]
    assert stat.S_IMODE((folder / "b.zip").stat().st_mode) == 0o600
    left = store.content()
    said = head_of(folder / "b.zip")["tables"]
    for table in ("runs", "links", "notes%", "loose"):
        assert said[table]["rows"] == len(before[table]) - len(left[table])
    with zipfile.ZipFile(folder / "b.zip") as file, store.database.connect() as connection:
        connection.execute(f'SET search_path = "{SCHEMA.replace(chr(34), chr(34) * 2)}"'.encode())
        for table in ("runs", "links", "notes%", "loose"):
            columns = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in said[table]["columns"])
            with connection.cursor().copy(f'COPY "{table}" ({columns}) FROM STDIN'.encode()) as copy:
                copy.write(file.read(f"000000/{said[table]['file']}"))
    assert store.content() == before


@pytest.mark.parametrize("run", [*HOSTILE, "run-0", "child", "grandchild"])
def test_one_tree_comes_back_by_the_id_of_any_member(store: PgStore, folder: Path, run: str) -> None:
    """RUN may be any member; its whole tree comes back and nothing else does."""
    store.prune(folder / "b.zip")
    restored = store.restore(folder / "b.zip", run)
    expected = {"alive", run}
    if run in {"run-0", "child", "grandchild"}:
        expected = {"alive", "run-0", "child", "grandchild"}
    assert store.ids() == expected
    assert restored.units == 1


def test_restore_is_refused_where_an_id_is_back(store: PgStore, folder: Path) -> None:
    """A tree of which one run is in the store again stays in the backup; the others come back."""
    store.prune(folder / "b.zip")
    store.run("INSERT INTO runs (id, status) VALUES ('child', 'running')")
    before = store.content()
    with pytest.raises(Refused, match="again"):
        store.restore(folder / "b.zip", "grandchild")
    assert store.content() == before
    restored = store.restore(folder / "b.zip")
    assert (restored.units, sum(restored.refused.values()), restored.named) == (UNITS - 1, 1, ["run-0"])
    assert "run-0" not in store.ids()


def test_restore_is_refused_where_a_row_of_the_tree_is_there(store: PgStore, folder: Path) -> None:
    """Rows that would belong to a restored run, without the run itself, refuse it too."""
    store.prune(folder / "b.zip")
    store.run("INSERT INTO loose VALUES ('run-3', 'new')")
    with pytest.raises(Refused, match="again"):
        store.restore(folder / "b.zip", "run-3")
    assert "run-3" not in store.ids()


def test_a_second_restore_changes_nothing(store: PgStore, folder: Path) -> None:
    """What is there unchanged is counted as such and is no fault."""
    store.prune(folder / "b.zip")
    store.restore(folder / "b.zip", "run-2")
    store.restore(folder / "b.zip")
    before = store.content()
    again = store.restore(folder / "b.zip")
    assert (again.units, again.present, dict(again.refused)) == (0, UNITS, {})
    assert store.content() == before


def test_a_number_that_was_taken_refuses_one_tree_alone(store: PgStore, folder: Path) -> None:
    """A serial number that another row has meanwhile leaves one tree out, whole, and no other."""
    link = store.rows("SELECT link FROM links WHERE run = 'run-5'")[0][0]
    store.prune(folder / "b.zip")
    store.run(f"INSERT INTO links (link, run) VALUES ({link}, 'alive')")
    restored = store.restore(folder / "b.zip")
    assert (restored.units, restored.named) == (UNITS - 1, ["run-5"])
    assert "run-5" not in store.ids()
    assert "constraint" in next(iter(restored.refused))


def links_stay(store: PgStore) -> None:
    """Let rows be found through links that stay where they are."""
    profile = Path(store.profile)
    profile.write_text(profile.read_text().replace('  { table = "links", column = "run" },\n', ""))
    store.run("ALTER TABLE links DROP CONSTRAINT links_run_fkey")


def test_rows_come_back_by_links_that_stayed(store: PgStore, folder: Path) -> None:
    """A table that leads to rows and keeps its own is neither in the backup nor changed."""
    links_stay(store)
    before = store.content()
    store.prune(folder / "b.zip")
    assert store.content()["links"] == before["links"]
    assert "links" not in head_of(folder / "b.zip")["tables"]
    assert store.restore(folder / "b.zip").units == UNITS
    assert store.content() == before


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE links SET run = 'alive' WHERE run = 'run-5'",
        'ALTER TABLE "notes%" DROP CONSTRAINT "notes%_link_fkey"; DELETE FROM links WHERE run = \'run-5\'',
    ],
)
def test_a_link_that_is_lost_leaves_its_tree_out(store: PgStore, folder: Path, change: str) -> None:
    """Rows that would belong to no run, or to another one, do not come back, nor does their run."""
    links_stay(store)
    store.prune(folder / "b.zip")
    store.run(change)
    restored = store.restore(folder / "b.zip")
    assert (restored.units, restored.named) == (UNITS - 1, ["run-5"])
    assert "run-5" not in store.ids()


def test_a_sequence_that_stands_too_low_is_named(store: PgStore, folder: Path) -> None:
    """In a store that was made anew, the next number may be one that a row has: the report says so."""
    store.prune(folder / "b.zip")
    store.run("ALTER SEQUENCE links_link_seq RESTART; ALTER TABLE runs ALTER counted RESTART")
    notices = store.restore(folder / "b.zip").notices
    assert len(notices) == 2
    assert "links (link) has numbers up to 22" in " ".join(notices)
    store.run("SELECT setval('links_link_seq', 22), setval(pg_get_serial_sequence('runs', 'counted'), 99)")
    assert store.restore(folder / "b.zip").notices == []


def test_a_moved_store_is_said_and_taken(store: PgStore, folder: Path, database: Database) -> None:
    """With equal tables another database is taken for the same store, moved; the report says so."""
    before = store.content()
    store.prune(folder / "b.zip")
    moved = database.server.create_database(template=database.name)
    try:
        other = PgStore(moved, store.schema, store.profile, store.state)
        restored = other.restore(folder / "b.zip")
        assert other.content() == before
        assert "elsewhere" in restored.notices[0]
    finally:
        database.server.drop_database(moved.name)


def line_of(change: Callable[[bytes], bytes], table: str) -> Callable[[str, bytes], bytes]:
    """Change the text of one table's rows."""
    return lambda name, text: change(text) if name.endswith(f"{table}.copy") else text


def in_head(old: str, new: str) -> Callable[[str, bytes], bytes]:
    """Change the head."""
    return lambda name, text: text.replace(old.encode(), new.encode(), 1) if name == "afterrun.json" else text


CHANGES: dict[str, Callable[[str, bytes], bytes | None]] = {
    "a row less": line_of(lambda text: text.split(b"\n", 1)[1], "loose"),
    "a row more": line_of(lambda text: text + b"alive\tplanted\n", "loose"),
    "a row of another": line_of(lambda text: text.replace(b"o'neil", b"alive", 1), "loose"),
    "a value": line_of(lambda text: text.replace(b"same", b"some", 1), "loose"),
    "an end mark": line_of(lambda text: text.replace(b"o'neil\tsame", b"\\.", 1), "loose"),
    "no rows": lambda name, text: None if name.endswith("loose.copy") else text,
    "a member": lambda name, text: text.replace(b'"child"', b'"alive"') if "units" in name else text,
    "a unit less": lambda name, text: text.split(b"\n", 1)[1] if "units" in name else text,
    "a list that is none": lambda name, text: b"[]\n" if "units" in name else text,
    "no list": lambda name, text: None if "units" in name else text,
    "fewer pieces": in_head('"pieces": 1', '"pieces": 0'),
    "a checksum": in_head('"checksum": "', '"checksum": "0'),
}
REFUSALS: dict[str, Callable[[str, bytes], bytes | None]] = {
    "no head": lambda name, text: None if name == "afterrun.json" else text,
    "another format": in_head("backup/2", "backup/3"),
    "another profile": in_head('"own"', '"dbos"'),
    "another column": in_head('"value": "text"', '"valve": "text"'),
    "another type": in_head('"value": "text"', '"value": "bytea"'),
    "another table": in_head('"loose": {', '"lose": {'),
    "a path": in_head('-loose.copy"', '/../../loose.copy"'),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_backup_restores_nothing(
    store: PgStore, folder: Path, change: Callable[[str, bytes], bytes | None]
) -> None:
    """A backup is input: rows and lists that are not what it says of itself restore nothing."""
    store.prune(folder / "b.zip")
    rewritten(folder / "b.zip", change)
    before = store.content()
    with pytest.raises((BackupFailed, Refused)):
        store.restore(folder / "b.zip")
    with pytest.raises((BackupFailed, Refused)):
        store.restore(folder / "b.zip", "run-1")
    assert store.content() == before


@pytest.mark.parametrize("change", REFUSALS.values(), ids=REFUSALS)
def test_a_backup_of_something_else_is_refused(
    store: PgStore, folder: Path, change: Callable[[str, bytes], bytes | None]
) -> None:
    """Tables with other columns or types, another profile or format restore nothing, and it is said why."""
    store.prune(folder / "b.zip")
    rewritten(folder / "b.zip", change)
    before = store.content()
    with pytest.raises(Refused):
        store.restore(folder / "b.zip")
    assert store.content() == before


def test_a_planted_row_does_not_get_in(store: PgStore, folder: Path) -> None:
    """Even with all sums made to fit, a row of another run is no part of a unit, and the unit stays out."""
    store.prune(folder / "b.zip")
    rewritten(
        folder / "b.zip", line_of(lambda text: text.replace(b"run-3\tsame", b"alive\tsame", 1), "loose")
    )
    resummed(folder / "b.zip")
    before = store.content()
    with pytest.raises(Refused, match="not what was removed"):
        store.restore(folder / "b.zip", "run-3")
    assert store.content() == before
    assert store.restore(folder / "b.zip").named == ["run-3"]


def resummed(backup: Path) -> None:
    """Make all sums of a changed backup fit again, as one who forges it would."""
    head = head_of(backup)
    totals = Totals(list(head["tables"]))
    lines: list[bytes] = []
    with zipfile.ZipFile(backup) as file:
        rest = {}
        for name, table in head["tables"].items():
            member = f"000000/{table['file']}"
            rest[name] = file.read(member).splitlines(keepends=True) if member in file.namelist() else []
        for line in file.read("000000/units.jsonl").splitlines():
            unit = json.loads(line)
            found = UnitSum()
            for name, count in unit["rows"].items():
                mine, rest[name] = rest[name][:count], rest[name][count:]
                digests = [hashlib.sha256(row).digest() for row in mine]
                found.note(name, digests, sum(map(len, mine)))
            unit |= {"digest": found.digest, "size": found.size}
            lines.append(json.dumps(unit).encode() + b"\n")
            totals.add(found, lines[-1], kind=unit["kind"])
    for name, (rows, checksum) in totals.tables.items():
        head["tables"][name] |= {"rows": rows, "checksum": checksum}
    head |= {"units": totals.units, "checksum": totals.checksum}
    fresh = {"afterrun.json": json.dumps(head).encode(), "000000/units.jsonl": b"".join(lines)}
    rewritten(backup, fresh.get)


def test_damage_anywhere_is_found_or_harmless(store: PgStore, folder: Path) -> None:
    """One flipped byte, wherever it is, restores nothing or exactly what was removed."""
    full = store.content()
    store.prune(folder / "b.zip")
    whole = (folder / "b.zip").read_bytes()
    before = store.content()
    chance = random.Random(7)
    for place in chance.sample(range(len(whole)), 60):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        (folder / "d.zip").write_bytes(damaged)
        try:
            store.restore(folder / "d.zip", "run-1")
        except (BackupFailed, Refused, UnitNotFound):
            assert store.content() == before
        else:
            store.restore(folder / "b.zip")
            assert store.content() == full
            (folder / "again.zip").unlink(missing_ok=True)
            store.prune(folder / "again.zip")


def test_other_files_are_refused(store: PgStore, folder: Path) -> None:
    """A truncated backup, text, a SQLite file, a folder and a missing file restore nothing."""
    store.prune(folder / "b.zip")
    whole = (folder / "b.zip").read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        (folder / f"cut-{size}.zip").write_bytes(whole[:size])
    (folder / "text").write_text("no archive" * 99)
    shutil.copy(Path(__file__), folder / "code")
    with zipfile.ZipFile(folder / "other.zip", "w") as file:
        file.writestr("afterrun.json", "{}")
    before = store.content()
    for path in folder.iterdir():
        if path.name != "b.zip":
            with pytest.raises(Refused, match="finished"):
                store.restore(path)
    for path in (folder, folder / "missing", Path("a\0b")):
        with pytest.raises(StoreUnreadable):
            store.restore(path)
    assert store.content() == before


def test_an_unknown_run_is_not_found(store: PgStore, folder: Path) -> None:
    """An id that the backup lacks is an error with its own kind."""
    store.prune(folder / "b.zip")
    with pytest.raises(UnitNotFound):
        store.restore(folder / "b.zip", "alive")


def test_restore_waits_for_no_other_sweep(store: PgStore, folder: Path) -> None:
    """Restore takes the sweep lock and leaves at once where another holds it."""
    store.prune(folder / "b.zip")
    with store.retention() as other:
        lock = other.store.sweep_lock()
        assert lock is not None
        with lock, pytest.raises(StoreLocked):
            store.restore(folder / "b.zip")


def test_triggers_fire_as_for_any_insert(store: PgStore, folder: Path) -> None:
    """An engine's trigger that notifies is fired by restored rows, once a row."""
    store.run(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('restored', NEW.run); RETURN NEW; END $$;"
        "CREATE TRIGGER tell AFTER INSERT ON loose FOR EACH ROW EXECUTE FUNCTION tell()"
    )
    store.run("DELETE FROM loose WHERE run = 'run-1' AND value IS NOT NULL")
    store.prune(folder / "b.zip")
    with store.database.connect() as listener:
        listener.execute("LISTEN restored")
        store.restore(folder / "b.zip", "run-1")
        assert [told.payload for told in listener.notifies(timeout=0.0, stop_after=1)] == ["run-1"]


def test_a_trigger_that_changes_a_value_leaves_its_units_out(store: PgStore, folder: Path) -> None:
    """What would come back other than it was does not come back, and nothing of its unit does."""
    store.prune(folder / "b.zip")
    store.run(
        "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.value := NEW.value || '!'; RETURN NEW; END $$;"
        "CREATE TRIGGER change BEFORE INSERT ON loose FOR EACH ROW WHEN (NEW.run = 'run-4')"
        " EXECUTE FUNCTION change()"
    )
    restored = store.restore(folder / "b.zip")
    assert (restored.units, restored.named) == (UNITS - 1, ["run-4"])
    assert "trigger" in next(iter(restored.refused))
    assert "run-4" not in store.ids()


def test_a_superuser_runs_no_trigger_of_others(store: PgStore, folder: Path) -> None:
    """A superuser would run what another role wrote with all rights, so the way back is refused."""
    store.prune(folder / "b.zip")
    store.run(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
        "CREATE TRIGGER tell BEFORE INSERT ON loose FOR EACH ROW EXECUTE FUNCTION tell()"
    )
    with store.retention(user="postgres") as retention, pytest.raises(Refused, match="superuser"):
        retention.restore(folder / "b.zip", rest=0.0)
    assert store.ids() == {"alive"}


def test_a_role_that_may_not_insert_is_told_what_to_grant(store: PgStore, folder: Path, role: str) -> None:
    """Rights to remove are enough for a backup; the way back needs INSERT."""
    schema = SCHEMA.replace('"', '""')
    store.run(
        f'GRANT USAGE ON SCHEMA "{schema}" TO "{role}";'
        f'GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA "{schema}" TO "{role}";'
        f'GRANT UPDATE (status) ON runs TO "{role}"'
    )
    before = store.content()
    with store.retention(user=role) as retention:
        report = retention.prune(MONTH, backup=BackupOrder(path=folder / "b.zip"))
        assert report.units.removed == UNITS
        with pytest.raises(Refused, match=r"GRANT INSERT ON .*notes%. TO"):
            retention.restore(folder / "b.zip", rest=0.0)
    store.restore(folder / "b.zip")
    assert content(store.database, SCHEMA) == before
