"""What holds of a run store at any time, told from all of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from afterrun.runs.schema import blobs
from afterrun.runs.side_tables import metadata
from afterrun.runs.words import LIVE, SETTLED_AT_END

Tables: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
Owed: TypeAlias = tuple[str, int, str, str]


def open_work(tables: Tables) -> set[Owed]:
    """Return the obligations that are open."""
    return {
        (row["run_id"], row["generation"], row["kind"], row["subject"])
        for row in tables["obligations"]
        if row["closed_at"] is None
    }


def expected_work(tables: Tables) -> set[Owed]:
    """Return the open work that the other tables tell of."""
    resting = {"queued": "queued", "parked": "waiting", "waiting": "waiting"}
    told = {(row["id"], 0, resting[row["status"]], "") for row in tables["runs"] if row["status"] in resting}
    trying = {"queued": "queued", "running": "recording"}
    told |= {
        (row["run_id"], row["generation"], trying[row["status"]], f"step {row['step']}")
        for row in tables["attempts"]
        if row["status"] in trying
    }
    told |= {
        (row["run_id"], row["generation"], kind, f"{subject}{row['number']}")
        for name, kind, subject in (
            ("tasks", "queued", "task "),
            ("approvals", "pending-interaction", ""),
            ("decisions", "pending-decision", ""),
            ("effects", "unsettled-effect", ""),
            ("turns", "open-turn", ""),
            ("follow_ups", "follow-up", ""),
        )
        for row in tables[name]
        if row["ended_at"] is None
    }
    told |= {(row["run_id"], 0, "lease", "") for row in tables["leases"] if row["released_at"] is None}
    alive = {row["id"] for row in tables["runs"] if row["ended_at"] is None}
    unread = {row["run_id"] for row in tables["messages"] if row["consumed_at"] is None}
    told |= {(run, 0, "pending-message", "") for run in unread & alive}
    told |= {
        (row["run_id"], row["generation"], "resumable-checkpoint", str(row["number"]))
        for row in tables["checkpoints"]
        if row["resumable"] and row["settled_at"] is None
    }
    return told | {
        (row["run_id"], 0, kind, str(row["number"]))
        for name, column, kind in (
            ("managed_resources", "released_at", "managed-resource"),
            ("results", "acknowledged_at", "undelivered-result"),
            ("pins", "released_at", "pinned-content"),
        )
        for row in tables[name]
        if row[column] is None
    }


def check_cancelled(tables: Tables) -> None:
    """Make sure that no run below a cancelled one is live, and that none of its bookkeeping is left."""
    rows = {row["id"]: row for row in tables["runs"]}
    cancelled = {run for run in rows if _under_cancelled(rows, run)}
    assert not {run for run in cancelled if rows[run]["status"] in LIVE}
    assert not {owed for owed in open_work(tables) if owed[0] in cancelled and owed[2] in SETTLED_AT_END}


def _under_cancelled(rows: Mapping[str, Mapping[str, Any]], run: str | None) -> bool:
    while run is not None:
        row = rows[run]
        if row["status"] == "cancelled":
            return True
        run = row["parent_id"] or row["restart_of"] or row["continuation_of"]
    return False


def check_links(tables: Tables) -> None:
    """Make sure that links stay in a tree, and that what ended has the end of its generation and its key."""
    rows = {row["id"]: row for row in tables["runs"]}
    begun = {(row["run_id"], row["generation"], row["number"]) for row in tables["steps"]}
    current = {(row["run_id"], row["number"]): row for row in tables["generations"]}
    buried = {row["key"] for row in tables["idempotency_tombstones"]}
    for row in rows.values():
        links = [row[name] for name in ("parent_id", "restart_of", "continuation_of") if row[name]]
        assert {rows[link]["root_id"] for link in links} <= {row["root_id"]}
        place = (row["parent_id"], row["parent_generation"], row["parent_step"])
        assert row["parent_id"] is None or place in begun
        last = current[row["id"], row["generation"]]
        alive = row["ended_at"] is None
        assert ((last["ended_at"] is None), (last["status"] == "running")) == (alive, alive)
        assert row["idempotency_key"] is None or (row["idempotency_key"] in buried) != alive


def check_effects(tables: Tables) -> None:
    """Make sure that what was applied has its receipt, and that no ended run is still applying anything."""
    place = "run_id", "generation", "number"
    applied = {tuple(row[name] for name in place) for row in tables["effects"] if row["status"] == "applied"}
    assert applied == {(row["run_id"], row["generation"], row["effect"]) for row in tables["receipts"]}
    rows = {row["id"]: row for row in tables["runs"]}
    unsure = {row["run_id"] for row in tables["effects"] if row["status"] in ("pending", "applying")}
    assert not {run for run in unsure if rows[run]["ended_at"] is not None}
    open_ones = [row["run_id"] for row in tables["checkpoints"] if row["resumable"] and not row["settled_at"]]
    assert len(open_ones) == len(set(open_ones))
    assert {row["starter_id"] for row in tables["managed_resources"]} <= set(rows)


def referred(tables: Tables) -> set[int]:
    """Return the content that any row refers to."""
    columns = [
        (table.name, column.name)
        for table in metadata.tables.values()
        for column in table.columns
        if any(key.column is blobs.c.id for key in column.foreign_keys)
    ]
    return {row[column] for name, column in columns for row in tables[name]} - {None}
