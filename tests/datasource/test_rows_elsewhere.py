"""Rows of a datasource in another database go with their runs, and a plan says so."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from afterrun import Retention
from afterrun.core.errors import Exit, UsageError
from cli.kit import run_cli
from datasource.leaving import run_file_cli
from datasource.pairs import (
    CLEAN,
    CRASHED,
    EXPIRED,
    HELD,
    MONTH,
    ROWS,
    WAITING,
    FilePairs,
    Pair,
    ServerPairs,
    Side,
)

pytestmark = pytest.mark.engine


def test_rows_in_the_datasource_go_with_their_runs(pair: Pair) -> None:
    """A plan counts them under a name of their own, and exactly these go (promise 7)."""
    with pair.retention() as retention:
        plan = retention.plan(MONTH)
        assert (pair.runs(), pair.held()) == (EXPIRED | {WAITING}, HELD | {WAITING})
        report = retention.prune(MONTH)
    assert plan.rows[ROWS] == len(HELD)
    assert dict(plan.rows) == dict(report.rows)
    assert (report.ended, report.units.removed) == ("completed", len(EXPIRED))
    assert pair.owners() == pair.runs() == pair.held() == {WAITING}
    assert pair.intents() == []
    assert report.interrupted is None


def test_without_the_datasource_its_rows_stay_and_a_reused_id_gets_the_old_output(pair: Pair) -> None:
    """The trap: so the plan says that they stay, and how they would go."""
    with pair.retention(reaching=False) as retention:
        notices = retention.plan(MONTH).notices
        report = retention.prune(MONTH)
    assert any("stay there" in notice and "--datasource" in notice for notice in notices)
    assert ROWS not in report.rows
    assert pair.held() == HELD | {WAITING}
    again = pair.engine("rerun", CRASHED)[CRASHED]
    assert again["result"].startswith(f"charged {CRASHED}")
    assert again["charges"] == [CRASHED]


def test_a_cap_in_bytes_counts_rows_in_the_datasource(pair: Pair) -> None:
    """What units hold there is part of what they take, so a cap in bytes comes to fewer of them."""
    body = "x" * 20_000
    pair.datasource.rows("UPDATE {s}datasource_outputs SET output = :body", body=body)
    with pair.retention(writable=False) as here, pair.retention(reaching=False, writable=False) as alone:
        held, units = here.store.content()
        least, same = alone.store.content()
    assert units == same == len(EXPIRED) + 1
    stored = len(HELD | {WAITING}) * len(body)
    assert held - least > (stored if pair.datasource.location.endswith(".sqlite") else stored // 200)


def test_an_automatic_sweep_reaches_the_datasource_too(pair: Pair) -> None:
    """It asks first, as ever, and then takes the rows along."""
    with pair.retention() as retention:
        asked = retention.sweep(MONTH)
        assert (asked.ended, asked.rows[ROWS]) == ("guard", len(HELD))
        report = retention.sweep(MONTH, approve=asked.fingerprint)
    assert (report.ended, report.rows[ROWS]) == ("completed", len(HELD))
    assert pair.held() == {WAITING}


def test_intent_is_on_disk_and_closed_to_others_before_anything_goes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first row of the datasource goes, the file lists its runs with what they hold, mode 0600."""
    seen: list[tuple[int, set[str]]] = []
    with pair.retention() as retention:
        annex = retention.store.reach.annexes[0]
        real = annex.remove

        def remove(keys: list[str]) -> int:
            (file,) = pair.intents()
            entries = json.loads(file.read_text(encoding="utf-8"))["intents"]
            held = {key for entry in entries for key in entry["held"]}
            seen.append((stat.S_IMODE(file.stat().st_mode), held))
            return real(keys)

        monkeypatch.setattr(annex, "remove", remove)
        retention.prune(MONTH)
    assert seen == [(0o600, set(HELD))]


def test_batch_without_rows_elsewhere_writes_no_intent(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most runs hold nothing there: they cost one look, and neither a file nor a transaction."""
    with pair.retention() as retention:
        monkeypatch.setattr(retention.store.reach, "memory", None)
        report = retention.prune(MONTH, only=[CLEAN])
    assert report.units.removed == 1
    assert pair.runs() == EXPIRED - {CLEAN} | {WAITING}


def test_rows_in_several_databases_go_together(
    on_server: ServerPairs, file_pair: Pair, tmp_path: Path
) -> None:
    """A run may have steps in two datasources, of different kinds: counted together, removed together."""
    (tmp_path / "other").mkdir()
    other = on_server.make(tmp_path / "other")
    places = [file_pair.datasource.location, other.datasource.location]
    with Retention(file_pair.store.location, state=file_pair.state, datasources=places) as retention:
        plan = retention.plan(MONTH)
        report = retention.prune(MONTH)
    assert plan.rows[ROWS] == report.rows[ROWS] == 2 * len(HELD)
    assert file_pair.held() == other.held() == {WAITING}
    on_server.drop(other)


def test_schema_of_a_datasource_is_free(on_server: ServerPairs, server_pair: Pair) -> None:
    """The only schema that has the table is taken; of several, the URL says which."""
    server_pair.datasource.rows("ALTER SCHEMA dbos RENAME TO checkpoints")
    with server_pair.retention() as retention:
        assert retention.plan(MONTH).rows[ROWS] == len(HELD)
    server_pair.datasource.rows("CREATE SCHEMA other")
    server_pair.datasource.rows("CREATE TABLE other.datasource_outputs (workflow_id TEXT, step_id INTEGER)")
    with pytest.raises(UsageError, match="several schemas"):
        server_pair.retention()
    place = f"{server_pair.datasource.location}?schema=checkpoints"
    with replace(server_pair, datasource=Side(place)).retention() as retention:
        assert retention.prune(MONTH).rows[ROWS] == len(HELD)


def test_command_line_shows_rows_of_the_datasource(file_pair: Pair, tmp_path: Path) -> None:
    """`--datasource` works alike for plan, prune and sweep, and in the environment."""
    for command, words in (("plan", ()), ("prune", ())):
        answer = run_file_cli(command, file_pair, "--keep-for", "30d", "--json", *words)
        assert answer["rows"][ROWS] == len(HELD)
    other = FilePairs().make(tmp_path / "other")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AFTERRUN_STATE_DIR", str(other.state))
        patch.setenv("AFTERRUN_DATASOURCE", other.datasource.location)
        answer_text = run_cli("sweep", other.store.location, "--keep-for", "30d")
    assert answer_text.code == Exit.REFUSED
    assert ROWS in answer_text.out
