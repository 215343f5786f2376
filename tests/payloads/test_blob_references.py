"""A blob goes with the last row that needs it, and each kind of need alone keeps it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest

from afterrun import Refused
from afterrun.stores.sql import blob_links, blob_table
from afterrun.stores.sql.blob_links import Link
from payloads.blob_kit import (
    BLOBS,
    DAY_MS,
    HEAD,
    HOUR_MS,
    MONTH,
    NOW_MS,
    OLD_MS,
    REFERENCES,
    Shop,
    add_blobs,
    add_runs,
    dangling,
    execute,
    left,
    opened,
    prune,
    refer,
)

ALONE = "the only reason"
"""The blob that one reason alone keeps."""


def test_a_shared_blob_stays_until_its_last_referrer_goes(shop: Shop) -> None:
    """It is counted once, with its bytes, in the plan and in the report of the sweep that takes it."""
    add_runs(shop, "a", "b")
    add_runs(shop, "c", live=True)
    add_blobs(shop, "of a", "shared", "of c")
    refer(shop, ("a", "of a"), ("a", "shared"), ("a", None), ("b", "shared"), ("c", "shared"), ("c", "of c"))
    with opened(shop) as retention:
        assert retention.plan(MONTH).as_json()["blobs"] == {"count": 1, "bytes": 10}
    report = prune(shop)
    assert report.as_json()["blobs"] == {"count": 1, "bytes": 10}
    assert left(shop) == ["of c", "shared"]
    execute(shop, f"UPDATE runs SET status = 'done', ended = {OLD_MS}")
    assert prune(shop).blobs.count == 2
    assert left(shop) == []


def test_a_plan_counts_a_blob_that_expired_trees_of_several_pages_share(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nothing but the plan's units refers to is counted, wherever they come; what others need is not."""
    monkeypatch.setattr("afterrun.service.retention.PLAN_PAGE", 2)
    runs = [f"r{number}" for number in range(9)]
    add_runs(shop, *runs)
    add_runs(shop, "live", live=True)
    add_blobs(shop, "far apart", "needed", "twice in one")
    refer(shop, ("r0", "far apart"), ("r4", "far apart"), ("r8", "far apart"))
    refer(shop, ("r2", "needed"), ("live", "needed"), ("r5", "twice in one"), ("r5", "twice in one"))
    with opened(shop) as retention:
        planned = retention.plan(MONTH)
        assert (planned.blobs.count, planned.blobs.size, planned.rows["blobs"]) == (2, 20, 2)
        assert planned.rows == retention.prune(MONTH).rows
    assert left(shop) == ["needed"]


@dataclass(frozen=True)
class Reason:
    """A row that alone keeps a blob, how to do without the rule, and whether the blob goes then."""

    name: str
    rows: Callable[[Shop], None]
    undo: Callable[[pytest.MonkeyPatch, Shop], None]


def _without_reference(column: str) -> Callable[[pytest.MonkeyPatch, Shop], None]:
    """Do without one declared reference."""

    def undo(_: pytest.MonkeyPatch, shop: Shop) -> None:
        kept = [part for part in REFERENCES.split("{") if column not in part]
        references = "{".join(kept).rstrip().rstrip(",").removesuffix("]").rstrip(", ") + "]\n"
        text = shop.profile.read_text(encoding="utf-8").replace(REFERENCES, references)
        shop.profile.write_text(text, encoding="utf-8")

    return undo


def _with_later_table(shop: Shop) -> None:
    execute(shop, "CREATE TABLE later (id integer PRIMARY KEY, body text REFERENCES blobs (digest))")
    execute(shop, "INSERT INTO later VALUES (1, ?)", (ALONE,))


def _with_named_column(shop: Shop) -> None:
    text = shop.profile.read_text(encoding="utf-8") + 'key_columns = ["Blob_Digest"]\n'
    shop.profile.write_text(text, encoding="utf-8")
    execute(shop, "CREATE TABLE unknown (id integer PRIMARY KEY, blob_digest text)")
    execute(shop, "INSERT INTO unknown VALUES (1, ?)", (ALONE,))


def _without_foreign_keys(patch: pytest.MonkeyPatch, shop: Shop) -> None:
    patch.setattr(blob_links, "_foreign", lambda *_: iter(()))
    execute(shop, "DROP TABLE later")  # the database itself would still refuse
    execute(shop, "CREATE TABLE later (id integer PRIMARY KEY, body text)")
    execute(shop, "INSERT INTO later VALUES (1, ?)", (ALONE,))


REASONS = [
    Reason(
        "the run table",
        lambda shop: execute(shop, "UPDATE runs SET input = ? WHERE id = 'live'", (ALONE,)),
        _without_reference('"runs"'),
    ),
    Reason(
        "an owned table",
        lambda shop: execute(shop, "INSERT INTO steps (run, input) VALUES ('live', ?)", (ALONE,)),
        _without_reference('"steps", column = "input"'),
    ),
    Reason("a table that was added later", _with_later_table, _without_foreign_keys),
    Reason(
        "a column by its name",
        _with_named_column,
        lambda patch, _: patch.setattr(blob_links, "_named", lambda *_: iter(())),
    ),
    Reason(
        "a lease",
        lambda shop: execute(shop, "INSERT INTO pins VALUES (?, ?)", (ALONE, NOW_MS + 1)),
        lambda patch, _: patch.setattr(blob_table.BlobTable, "_unpinned", lambda _: iter(())),
    ),
    Reason(
        "a lease without an end",
        lambda shop: execute(shop, "INSERT INTO pins VALUES (?, NULL)", (ALONE,)),
        lambda _, shop: execute(shop, "UPDATE pins SET lease = ?", (NOW_MS,)),
    ),
    Reason(
        "a lease that is no time",
        lambda shop: execute(shop, "INSERT INTO pins VALUES (?, 17)", (ALONE,)),
        lambda _, shop: execute(shop, "UPDATE pins SET lease = ?", (NOW_MS,)),
    ),
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_each_reason_alone_keeps_a_blob(shop: Shop, reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    """One blob has no other reason to stay than this; without the rule, it goes."""
    add_runs(shop, "old", "older")
    add_runs(shop, "live", live=True)
    add_blobs(shop, ALONE, "of old", "stray")
    refer(shop, ("old", ALONE), ("old", "of old"))
    reason.rows(shop)
    assert prune(shop).blobs.count == 2, "that of old, and another one that nothing refers to"
    assert left(shop) == [ALONE]
    refer(shop, ("older", ALONE))
    add_runs(shop, "older")
    reason.undo(monkeypatch, shop)
    with opened(shop) as retention:
        report = retention.prune(MONTH)
    assert (report.ended, report.blobs.count) == ("completed", 1)
    assert left(shop) == []


def test_a_lease_that_is_over_holds_nothing_and_goes_with_its_blob(shop: Shop) -> None:
    """Also where the pin has a foreign key to the blob; the pins of other blobs stay, over or not."""
    execute(shop, "DROP TABLE pins")
    execute(shop, "CREATE TABLE pins (digest text NOT NULL REFERENCES blobs (digest), lease bigint)")
    add_runs(shop, "a")
    add_blobs(shop, "x", "held", stored=NOW_MS)
    refer(shop, ("a", "x"), ("a", "held"))
    execute(shop, "INSERT INTO pins VALUES (?, ?)", ("x", NOW_MS), ("x", OLD_MS), ("held", NOW_MS + 1))
    execute(shop, "INSERT INTO pins VALUES (?, ?)", ("held", OLD_MS))
    with opened(shop) as retention:
        planned = retention.plan(MONTH)
        assert any("no index serves pins (digest)" in notice for notice in planned.notices)
        assert planned.rows["pins"] == 2
    assert prune(shop).rows["pins"] == 2
    assert left(shop) == ["held"]
    assert left(shop, "pins", "lease") == [OLD_MS, NOW_MS + 1]


def test_a_member_of_a_kept_tree_keeps_its_blobs(shop: Shop) -> None:
    """A finished child under a live root goes nowhere, and neither does what it refers to."""
    add_runs(shop, "root", live=True)
    add_runs(shop, "child", parent="root")
    add_runs(shop, "gone")
    add_blobs(shop, "shared")
    refer(shop, ("child", "shared"), ("gone", "shared"))
    assert prune(shop).blobs.count == 0
    assert left(shop) == ["shared"]


def test_keys_may_be_numbers(shop: Shop) -> None:
    """An integer key and columns of integers serve like digests."""
    execute(shop, "CREATE TABLE files (id integer PRIMARY KEY, body text)")
    execute(shop, "ALTER TABLE steps ADD COLUMN file integer")
    shop.profile.write_text(
        HEAD
        + '[[blobs]]\ntable = "files"\nkey = "id"\nreferences = [{ table = "steps", column = "file" }]\n',
        encoding="utf-8",
    )
    execute(shop, "INSERT INTO files VALUES (?, ?)", (1, "one"), (2, "two"), (3, "three"))
    add_runs(shop, "a")
    add_runs(shop, "b", live=True)
    execute(shop, "INSERT INTO steps (run, file) VALUES (?, ?)", ("a", 1), ("a", 2), ("b", 2), ("b", 3))
    with opened(shop) as retention:
        planned = retention.plan(MONTH)
        report = retention.prune(MONTH)
    assert planned.rows == report.rows
    assert report.blobs.count == 1
    assert report.blobs.size > 0
    assert left(shop, "files", "id") == [2, 3]


def test_an_unindexed_reference_is_reported_with_its_cost(shop: Shop) -> None:
    """The plan names the column, what it costs, and what helps; the removal is right all the same."""
    execute(shop, "DROP INDEX steps_output")
    add_runs(shop, "a")
    add_blobs(shop, "x")
    refer(shop, ("a", "x"))
    with opened(shop) as retention:
        notices = retention.plan(MONTH).notices
    expected = (
        "no index serves steps (output), so every blob of blobs that is looked at reads all of steps: its "
        "owner should index these columns"
    )
    assert [notice for notice in notices if "steps (output)" in notice] == [expected]
    assert prune(shop).blobs.count == 1


def test_what_cannot_be_compared_keeps_all_blobs_and_says_so(shop: Shop) -> None:
    """A column of another kind that may hold a key: rows go, no blob does, and the plan tells why."""
    text = shop.profile.read_text(encoding="utf-8") + 'key_columns = ["blob_digest"]\n'
    shop.profile.write_text(text, encoding="utf-8")
    execute(shop, "CREATE TABLE unknown (id integer PRIMARY KEY, blob_digest integer)")
    add_runs(shop, "a")
    add_blobs(shop, "x")
    refer(shop, ("a", "x"))
    with opened(shop) as retention:
        assert any("no blob of blobs goes" in notice for notice in retention.plan(MONTH).notices)
    report = prune(shop)
    assert (report.units.removed, report.blobs.count) == (1, 0)
    assert left(shop) == ["x"]


def test_a_foreign_key_over_several_columns_protects(shop: Shop) -> None:
    """A later table may refer to another unique key of the blobs, and with several columns."""
    execute(shop, "CREATE UNIQUE INDEX blobs_twice ON blobs (digest, size)")
    execute(
        shop,
        "CREATE TABLE later (id integer PRIMARY KEY, body text, bytes integer,"
        " FOREIGN KEY (bytes, body) REFERENCES blobs (size, digest))",
    )
    add_runs(shop, "a")
    add_blobs(shop, "x", "y", "z")
    refer(shop, ("a", "x"), ("a", "y"), ("a", "z"))
    execute(shop, "INSERT INTO later VALUES (?, ?, ?)", (1, "x", 10), (2, "y", None))
    assert prune(shop).blobs.count == 2
    assert left(shop) == ["x"]


def test_an_unknown_trigger_on_blobs_forbids_removal(shop: Shop) -> None:
    """As on every table that rows go from."""
    if shop.name == "sqlite":
        execute(shop, "CREATE TRIGGER t AFTER DELETE ON blobs BEGIN DELETE FROM version; END")
    else:
        execute(
            shop,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
            "CREATE TRIGGER t AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION f()",
        )
    add_runs(shop, "a")
    with opened(shop) as retention, pytest.raises(Refused, match="the table blobs has a trigger 't'"):
        retention.prune(MONTH)


def test_a_blob_that_the_database_keeps_stays_alone(shop: Shop) -> None:
    """What fails is halved until one blob is left over; it stays, is told, and all others go."""
    if shop.name == "sqlite":
        execute(
            shop,
            "CREATE TRIGGER t BEFORE DELETE ON blobs WHEN old.digest = 'b7'"
            " BEGIN SELECT raise(ABORT, 'no'); END",
        )
    else:
        execute(
            shop,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN IF old.digest = ''b7'' THEN RAISE EXCEPTION ''no''; END IF; RETURN old; END';"
            "CREATE TRIGGER t BEFORE DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION f()",
        )
    text = shop.profile.read_text(encoding="utf-8").replace("[detect]", '[detect]\ntriggers = ["t"]', 1)
    shop.profile.write_text(text, encoding="utf-8")
    blobs = [f"b{number}" for number in range(20)]
    add_runs(shop, "a")
    add_blobs(shop, *blobs, stored=NOW_MS - HOUR_MS)
    refer(shop, *(("a", blob) for blob in blobs))
    with opened(shop) as retention:
        report = retention.prune(MONTH)
    assert (report.ended, report.blobs.count) == ("completed", 19)
    assert left(shop) == ["b7"]
    assert "1 blobs could not be removed (trigger) and stay" in report.notices


def test_verify_counts_lost_references_and_unneeded_blobs(shop: Shop) -> None:
    """References without their blob, and blobs without a reference but for those of the last day."""
    add_runs(shop, "a", live=True)
    add_blobs(shop, "needed", "unneeded")
    add_blobs(shop, "young", stored=NOW_MS - HOUR_MS)
    refer(shop, ("a", "needed"), ("a", "lost"), ("a", "lost too"), ("a", None))
    with opened(shop) as retention:
        assert list(retention.verify()) == [
            "blobs: 2 rows of steps (output) refer to blobs of blobs that are gone",
            "blobs: 1 rows of blobs are referred to by nothing; a sweep looks for them now and then",
        ]


def test_a_run_that_refers_to_a_missing_blob_goes(shop: Shop) -> None:
    """A lost reference keeps nothing, and is no failure."""
    add_runs(shop, "a")
    refer(shop, ("a", "lost"))
    report = prune(shop)
    assert (report.units.removed, report.blobs.count) == (1, 0)
    assert dangling(shop) == []


def test_what_removes_blobs_is_told_with_all_other_statements(shop: Shop) -> None:
    """The statements say what is returned, locked and looked up."""
    with opened(shop) as retention:
        told = dict(retention.store.statements())
    assert "RETURNING" in told["removal from steps"]
    assert "RETURNING" in told["removal from blobs"]
    assert ("lock of blobs" in told) == (shop.name == "postgresql")


def test_links_are_named_for_people() -> None:
    """A link says its table and columns."""
    assert Link("later", ("a", "b"), ("x", "y"), foreign=True).place == "later (a, b)"


def test_a_blob_is_counted_with_its_row_where_no_column_has_its_size(shop: Shop) -> None:
    """Without ``size`` the bytes of the row count."""
    text = (HEAD + BLOBS).replace('size = "size"\n', "")
    shop.profile.write_text(text, encoding="utf-8")
    add_runs(shop, "a")
    add_blobs(shop, "x", stored=NOW_MS - DAY_MS // 2)
    refer(shop, ("a", "x"))
    with opened(shop) as retention:
        planned = retention.plan(MONTH).blobs
    report = prune(shop)
    assert report.blobs == planned
    assert report.blobs.size > len(b"0123456789")
    with closing(shop.connect()) as session:
        assert session.run("SELECT count(*) FROM blobs") == [(0,)]


def test_runs_that_go_with_their_parent_tell_their_blobs_too(shop: Shop) -> None:
    """Where the database itself removes children, no removal returns their rows: they are read before."""
    execute(shop, "DROP TABLE runs")
    execute(
        shop,
        "CREATE TABLE runs (id text PRIMARY KEY, status text, ended bigint,"
        " parent text REFERENCES runs (id) ON DELETE CASCADE, input text)",
    )
    for column in ("ended", "parent", "input"):
        execute(shop, f"CREATE INDEX runs_{column} ON runs ({column})")
    add_runs(shop, "a")
    add_runs(shop, "b", parent="a")
    add_runs(shop, "c", parent="b")
    add_blobs(shop, "x", "y", "z", stored=NOW_MS)
    for run, blob in (("a", "x"), ("b", "y"), ("c", "z")):
        execute(shop, "UPDATE runs SET input = ? WHERE id = ?", (blob, run))
    report = prune(shop)
    assert (report.rows["runs"], report.blobs.count) == (3, 3)
    assert left(shop) == []


def test_a_batch_that_is_rolled_back_releases_nothing(shop: Shop) -> None:
    """Its rows still refer to their blobs; the unit that fails alone keeps its own."""
    if shop.name == "sqlite":
        execute(
            shop,
            "CREATE TRIGGER t BEFORE DELETE ON runs WHEN old.id = 'bad' BEGIN SELECT raise(ABORT, 'no'); END",
        )
    else:
        execute(
            shop,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN IF old.id = ''bad'' THEN RAISE EXCEPTION ''no''; END IF; RETURN old; END';"
            "CREATE TRIGGER t BEFORE DELETE ON runs FOR EACH ROW EXECUTE FUNCTION f()",
        )
    text = shop.profile.read_text(encoding="utf-8").replace("[detect]", '[detect]\ntriggers = ["t"]', 1)
    shop.profile.write_text(text, encoding="utf-8")
    add_runs(shop, "good", "bad")
    add_blobs(shop, "x", "y", "both")
    refer(shop, ("good", "x"), ("bad", "y"), ("good", "both"), ("bad", "both"))
    with opened(shop) as retention:
        report = retention.prune(MONTH)
    assert (report.units.removed, report.units.deferred, report.blobs.count) == (1, 1, 1)
    assert left(shop) == ["both", "y"]
    assert dangling(shop) == []


def test_the_index_of_a_key_serves_pins(shop: Shop) -> None:
    """A primary key that begins with the blob's is an index, whatever the database calls it."""
    execute(shop, "DROP TABLE pins")
    execute(shop, "CREATE TABLE pins (digest text NOT NULL, lease bigint, PRIMARY KEY (digest, lease))")
    add_runs(shop, "a")
    add_blobs(shop, "x", "y")
    refer(shop, ("a", "x"), ("a", "y"))
    execute(shop, "INSERT INTO pins VALUES (?, ?)", ("x", NOW_MS), ("y", NOW_MS), ("y", NOW_MS + 1))
    with opened(shop) as retention:
        assert not any("no index" in notice for notice in retention.plan(MONTH).notices)
    assert prune(shop).rows["pins"] == 1
    assert left(shop) == ["y"]


def test_a_blob_that_refers_to_another_keeps_it_while_it_is_there(shop: Shop) -> None:
    """A foreign key of the blobs into themselves: the other one goes with the next full pass."""
    execute(shop, "ALTER TABLE blobs ADD COLUMN base text REFERENCES blobs (digest)")
    execute(shop, "CREATE INDEX blobs_base ON blobs (base)")
    add_runs(shop, "a")
    with closing(shop.connect()) as session:
        for digest, base in (("base", None), ("delta", "base")):
            session.run("INSERT INTO blobs VALUES (?, NULL, 1, ?, ?)", digest, OLD_MS, base)
    refer(shop, ("a", "delta"))
    with opened(shop) as retention:
        report = retention.prune(MONTH)
    assert report.blobs.count == 2, "the candidate first, and the full pass after it"
    assert left(shop) == []
