"""Where nobody says what to keep: 30 days for our own runs, a refusal for all others."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import Policy, Refused, Retention, SweepOptions, hosting
from afterrun.config import load_settings
from afterrun.core.errors import ProfileError, UsageError
from afterrun.core.times import DAY
from afterrun.profiles import load_built_in, load_profile
from afterrun.profiles.loader import built_in_names, built_in_text
from afterrun.runs import RunStore
from cli.kit import make_store, run_cli
from runs.runs_kit import ManualClock, ended_run

SAID = "nobody said what to keep, so this is what the profile native says"
DEFAULT = {"keep_for": "30d", "grace": "1h", "generations": {"keep_for": "30d"}}


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a store in a file with a run that ended 40 days ago and one that ended 20 days ago."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    path = str(tmp_path / "agent.sqlite")
    now = time.time_ns() // 1_000
    for days in (40, 20):
        with RunStore.open(path, clock=ManualClock(now - days * DAY)) as store:
            ended_run(store)
    return path


@pytest.mark.parametrize("words", [("plan",), ("prune",), ("sweep",)])
def test_commands_need_no_policy_for_our_own_store(agent: str, words: tuple[str, ...]) -> None:
    """They take that of the profile, and say so; what else was said holds beside it."""
    answer = run_cli(*words, agent, "--grace", "2h", "--json").json
    assert answer["policy"] == DEFAULT | {"grace": "2h"}
    assert SAID in answer["notices"]
    assert answer["units"]["tree"]["expired"] == 1
    said = run_cli(*words, agent, "--keep-for", "10d", "--json").json
    assert said["policy"] == {"keep_for": "10d", "grace": "1h"}
    assert SAID not in said["notices"]


def test_an_explanation_goes_by_the_default(agent: str) -> None:
    """It shows the rules that it went by."""
    with RunStore.open(agent) as store:
        run = store.newest(limit=1)[0].id
    answer = run_cli("explain", agent, run, "--json").json
    assert (answer["verdict"], answer["policy"]["keep_for"]) == ("recent", "30d")


def test_rules_for_generations_alone_are_no_empty_policy(agent: str) -> None:
    """Who says something of past generations lets no whole run go by a default."""
    answer = run_cli("plan", agent, "--generations-keep-for", "7d", "--json").json
    assert "keep_for" not in answer["policy"]
    assert SAID not in answer["notices"]


def test_an_approval_of_the_default_is_one_of_the_same_rules(agent: str) -> None:
    """The fingerprint knows what is kept, and not whether anybody said it."""
    with Retention(agent) as retention:
        told = Policy(keep_for=timedelta(days=30), generations=Policy(keep_for=timedelta(days=30)))
        assert retention.plan().fingerprint == retention.plan(told).fingerprint


def test_hosts_may_leave_the_policy_out(agent: str, tmp_path: Path) -> None:
    """A retention without a policy, and a scheduled store, go by the default."""
    with Retention(agent, state=tmp_path / "state") as retention:
        assert retention.prune(options=SweepOptions(offline=True)).units.removed == 1
        assert retention.explain(_only(agent)).verdict.value == "recent"
    opening = hosting.Opening(state=tmp_path / "state")
    assert hosting.HostedStore(agent, None, SweepOptions(), opening).policy is None
    assert hosting.scheduled(agent, gate=hosting.IdleGate()) is not None


def _only(location: str) -> str:
    with RunStore.open(location) as store:
        return store.newest(limit=1)[0].id


@pytest.mark.parametrize("call", [Retention.plan, Retention.prune, Retention.sweep, Retention.survey])
def test_other_stores_are_refused_without_a_policy(
    tmp_path: Path, call: Callable[[Retention], object]
) -> None:
    """Nobody but their owners decides how long their runs are kept."""
    path = make_store(tmp_path / "dbos.sqlite")
    with Retention(str(path), state=tmp_path / "state") as retention:
        with pytest.raises(Refused, match="--keep-for 30d") as refused:
            call(retention)
        assert refused.value.reason == "empty-policy"


def test_no_other_profile_has_a_default() -> None:
    """It is for our own store alone."""
    having = {name for name in built_in_names() if name != "pi-subagents" and load_built_in(name).policy}
    assert having == {"native"}


def test_settings_that_name_the_profile_need_no_policy(tmp_path: Path) -> None:
    """Else nothing tells what the store is before it is opened, so a policy must be there."""
    path = tmp_path / "afterrun.toml"
    path.write_text('[stores.agent]\nstore = "agent.sqlite"\nprofile = "native"\n')
    [store] = load_settings(path, environ={}).stores
    assert store.rules.canonical() == DEFAULT
    assert store.rules.is_default
    path.write_text('[stores.agent]\nstore = "agent.sqlite"\nprofile = "dbos"\n')
    with pytest.raises(UsageError, match=r"stores\.agent\.policy: the policy keeps nothing"):
        load_settings(path, environ={})
    path.write_text('[stores.agent]\nstore = "agent.sqlite"\n')
    with pytest.raises(UsageError, match=r"stores\.agent\.policy: the policy keeps nothing"):
        load_settings(path, environ={})


def test_a_default_that_makes_no_sense_is_a_fault_of_the_profile() -> None:
    """Ages are durations above zero."""
    for age in ("0d", "forever", "a month"):
        text = built_in_text("native").replace('keep_for = "30d"\ngen', f'keep_for = "{age}"\ngen')
        with pytest.raises(ProfileError, match=r"policy\.keep_for"):
            load_profile(text, source="mine.toml")
