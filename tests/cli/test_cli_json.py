"""`--json`: one object on standard output, whatever happens, and its agreed shape."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from afterrun.service import Retention

from .kit import change, count, run_cli, run_process

APPLY = ("--apply", "--no-backup", "--yes")
REPORT = {
    "store", "profile", "schema", "dry_run", "now", "policy", "fingerprint", "units", "rows", "blobs",
    "keys_forgotten", "bytes", "backlog", "seconds", "batches", "ended",
}  # fmt: skip
"""Words of a report that scripts rely on."""


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--keep-for", "30d", "STORE"),
        ("plan", "--keep-for", "30d", "--show-sql", "STORE"),
        ("explain", "STORE", "run-3", "--keep-for", "30d"),
        ("prune", "--keep-for", "30d", "STORE"),
        ("prune", "--keep-for", "30d", *APPLY, "-v", "STORE"),
        ("sweep", "--keep-for", "30d", "-v", "STORE"),
        ("verify", "STORE"),
        ("profile", "list"),
        ("profile", "show", "dbos"),
        ("profile", "check", "STORE"),
        ("plan", "--keep-for", "30x", "STORE"),
        ("plan", "--keep-fro", "30d", "STORE"),
        ("plan",),
        ("sweeep",),
        ("profile", "shwo"),
        ("profile", "show", "nothing"),
        ("explain", "STORE", "nothing", "--keep-for", "30d"),
        ("verify", "/nowhere/at/all"),
        ("prune", "--keep-for", "30d", "--apply", "STORE"),
    ],
)
def test_standard_output_is_one_object(store: Path, words: tuple[str, ...]) -> None:
    """With --json, standard output is one JSON object, and an error stands on standard error as well."""
    answer = run_cli(*(str(store) if word == "STORE" else word for word in words), "--json")
    value = answer.json
    if "error" in value:
        assert answer.code != Exit.DONE
        assert set(value["error"]) >= {"kind", "message"}
        assert value["error"]["message"].splitlines()[0] in answer.err
    else:
        assert answer.code in {Exit.DONE, Exit.REFUSED}


@pytest.mark.parametrize("words", [("plan",), ("prune",), ("sweep",), ("prune", *APPLY)], ids="-".join)
def test_a_report_has_the_agreed_words(store: Path, words: tuple[str, ...]) -> None:
    """Plan, prune and sweep print the report that scripts know."""
    report = run_cli(*words, store, "--keep-for", "30d", "--json").json
    assert set(report) >= REPORT
    assert report["store"] == f"sqlite:///{store.resolve()}"
    assert report["schema"] == {"version": "125", "read": True}
    assert report["policy"] == {"keep_for": "30d", "grace": "1h"}
    assert report["dry_run"] is (words[-1] != "--yes")
    assert report["ended"] == ("guard" if words[0] == "sweep" else "completed")


def test_plan_and_prune_count_the_same(store: Path) -> None:
    """Promise 7: what the plan counts is what goes, table by table."""
    before = {table: count(store, table) for table in ("workflow_status", "operation_outputs")}
    plan = run_cli("plan", store, "--keep-for", "30d", "--json").json
    done = run_cli("prune", store, "--keep-for", "30d", *APPLY, "--json").json
    assert plan["units"]["tree"]["expired"] == done["units"]["tree"]["removed"] == 11
    assert plan["rows"] == done["rows"]
    for table, rows in before.items():
        assert rows - count(store, table) == plan["rows"][table]


def test_an_explanation_has_the_agreed_words(store: Path) -> None:
    """An explanation has unit, kind, verdict, reasons, members, times and group."""
    change(store, "UPDATE workflow_status SET parent_workflow_id = 'run-3' WHERE workflow_uuid = 'run-9'")
    answer = run_cli("explain", store, "run-9", "--keep-for", "30d", "--json").json
    assert answer["unit"] == "run-3"
    assert answer["run"] == "run-9"
    assert answer["kind"] == "tree"
    assert answer["verdict"] == "recent"
    assert [reason["name"] for reason in answer["reasons"]] == ["keep-for"]
    assert [member["run"] for member in answer["members"]] == ["run-3", "run-9"]
    assert answer["members"][1]["parent"] == "run-3"
    assert answer["members"][0]["parent"] is None
    assert answer["group"] == {"name": "flow", "application_name": None}
    assert answer["ended_at"] < answer["now"] < answer["eligible_at"]
    assert all(answer[name].endswith("Z") for name in ("ended_at", "now", "eligible_at"))
    rules = {rule["rule"]: rule for rule in answer["rules"]}
    assert rules["keep_for"]["keeps"] is True
    assert rules["keep_for"]["until"] > answer["now"]
    assert rules["grace"]["keeps"] is False
    assert rules["grace"]["until"] < answer["now"]


def test_members_of_a_wide_tree_are_bounded(store: Path) -> None:
    """A tree of thousands of runs is listed in part, and counted whole."""
    change(
        store,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        "INSERT INTO workflow_status (workflow_uuid, status, completed_at, parent_workflow_id) "
        "SELECT 'kid-' || i, 'SUCCESS', (SELECT completed_at FROM workflow_status WHERE "
        "workflow_uuid = 'run-39'), 'run-39' FROM n",
    )
    as_json = run_cli("explain", store, "run-39", "--keep-for", "30d", "--json").json
    assert as_json["member_count"] == 3_001
    assert len(as_json["members"]) == 1_000
    told = run_cli("explain", store, "run-39", "--keep-for", "30d").out
    assert "and 2,981 more" in told
    assert told.count("kid-") < 30


def test_verify_lists_every_fault(store: Path) -> None:
    """Rows without their run are a fault: exit 1, and a line for each table."""
    assert run_cli("verify", store, "--json").json == {
        "store": f"sqlite:///{store.resolve()}",
        "profile": "dbos",
        "ok": True,
        "problems": [],
    }
    change(store, "DELETE FROM workflow_status WHERE workflow_uuid = 'run-1'")
    answer = run_cli("verify", store, "--json")
    assert answer.code == Exit.ERROR
    assert answer.json["ok"] is False
    assert any("operation_outputs" in problem for problem in answer.json["problems"])
    told = run_cli("verify", store)
    assert told.code == Exit.ERROR
    assert "orphans" in told.out


def test_a_plan_shows_its_statements(store: Path) -> None:
    """--show-sql prints the statements that read and remove, without a value of a row."""
    sql = run_cli("plan", store, "--keep-for", "30d", "--show-sql", "--json").json["sql"]
    assert any(name.startswith("page by completed_at") for name in sql)
    assert sql["removal from workflow_status"].startswith('DELETE FROM "workflow_status"')
    told = run_cli("plan", store, "--keep-for", "30d", "--show-sql")
    assert '\nDELETE FROM "operation_outputs" WHERE' in told.out
    assert "run-3" not in told.out
    assert "sql" not in run_cli("plan", store, "--keep-for", "30d", "--json").json


def test_a_bug_is_one_line_without_parameters(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody expected says its type and that it is a bug, and none of its words."""

    def broken(*_args: object, **_options: object) -> None:
        raise LookupError("parameters: private")

    monkeypatch.setattr(Retention, "outlook", broken)
    answer = run_cli("plan", store, "--keep-for", "30d", "--json")
    assert answer.code == Exit.ERROR
    assert answer.err == "afterrun: unexpected LookupError: this is a bug\n"
    assert answer.json["error"]["kind"] == "bug"
    assert "private" not in answer.out


def test_a_reader_who_goes_away_is_no_error(store: Path) -> None:
    """A closed pipe on standard output ends quietly, with the command's own exit code."""
    reading, writing = os.pipe()
    os.close(reading)
    answers = [
        run_process("plan", store, "--keep-for", "30d", stdout=writing),
        run_process("plan", store, "--keep-for", "30d", "--json", stdout=writing),
        run_process("sweep", store, "--keep-for", "30d", stdout=writing),
        run_process("--help", stdout=writing),
    ]
    os.close(writing)
    assert [answer.err for answer in answers] == ["", "", "", ""]
    assert [answer.code for answer in answers] == [Exit.DONE, Exit.DONE, Exit.REFUSED, Exit.DONE]
