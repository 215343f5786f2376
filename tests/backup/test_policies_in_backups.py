"""A backup says by which policy it was made, whatever rules that has."""

from __future__ import annotations

from pathlib import Path

from afterrun.core.errors import Exit
from cli.kit import make_store, run_cli


def test_narrower_rules_and_periods_stand_in_the_head(tmp_path: Path) -> None:
    """A policy of lists within tables is no reason for a backup to fail."""
    store = make_store(tmp_path / "app.sqlite")
    file = tmp_path / "policy.toml"
    rules = '[[policy.rules]]\nmatch = { status = ["ERROR"] }\nkeep_for = "90d"\n'
    file.write_text(f'[policy]\nkeep_for = "30d"\nkeep_daily = 1\n{rules}')
    backup = tmp_path / "backup.sqlite"
    words = ("--policy", file, "--apply", "--yes", "--json", "--backup", backup)
    answer = run_cli("prune", store, *words)
    assert answer.code == Exit.DONE
    assert answer.json["backup"]["units"] == answer.json["units"]["tree"]["removed"] > 0
    assert run_cli("restore", store, backup).code == Exit.DONE
