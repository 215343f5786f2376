"""`afterrun config check`: what a file comes to, without opening a store or showing a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import make_store, run_cli, unchanged
from config.conftest import Write
from config.test_settings_file import SECRET

TEXT = f"""
    [policy]
    keep_for = "30d"
    [stores.orders]
    store = "orders.sqlite"
    [stores.mail]
    store = "postgresql://someone:{SECRET}@host/db"
    interval = "0s"
    approve = true
"""


def test_it_says_what_each_store_comes_to(write: Write, tmp_path: Path) -> None:
    """For people and as JSON; the store is not touched, and no password is shown."""
    make_store(tmp_path / "orders.sqlite")
    path = write(TEXT)
    with unchanged(tmp_path / "orders.sqlite"):
        told, answer = run_cli("config", "check", path), run_cli("config", "check", path, "--json")
    assert (told.code, answer.code) == (Exit.DONE, Exit.DONE)
    assert SECRET not in told.out + told.err + answer.out + answer.err
    assert answer.json["stores"]["mail"] == {
        "store": "postgresql://someone:***@host/db",
        "datasources": [],
        "profile": None,
        "policy": {"keep_for": "30d", "grace": "1h"},
        "approve": True,
        "interval": "0s",
        "pause": 1.0,
        "max_seconds": None,
        "trash": None,
        "metrics_file": None,
    }
    assert all(word in told.out for word in ("orders", "keep_for 30d", "off", "detected"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["afterrun.toml", "orders.sqlite"]


def test_the_file_may_be_named_by_a_variable_or_be_the_usual_one(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument comes before AFTERRUN_CONFIG, and that before afterrun.toml of this folder."""
    path = write(TEXT)
    monkeypatch.chdir(tmp_path)
    assert run_cli("config", "check", "--json").json["file"] == "afterrun.toml"
    monkeypatch.setenv("AFTERRUN_CONFIG", str(path))
    assert run_cli("config", "check", "--json").json["file"] == str(path)
    assert run_cli("config", "check", "elsewhere.toml").code == Exit.USAGE


def test_faults_end_with_2_and_are_all_there(write: Write) -> None:
    """Each on its line, for people and in the JSON of the error."""
    path = write(TEXT.replace("keep_for", "keep_fro").replace("approve", "aprove"))
    told, answer = run_cli("config", "check", path), run_cli("config", "check", path, "--json")
    assert (told.code, answer.code) == (Exit.USAGE, Exit.USAGE)
    assert told.err.count("did you mean") == 2
    assert answer.json["error"]["message"].count("did you mean") == 2
    assert SECRET not in told.err + answer.out


def test_variables_that_mean_nothing_are_shown(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who set one on purpose sees that it has no effect."""
    monkeypatch.setenv("AFTERRUN_PAUSE", "3")
    path = write(TEXT)
    assert run_cli("config", "check", path, "--json").json["ignored"] == ["AFTERRUN_PAUSE"]
    assert "AFTERRUN_PAUSE" in run_cli("config", "check", path).out


def test_a_file_without_stores_is_a_policy_alone(write: Write) -> None:
    """It is right, and the watch has nothing to do."""
    told = run_cli("config", "check", write('[policy]\nkeep_for = "30d"'))
    assert (told.code, "names no store" in told.out) == (Exit.DONE, True)
