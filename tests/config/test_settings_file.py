"""A settings file: what it comes to, and every fault of it at once."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import FOREVER, UsageError
from afterrun.config import Settings, StoreSettings, load_settings
from cli.kit import make_store, run_cli
from config.conftest import Write

SECRET = "s3cret"  # noqa: S105 - it opens nothing
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def faults(path: Path, **variables: str) -> list[str]:
    """Load a settings file that is wrong; return its faults. None of them repeats a password."""
    with pytest.raises(UsageError) as caught:
        load_settings(path, environ=variables)
    text = str(caught.value)
    assert SECRET not in text
    head, *lines = text.split("\n")
    assert str(path) in head
    return [line.removeprefix("  - ") for line in lines]


def only(settings: Settings) -> StoreSettings:
    """Return the one store."""
    (store,) = settings.stores
    return store


def test_the_example_of_the_page_comes_to_what_it_says(write: Write, tmp_path: Path) -> None:
    """Stores, merged policies, defaults and places are those that the page describes."""
    example = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    settings = load_settings(write(example), environ={"MAIL_STORE": "mail.sqlite"})
    orders, mail, agents = settings.stores
    assert (orders.name, orders.location) == ("orders", str(tmp_path / "orders.sqlite"))
    assert orders.rules.canonical() == {
        "keep_for": "90d",
        "keep_last": 5,
        "keep_last_counts": "successful",
        "grace": "1h",
    }
    assert (orders.interval, orders.pause, orders.approve) == (timedelta(hours=12), 1.0, False)
    assert orders.metrics_file == tmp_path / "orders.prom"
    assert mail.location == str(tmp_path / "mail.sqlite")
    assert mail.rules.keep_for is None
    assert (mail.rules.keep_last, mail.rules.group_by) == (20, ("name",))
    assert (mail.interval, mail.pause, mail.max_seconds) == (timedelta(hours=24), 4.0, 600)
    assert mail.profile == "dbos"
    assert (mail.trash, agents.trash) == (None, timedelta(hours=24))
    assert settings.telemetry.log_format == "json"
    assert settings.telemetry.prometheus_file == tmp_path / "afterrun.prom"


def test_what_is_left_out_has_its_default(write: Write) -> None:
    """A store needs a place and a policy, nothing else."""
    store = only(load_settings(write('[stores.a]\nstore = "a.db"\npolicy.keep_last = 1'), environ={}))
    assert (store.profile, store.approve, store.interval) == (None, False, timedelta(hours=24))
    assert (store.pause, store.max_seconds, store.metrics_file) == (1.0, None, None)


def test_general_keys_hold_for_stores_that_say_nothing(write: Write) -> None:
    """`approve` and `interval` of a store come before those at the top."""
    text = """
        approve = true
        interval = "6h"
        [policy]
        keep_for = "30d"
        [stores.a]
        store = "a.db"
        [stores.b]
        store = "b.db"
        approve = false
        interval = "0s"
    """
    first, second = load_settings(write(text), environ={}).stores
    assert (first.approve, first.interval) == (True, timedelta(hours=6))
    assert (second.approve, second.interval) == (False, timedelta(0))


def test_datasources_are_places_like_the_store(write: Write, tmp_path: Path) -> None:
    """Relative to the file, and with passwords that are not shown."""
    path = write(
        f"""
        [policy]
        keep_last = 1
        [stores.a]
        store = "a.db"
        datasources = ["steps.db", "postgresql://u:{SECRET}@h/db"]
        """
    )
    store = only(load_settings(path, environ={}))
    assert store.datasources == (str(tmp_path / "steps.db"), f"postgresql://u:{SECRET}@h/db")
    assert SECRET not in repr(store)
    assert SECRET not in run_cli("config", "check", path, "--json").out


def test_trash_is_for_directories(write: Write) -> None:
    """A duration; a URL can have none, and no number is one."""
    text = '[stores.a]\nstore = "{}"\npolicy.keep_last = 1\ntrash = {}\n'
    store = only(load_settings(write(text.format("runs", '"2d"')), environ={}))
    assert store.trash == timedelta(days=2)
    over = {"AFTERRUN_STORES_A_TRASH": "12h"}
    assert only(load_settings(write(text.format("runs", '"2d"')), environ=over)).trash == timedelta(hours=12)
    assert "stores.a.trash" in faults(write(text.format("sqlite:///a.db", '"2d"')))[0]
    assert "stores.a.trash" in faults(write(text.format("runs", '"soon"')))[0]
    assert "stores.a.trash" in faults(write(text.format("runs", "5")))[0]


def test_policies_merge_key_by_key_and_pins_add_up(write: Write) -> None:
    """A store changes what it names; pins only keep more, so none is lost."""
    text = """
        [policy]
        keep_for = "30d"
        grace = "2h"
        pins = ["one"]
        [stores.a]
        store = "a.db"
        [stores.a.policy]
        keep_for = "forever"
        pins = ["two"]
    """
    rules = only(load_settings(write(text), environ={})).rules
    assert rules.canonical() == {"keep_for": "forever", "grace": "2h", "pins": 2}


def test_narrower_rules_of_a_store_take_the_place_of_all_others(write: Write) -> None:
    """As every key but pins does; without any of its own, a store has those of [policy]."""
    text = """
        [policy]
        keep_for = "30d"
        keep_daily = 7
        timezone = "Europe/Berlin"
        [[policy.rules]]
        match = { status = ["failed"] }
        keep_for = "90d"
        [stores.a]
        store = "a.db"
        [stores.b]
        store = "b.db"
        [[stores.b.policy.rules]]
        match = { name = ["x", "y"], status = ["ERROR"] }
        keep_for = "forever"
    """
    found = {store.name: store.rules for store in load_settings(write(text), environ={}).stores}
    assert [rule.name for rule in found["a"].rules] == ["keep_for[status=failed]"]
    assert [rule.name for rule in found["b"].rules] == ["keep_for[name=x|y, status=ERROR]"]
    assert found["b"].rules[0].keep_for is FOREVER
    assert {rules.keep_daily for rules in found.values()} == {7}


def test_faults_of_narrower_rules_have_their_place(write: Write) -> None:
    """All of them, with the others; and what only shows when the whole is put together."""
    text = """
        [policy]
        keep_for = "30d"
        timezone = "Berlin"
        cap_bytes = "5 gigs"
        [[policy.rules]]
        mach = { status = ["failed"] }
        keep_for = "90d"
        [[policy.rules]]
        match = { status = [] }
        keep_for = "1 month"
        [stores.a]
        store = "a.db"
        inherit = false
        [[stores.a.policy.rules]]
        match = { status = ["failed"] }
        keep_for = "90d"
    """
    found = dict(line.split(": ", 1) for line in faults(write(text)))
    assert found["policy.rules.0.mach"] == "unknown key (did you mean 'match'?)"
    assert {"policy.rules.0.match", "policy.rules.1.match.status", "policy.rules.1.keep_for"} <= set(found)
    assert "no time zone" in found["policy.timezone"]
    assert "no size" in found["policy.cap_bytes"]
    alone = write(text[text.index("[stores.a]") :])
    found = dict(line.split(": ", 1) for line in faults(alone))
    assert 'keep_for = "forever" keeps it' in found["stores.a.policy"]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("x.db", "{folder}/x.db"),
        ("../x.db", "{folder}/../x.db"),
        ("/srv/x.db", "/srv/x.db"),
        ("sqlite:///x.db", "sqlite:///{folder}/x.db"),
        ("sqlite:////srv/x.db", "sqlite:////srv/x.db"),
        ("postgresql://u:s3cret@h/db?schema=a", "postgresql://u:s3cret@h/db?schema=a"),
    ],
)
def test_relative_places_are_relative_to_the_file(
    write: Write, tmp_path: Path, said: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a command is started, the file means the same; URLs of servers stay as they are."""
    monkeypatch.chdir("/")
    path = write(f'[policy]\nkeep_last = 1\n[stores.a]\nstore = "{said}"\nprofile = "own.toml"')
    store = only(load_settings(path, environ={}))
    assert store.location == place.format(folder=tmp_path)
    assert store.profile == str(tmp_path / "own.toml")
    assert SECRET not in repr(store)


def test_every_fault_is_said_at_once(write: Write) -> None:
    """Unknown keys with the nearest, wrong types, wrong words and policies that make no sense."""
    text = f"""
        intervall = "1h"
        approve = 1
        [policy]
        keep_fro = "30d"
        [stores.a]
        stor = "a.db"
        [stores.b]
        store = "b.db"
        interval = "1 day"
        pause = 1000
        [stores.b.policy]
        before = "2026-01-01"
        keep_last = 0
        [stores.C]
        store = "c.db"
        [stores.d]
        store = "postgresql://u:{SECRET}@h/db"
        max_seconds = "many"
        [telemetry]
        log_format = "xml"
        prometheus = "x"
    """
    found = faults(write(text))
    begun = {line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in found}
    assert begun["intervall"] == "unknown key (did you mean 'interval'?)"
    assert begun["policy.keep_fro"] == "unknown key (did you mean 'keep_for'?)"
    assert begun["stores.a.stor"] == "unknown key (did you mean 'store'?)"
    assert begun["telemetry.prometheus"] == "unknown key (did you mean 'prometheus_file'?)"
    assert "no duration" in begun["stores.b.interval"]
    assert "no time zone" in begun["stores.b.policy.before"]
    assert {
        "approve",
        "stores.b.pause",
        "stores.b.policy.keep_last",
        "stores.C",
        "stores.d.max_seconds",
        "telemetry.log_format",
    } <= set(begun)
    assert len(found) == len(begun) == 12


def test_faults_beyond_the_form_are_said_with_the_others(write: Write) -> None:
    """A store without a place, a variable that is not set, an empty policy, one store under two names."""
    text = """
        [stores.a]
        policy.keep_last = 1
        [stores.b]
        store_env = "NOT_SET"
        policy.keep_last = 1
        [stores.c]
        store = "c.db"
        [stores.d]
        store = "d.db"
        policy.group_by = ["name"]
        policy.keep_for = "1d"
        [stores.e]
        store = "sub/../e.db"
        policy.keep_last = 1
        [stores.f]
        store = "sqlite:///e.db"
        policy.keep_last = 1
        [stores.g]
        store = "g.db"
        store_env = "HOME"
        policy.keep_last = 1
        [stores.h]
        store = "h.db"
        datasources = ["postgresql+x://u:s3cret@h:port/db"]
        policy.keep_last = 1
        [stores.i]
        stroe = "i.db"
    """
    path = write(text)
    (path.parent / "sub").mkdir()
    found = {line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in faults(path)}
    assert found["stores.a"] == "it says no store; give store or store_env"
    assert found["stores.b.store_env"] == "the variable NOT_SET is not set"
    assert "keeps nothing" in found["stores.c.policy"]
    assert "keep_last is not set" in found["stores.d.policy"]
    assert found["stores.f"] == "it is the same store as stores.e"
    assert found["stores.g"] == "it has both store and store_env; leave one out"
    assert "no valid URL" in found["stores.h.datasources"]
    assert "unknown key" in found["stores.i.stroe"]


def test_one_database_under_two_urls_is_one_store(write: Write) -> None:
    """User, password, driver and ways to connect make no other store; the schema does."""
    text = f"""
        [policy]
        keep_last = 1
        [stores.a]
        store = "postgresql://u:{SECRET}@h:5432/db"
        [stores.b]
        store = "postgresql+psycopg://v@h:5432/db?connect_timeout=3"
        [stores.c]
        store = "postgresql://u@h:5432/db?schema=other"
    """
    assert faults(write(text)) == ["stores.b: it is the same store as stores.a"]


def test_two_files_of_metrics_at_one_place_are_refused(write: Write) -> None:
    """One would replace the other."""
    text = """
        [policy]
        keep_last = 1
        [stores.a]
        store = "a.db"
        metrics_file = "x.prom"
        [stores.b]
        store = "b.db"
        metrics_file = "./x.prom"
        [stores.c]
        store = "c.db"
        metrics_file = "all.prom"
        [telemetry]
        prometheus_file = "all.prom"
    """
    assert faults(write(text)) == [
        "stores.b.metrics_file: it is the same file as stores.a.metrics_file",
        "stores.c.metrics_file: it is the same file as telemetry.prometheus_file",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'stores = "a.db"',
        "policy = 1",
        "[[stores]]",
        "stores.a = 1",
        "stores.a.policy = []",
        "telemetry = []",
        "[stores.a]\nstore = 1",
        "[stores.a]\npolicy.pins = [1]",
        "[stores.'']\nstore = 'x'",
        '[stores.a]\nstore = "a\\u0000b"\npolicy.keep_last = 1',
    ],
)
def test_tables_of_the_wrong_kind_are_faults(write: Write, text: str) -> None:
    """Whatever stands where, there is an answer and no traceback; also with variables over it."""
    assert faults(write(text))
    assert faults(write(text), AFTERRUN_STORES_A_KEEP_FOR="1d", AFTERRUN_KEEP_FOR="1d")


@pytest.mark.parametrize("text", ["[policy\nx = 1", "a = \n", 'a = "\\q"'])
def test_a_file_that_is_no_toml_is_an_error_with_its_place(write: Write, text: str) -> None:
    """The line is said."""
    with pytest.raises(UsageError, match=r"afterrun\.toml is not valid TOML: .*line [12]"):
        load_settings(write(text), environ={})


def test_a_store_of_the_file_has_its_own_policy_wherever_the_file_is_given(
    write: Write, tmp_path: Path
) -> None:
    """`--policy FILE` removes nothing by a shorter rule than the store's own, whatever names the store."""
    store, other = make_store(tmp_path / "store.sqlite"), make_store(tmp_path / "other.sqlite")
    path = write('[policy]\nkeep_for = "10d"\n[stores.own]\nstore = "store.sqlite"\npolicy.keep_for = "35d"')
    for name in (store, f"sqlite:///{store}", tmp_path / "." / ".." / tmp_path.name / "store.sqlite"):
        answer = run_cli("plan", name, "--policy", path, "--json").json
        assert answer["policy"]["keep_for"] == "35d"
    assert run_cli("plan", other, "--policy", path, "--json").json["policy"]["keep_for"] == "10d"
    said = run_cli("plan", store, "--policy", path, "--keep-for", "20d", "--json").json
    assert said["policy"]["keep_for"] == "20d"


def test_a_store_of_the_file_is_approved_there(write: Write, tmp_path: Path) -> None:
    """`approve` of the store admits its sweep, and not that of another."""
    store, other = make_store(tmp_path / "store.sqlite"), make_store(tmp_path / "other.sqlite")
    path = write('[policy]\nkeep_for = "30d"\n[stores.own]\nstore = "store.sqlite"\napprove = true')
    assert run_cli("sweep", store, "--policy", path, "--offline", "--json").json["ended"] == "completed"
    assert run_cli("sweep", other, "--policy", path, "--offline", "--json").json["ended"] == "guard"
