"""`plan` beside what was asked: other ages, what stays and how old it is, stuck runs, the calendar."""

from __future__ import annotations

import io
import sqlite3
import time
from contextlib import closing, redirect_stdout
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from afterrun.cli import main
from afterrun.cli.calendar import SHOWN, Calendar
from afterrun.core.errors import Exit
from afterrun.core.outlook import Day

from .kit import DAY_MS, add_run, change, make_store, run_cli, unchanged

TODAY = date(2026, 11, 29)


@pytest.fixture
def aged(tmp_path: Path) -> Path:
    """Make a store with 120 runs, one for each day back, four stuck ones and two that are blocked."""
    path = make_store(tmp_path / "aged.sqlite", 120, live=1)
    now = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(path)) as connection, connection:
        for number, days in enumerate((31, 50, 60, 400)):
            add_run(connection, f"stuck-{number}", now - days * DAY_MS, status="PENDING")
        add_run(connection, "odd-1", now - 200 * DAY_MS, status="NO SUCH WORD")
        add_run(connection, "odd-2", now - 45 * DAY_MS, status="NO SUCH WORD")
        add_run(connection, "held", now - 80 * DAY_MS)
        add_run(connection, "holder", now - DAY_MS, status="PENDING", parent="held")
    return path


def test_three_columns_stand_beside_what_was_asked(aged: Path) -> None:
    """Each age shows what a plan of its own would, and the report is that of the asked policy."""
    with unchanged(aged):
        found = run_cli("plan", aged, "--keep-for", "14d", "--json").json
    assert [part["keep_for"] for part in found["other_ages"]] == ["7d", "30d", "90d"]
    for part in found["other_ages"]:
        own = run_cli("plan", aged, "--keep-for", part["keep_for"], "--json").json
        assert part["units"] == own["units"]["tree"]["expired"] > 0
        assert part["rows"] == sum(own["rows"].values())
        assert part["logical_bytes"] == pytest.approx(own["bytes"]["logical"], rel=0.05)
        assert (part["estimated"], part["error"]) == (False, 0.0)
    assert found["units"]["tree"]["expired"] == sum(found["rows"].values()) // 3 == 120 - 13


def test_an_age_that_was_asked_has_equal_columns(aged: Path) -> None:
    """Asked for 30 days, the column of 30 days says the same, bytes included."""
    found = run_cli("plan", aged, "--keep-for", "30d", "--json").json
    same = found["other_ages"][1]
    assert same["units"] == found["units"]["tree"]["expired"]
    assert same["rows"] == sum(found["rows"].values())
    assert same["logical_bytes"] == found["bytes"]["logical"]


@pytest.mark.parametrize("asked", [("--keep-for", "forever"), ("--before", "2001-01-01T00:00:00Z")])
def test_ages_take_the_place_of_the_asked_age(aged: Path, asked: tuple[str, str]) -> None:
    """A policy that keeps everything still shows what an age would do; a pin holds there, too."""
    plain = run_cli("plan", aged, *asked, "--json").json
    pinned = run_cli("plan", aged, *asked, "--pin", "run-100", "--json").json
    assert plain["units"]["tree"]["expired"] == 0
    assert [part["units"] for part in plain["other_ages"]] == [114, 91, 31]
    assert [part["units"] for part in pinned["other_ages"]] == [113, 90, 30]


def test_what_stays_has_reason_age_and_ids(aged: Path) -> None:
    """Blocked units are named, with the age of the oldest; protected ones are counted with theirs."""
    found = run_cli("plan", aged, "--keep-for", "30d", "--json").json
    tree = found["units"]["tree"]
    blocked = found["stays"]["blocked"]["unknown-status"]
    assert (blocked["count"], blocked["ids"]) == (2, ["odd-1", "odd-2"])
    assert _age(blocked["oldest"]) == 200
    live = found["stays"]["protected"]["live-member"]
    assert live["count"] == tree["protected"]["live-member"] == 6
    assert _age(live["oldest"]) == 400
    assert "ids" not in live
    text = run_cli("plan", aged, "--keep-for", "30d").out
    assert "blocked, unknown-status" in text
    assert "200 days ago" in text
    assert "odd-1, odd-2" in text


def test_stuck_runs_are_counted_and_named(aged: Path) -> None:
    """Runs alive for over 30 days are stuck, the oldest first; the one of yesterday is not."""
    stuck = run_cli("plan", aged, "--keep-for", "30d", "--json").json["stuck"]
    assert (stuck["count"], _age(stuck["oldest"])) == (4, 400)
    assert stuck["ids"] == ["stuck-3", "stuck-2", "stuck-1", "stuck-0"]
    change(aged, "DELETE FROM workflow_status WHERE workflow_uuid LIKE 'stuck-%'")
    assert run_cli("plan", aged, "--keep-for", "30d", "--json").json["stuck"]["count"] == 0
    assert "sign of life" not in run_cli("plan", aged, "--keep-for", "30d").out


def _age(moment: str) -> int:
    """Return about how many days ago a moment was."""
    return round((datetime.now(UTC) - datetime.fromisoformat(moment)) / timedelta(days=1))


def test_many_younger_units_are_sampled_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the younger units are estimates, marked; what was asked and longer ages are exact."""
    path = tmp_path / "many.sqlite"
    make_store(path, 0, live=1)
    now = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(path)) as connection, connection:
        for number in range(4_000):
            add_run(connection, f"run-{number}", now - (number * DAY_MS) // 40 - 1)
    monkeypatch.setattr("afterrun.core.outlook.EXACT_UNITS", 300)
    found = run_cli("plan", path, "--keep-for", "28d", "--json").json
    seven, thirty, ninety = found["other_ages"]
    assert [part["estimated"] for part in (seven, thirty, ninety)] == [True, False, False]
    assert seven["units"] == pytest.approx(3_720, rel=0.03)
    assert seven["rows"] == pytest.approx(3 * 3_720, rel=0.03)
    assert (thirty["units"], ninety["units"]) == (2_800, 400)
    assert found["units"]["tree"]["expired"] == 2_880
    assert f"~{seven['units']:,}" in run_cli("plan", path, "--keep-for", "28d").out


def test_the_calendar_adds_up(aged: Path) -> None:
    """Days come in order; expired ones are those that go, and all ended runs are on some day."""
    assert run_cli("plan", aged, "--keep-for", "30d", "--json").json["calendar"] is None
    found = run_cli("plan", aged, "--keep-for", "30d", "--calendar", "--json").json
    days = found["calendar"]
    assert [day["day"] for day in days] == sorted({day["day"] for day in days})
    assert sum(day["expired"] for day in days) == found["units"]["tree"]["expired"]
    assert sum(day["expired"] + day["kept"] for day in days) == 121
    assert all(day["kept"] + day["expired"] for day in days)


def test_the_calendar_is_drawn(aged: Path) -> None:
    """A line for each of the last 60 days, and one for what ended before."""
    answer = run_cli("plan", aged, "--keep-for", "30d", "--calendar")
    lines = [line for line in answer.out.splitlines() if " go, " in line and "would" not in line]
    assert len(lines) == SHOWN  # none of today
    assert lines[0].startswith("before ")
    assert "\x1b" not in answer.out
    assert "\u2588" in lines[5]
    assert "\u2591" in lines[-1]


def test_a_stream_that_cannot_show_blocks_gets_ascii(aged: Path) -> None:
    """Where the encoding has no blocks, the bars are plain characters."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    with redirect_stdout(stream):
        assert main(["plan", str(aged), "--keep-for", "30d", "--calendar"]) == Exit.DONE
    text = raw.getvalue().decode("ascii")
    assert "####" in text
    assert "...." in text
    assert "\\u" not in text


@pytest.mark.parametrize("width", [45, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Bars take the room there is, and no more."""
    days = [
        Day(TODAY - timedelta(days=back), back * 7_919 % 10_000, back * 104_729 % 10_000)
        for back in range(90)
    ]
    lines = list(Calendar(days, today=TODAY, encoding="utf-8").lines(width))
    assert len(lines) == SHOWN + 2
    assert max(map(len, lines[2:])) <= width
    assert max(map(len, lines[2:])) > min(width, 80) - 10


def test_the_least_count_shows_beside_the_greatest() -> None:
    """One unit beside a million still has its mark, and a day without units has an empty line."""
    days = [Day(TODAY - timedelta(days=2), 1, 1_000_000), Day(TODAY, 1, 0)]
    _, most, none, least = Calendar(days, today=TODAY, encoding="utf-8").lines(80)
    assert most.count("\u2591") == least.count("\u2591") == 1
    assert none == "2026-11-28"
    assert "1,000,000 go, 1 stay" in most


def test_a_store_without_ended_units_has_a_calendar(tmp_path: Path) -> None:
    """Nothing ended is no fault: the calendar has today alone, and its list is empty."""
    path = make_store(tmp_path / "empty.sqlite", 0, live=0)
    assert run_cli("plan", path, "--keep-for", "30d", "--calendar", "--json").json["calendar"] == []
    assert run_cli("plan", path, "--keep-for", "30d", "--calendar").code == Exit.DONE
