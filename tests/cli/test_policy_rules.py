"""The policy language at the command line: its options, what a plan says of rules, and what explain does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from afterrun.config import PolicyText
from afterrun.core.errors import Exit

from .kit import change, run_cli, unchanged

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
SETTINGS = """
[policy]
keep_for = "30d"
keep_daily = 2
timezone = "Europe/Berlin"
cap_units = 38
[[policy.rules]]
match = { status = ["failed"] }
keep_for = "90d"
[[policy.rules]]
match = { status = ["CANCELLED"], name = ["flow"] }
keep_for = "5d"
"""
"""Runs ended 1, 2, 3, ... 40 days ago; one is live."""


@pytest.fixture
def settings(tmp_path: Path, store: Path) -> Path:
    """Write the settings above; of the runs of the store, some did not end well."""
    change(
        store,
        "UPDATE workflow_status SET status = 'ERROR' WHERE workflow_uuid IN ('run-34', 'run-38')",
        "UPDATE workflow_status SET status = 'CANCELLED' WHERE workflow_uuid IN ('run-2', 'run-9')",
    )
    path = tmp_path / "afterrun.toml"
    path.write_text(SETTINGS)
    return path


def test_every_rule_but_narrower_ones_is_an_option(store: Path) -> None:
    """And says what the key of the same name says in a settings file."""
    words = ["--keep-hourly", "1", "--keep-daily", "7", "--keep-weekly", "4", "--keep-monthly", "6"]
    words += ["--keep-yearly", "2", "--timezone", "Europe/Berlin", "--cap-units", "10000"]
    words += ["--cap-bytes", "5 GiB", "--keep-keys", "forever"]
    answer = run_cli("plan", store, *words, "--json")
    assert answer.json["policy"] == {
        "keep_hourly": 1,
        "keep_daily": 7,
        "keep_weekly": 4,
        "keep_monthly": 6,
        "keep_yearly": 2,
        "keep_last_counts": "successful",
        "timezone": "Europe/Berlin",
        "grace": "1h",
        "cap_units": 10000,
        "cap_bytes": "5GiB",
        "keep_keys": "forever",
    }
    assert any("cap_bytes 5GiB comes to ~" in line for line in answer.json["notices"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--keep-daily", "0"), "keep_daily must be at least 1"),
        (("--keep-daily", "x"), "not a valid integer"),
        (("--keep-daily", "1", "--timezone", "Europe/Berln"), "did you mean 'Europe/Berlin'?"),
        (("--cap-bytes", "5G"), "no size"),
        (("--cap-bytes", "0"), "cap_bytes must be at least 1"),
        (("--cap-units", "0"), "cap_units must be at least 1"),
        (("--keep-keys", "1 month", "--keep-for", "1d"), "no duration"),
        (("--group-by", "name", "--keep-for", "1d"), "keep_last is not set"),
    ],
)
def test_words_that_make_no_sense_are_a_mistake_of_usage(
    store: Path, words: tuple[str, ...], says: str
) -> None:
    """Zero is not for ever, and a zone has a name."""
    answer = run_cli("plan", store, *words)
    assert answer.code == Exit.USAGE
    assert says in answer.err


def test_keys_alone_are_an_empty_policy(store: Path) -> None:
    """They protect, and let nothing go."""
    assert run_cli("plan", store, "--keep-keys", "90d").code == Exit.REFUSED


def test_a_rule_that_the_profile_does_not_know_is_refused(store: Path, settings: Path) -> None:
    """With the nearest word, before anything is read."""
    settings.write_text(SETTINGS.replace('"failed"', '"fialed"'))
    answer = run_cli("plan", store, "--policy", settings)
    assert (answer.code, answer.out) == (Exit.USAGE, "")
    assert "did you mean 'failed'" in answer.err


def test_a_plan_says_which_rule_decided(store: Path, settings: Path) -> None:
    """In JSON and in the table; what decided nothing is listed, too."""
    with unchanged(store):
        found = run_cli("plan", store, "--policy", settings, "--json")
        told = run_cli("plan", store, "--policy", settings)
    units = found.json["units"]["tree"]
    assert units["decided"] == {
        "grace": 0,
        "cap_units": 1,
        "keep_for[name=flow, status=CANCELLED]": 0,
        "keep_for[status=failed]": 1,
        "keep_for": 24,
        "keep_daily": 0,
        "age": 4,
    }
    assert units["expired"] == 11
    part = told.out.partition("which rule decided")[2].partition("\n\n")[0]
    rows = dict(
        re.findall(r"^(\S.*?)\s{2,}(\d+)(?=\s{2,}stay|\s{2,}go|\s{2,}it decided|$)", part, re.MULTILINE)
    )
    assert {name: int(count) for name, count in rows.items()} == {
        ("too young for every rule" if name == "age" else name): count
        for name, count in units["decided"].items()
    }
    assert "keep_daily decided nothing" in told.out
    assert "which rule decided" in told.out
    assert "(match (name flow, status CANCELLED), keep_for 5d)" in " ".join(told.out.split())


def rules_of(store: Path, settings: Path, run: str) -> dict[str, dict[str, object]]:
    """Return what explain says of each rule."""
    answer = run_cli("explain", store, run, "--policy", settings, "--json")
    assert answer.code == Exit.DONE
    return {rule["rule"]: rule for rule in answer.json["rules"]}


def test_explain_says_what_every_rule_makes_of_a_run(store: Path, settings: Path) -> None:
    """Narrower rules, periods with their zone, and the place in the cap."""
    told = rules_of(store, settings, "run-34")
    assert told["keep_for[status=failed]"]["keeps"] is True
    assert told["keep_for[status=failed]"]["until"] is not None
    assert told["keep_for"]["says"] == "a narrower rule decides"
    assert told["keep_for[name=flow, status=CANCELLED]"]["says"] == "another rule is more specific"
    assert "within the newest 38" in str(told["cap_units"]["says"])
    assert "(Europe/Berlin)" in str(told["keep_daily"]["says"])
    beyond = rules_of(store, settings, "run-38")
    assert beyond["keep_for[status=failed]"]["keeps"] is False
    assert beyond["keep_for[status=failed]"]["says"] == "it is beyond the cap"
    assert "beyond the newest 38" in str(beyond["cap_units"]["says"])
    answer = run_cli("explain", store, "run-34", "--policy", settings)
    assert "keeps it: its time ends" in answer.out
    assert "timezone" in answer.out


def test_explain_says_when_a_run_becomes_eligible(store: Path, settings: Path) -> None:
    """With the rule that is for it; a count has no clock, and beyond the cap only grace has."""

    def eligible(run: str, *more: str) -> tuple[str, bool]:
        found = run_cli("explain", store, run, "--policy", settings, *more, "--json").json
        return found["verdict"], found["eligible_at"] is not None

    assert eligible("run-34") == ("recent", True)
    assert eligible("run-5") == ("recent", True)
    assert eligible("run-0") == ("recent", False)
    assert eligible("run-38") == ("expired", False)
    assert eligible("run-38", "--grace", "100d") == ("recent", True)
    assert eligible("run-35", "--keep-keys", "60d") == ("protected", True)


def test_what_the_plan_counts_goes(store: Path, settings: Path) -> None:
    """Promise 7: by the same rules."""
    done = run_cli("prune", store, "--policy", settings, "--apply", "--no-backup", "--yes", "--json")
    assert (done.code, done.json["units"]["tree"]["removed"]) == (Exit.DONE, 11)
    again = run_cli("plan", store, "--policy", settings, "--json")
    assert again.json["units"]["tree"]["expired"] == 0


def test_the_page_has_every_rule_and_its_example_is_right(store: Path, tmp_path: Path) -> None:
    """What people copy is read, and every name that a plan gives a rule stands in the table."""
    example = tmp_path / "example.toml"
    example.write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])
    found = run_cli("plan", store, "--policy", example, "--json")
    assert found.code == Exit.DONE
    assert all(f"`{name}`" in PAGE for name in found.json["units"]["tree"]["decided"])
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert set(PolicyText.model_fields) <= words
