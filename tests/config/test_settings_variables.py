"""Variables of the environment take the place of the keys they are named after."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from afterrun import FOREVER
from afterrun.config import OTHER_VARIABLES, PolicyText, StoreText, load_settings, variables
from afterrun.config.environment import row_variables
from config.conftest import Write
from config.test_settings_file import SECRET, faults, only

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
FILE = """
    [policy]
    keep_for = "30d"
    [stores.my-orders]
    store = "a.db"
"""


def test_each_kind_of_value_can_be_said(write: Write) -> None:
    """Text, numbers, flags and lists, of the store and of what all stores share."""
    environ = {
        "AFTERRUN_APPROVE": "true",
        "AFTERRUN_KEEP_LAST": "7",
        "AFTERRUN_STORES_MY_ORDERS_PAUSE": "2.5",
        "AFTERRUN_STORES_MY_ORDERS_MAX_SECONDS": "60",
        "AFTERRUN_STORES_MY_ORDERS_INTERVAL": "1h",
        "AFTERRUN_STORES_MY_ORDERS_GROUP_BY": "name, queue_name",
        "AFTERRUN_STORES_MY_ORDERS_PINS": "one,two",
        "AFTERRUN_STORES_MY_ORDERS_KEEP_FOR": "",
        "AFTERRUN_KEEP_DAILY": "3",
        "AFTERRUN_TIMEZONE": "Europe/Berlin",
        "AFTERRUN_CAP_UNITS": "1000",
        "AFTERRUN_CAP_BYTES": "5GiB",
        "AFTERRUN_STORES_MY_ORDERS_CAP_BYTES": "1000000",
        "AFTERRUN_STORES_MY_ORDERS_KEEP_KEYS": "forever",
        "AFTERRUN_TELEMETRY_LOG_FORMAT": "json",
        "AFTERRUN_TELEMETRY_OPENTELEMETRY": "false",
        "HOME": "/home/somebody",
    }
    settings = load_settings(write(FILE), environ=environ)
    store = only(settings)
    assert (store.approve, store.pause, store.max_seconds) == (True, 2.5, 60)
    assert store.interval == timedelta(hours=1)
    assert store.rules.keep_for == timedelta(days=30)
    assert (store.rules.keep_last, store.rules.group_by) == (7, ("name", "queue_name"))
    assert store.rules.pins == {"one", "two"}
    assert (store.rules.keep_daily, store.rules.timezone) == (3, "Europe/Berlin")
    assert (store.rules.cap_units, store.rules.cap_bytes) == (1_000, 1_000_000)
    assert store.rules.keep_keys is FOREVER
    assert settings.policy.cap_bytes == "5GiB"
    assert (settings.telemetry.log_format, settings.telemetry.opentelemetry) == ("json", False)


LAYERS: Mapping[str, tuple[str, str]] = {
    "variable of the store": ("AFTERRUN_STORES_A_KEEP_FOR", "4d"),
    "table of the store": ("[stores.a.policy]", "3d"),
    "variable": ("AFTERRUN_KEEP_FOR", "2d"),
    "table": ("[policy]", "1d"),
}


@pytest.mark.parametrize("said", [c for n in range(1, 5) for c in itertools.combinations(LAYERS, n)])
def test_the_order_is_that_of_the_page(write: Write, said: tuple[str, ...]) -> None:
    """Whatever is said in how many places, the first of the list counts."""
    tables = [f'{LAYERS[layer][0]}\nkeep_for = "{LAYERS[layer][1]}"' for layer in said if "table" in layer]
    environ = {LAYERS[layer][0]: LAYERS[layer][1] for layer in said if "variable" in layer}
    path = write("\n".join(['[stores.a]\nstore = "a.db"', *tables]))
    first = next(layer for layer in LAYERS if layer in said)
    assert only(load_settings(path, environ=environ)).policy.keep_for == LAYERS[first][1]


def test_a_store_can_be_said_by_its_variable_alone(write: Write, tmp_path: Path) -> None:
    """It comes before both keys of the file, and before what they would lack."""
    environ = {"AFTERRUN_STORES_A_STORE": f"postgresql://u:{SECRET}@h/db"}
    for keys in ("", 'store = "a.db"', 'store_env = "NOT_SET"'):
        path = write(f"[policy]\nkeep_last = 1\n[stores.a]\n{keys}")
        assert only(load_settings(path, environ=environ)).location.endswith("@h/db")
    path = write("[policy]\nkeep_last = 1\n[stores.a]")
    assert only(load_settings(path, environ={"AFTERRUN_STORES_A_STORE": "x.db"})).location == str(
        tmp_path / "x.db"
    )


@pytest.mark.parametrize(
    ("variable", "value", "fault"),
    [
        ("AFTERRUN_APPROVE", "yes", "write true or false"),
        ("AFTERRUN_KEEP_LAST", "many", "write a number"),
        ("AFTERRUN_KEEP_LAST", "0", "greater than or equal to 1"),
        ("AFTERRUN_KEEP_FOR", "1 month", "no duration"),
        ("AFTERRUN_KEEP_YEARLY", "-1", "greater than or equal to 1"),
        ("AFTERRUN_TIMEZONE", "Berlin", "no time zone"),
        ("AFTERRUN_CAP_BYTES", "5 gigs", "no size"),
        ("AFTERRUN_STORES_MY_ORDERS_CAP_BYTES", "0", "at least 1"),
        ("AFTERRUN_KEEP_KEYS", "always", "no duration"),
        ("AFTERRUN_STORES_MY_ORDERS_PAUSE", "inf", "finite"),
        ("AFTERRUN_STORES_MY_ORDERS_PAUSE", "-1", "greater than or equal to 0"),
        ("AFTERRUN_TELEMETRY_LOG_FORMAT", "xml", "'text' or 'json'"),
        ("AFTERRUN_STORES_MY_ORDERS_STORE", f"postgresql+x://u:{SECRET}@h:port/db", "no valid URL"),
    ],
)
def test_a_value_that_makes_no_sense_is_a_fault_of_the_variable(
    write: Write, variable: str, value: str, fault: str
) -> None:
    """The message names the variable, as there is nothing wrong in the file."""
    (line,) = faults(write(FILE), **{variable: value})
    assert fault in line
    assert variable in line or variable.endswith("_STORE")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("AFTERRUN_KEEP_FRO", "AFTERRUN_KEEP_FOR"),
        ("AFTERRUN_INTERVALL", "AFTERRUN_INTERVAL"),
        ("AFTERRUN_KEEP_DALY", "AFTERRUN_KEEP_DAILY"),
        ("AFTERRUN_STORES_MY_ORDERS_KEEPFOR", "AFTERRUN_STORES_MY_ORDERS_KEEP_FOR"),
        ("AFTERRUN_STORES_MYORDERS_STORE", "AFTERRUN_STORES_MY_ORDERS_STORE"),
    ],
)
def test_a_misspelt_variable_is_no_silence(write: Write, variable: str, meant: str) -> None:
    """A rule that was meant to keep more must not be passed over."""
    (line,) = faults(write(FILE), **{variable: "1d"})
    assert line.startswith(f"the variable {variable}: ")
    assert f"did you mean '{meant}'?" in line


def test_variables_of_others_are_listed_and_do_no_harm(write: Write) -> None:
    """What merely begins like ours is no error, but can be seen."""
    environ = {"AFTERRUN_SOAK": "1", "AFTERRUN_IMAGE": "x", "AFTERRUN_STATE_DIR": "/x", "AFTERRUNNER": "1"}
    assert load_settings(write(FILE), environ=environ).ignored == ("AFTERRUN_IMAGE", "AFTERRUN_SOAK")


def test_stores_whose_variables_would_be_the_same_are_refused(write: Write) -> None:
    """`a-b` and `a_b` cannot be told apart in capitals."""
    text = FILE + '[stores.my_orders]\nstore = "b.db"'
    assert faults(write(text)) == [
        "stores.my_orders: its variables would be those of stores.my-orders; rename one"
    ]


def test_no_key_of_a_policy_is_a_key_of_a_store() -> None:
    """Else one variable would stand for two keys."""
    assert not set(PolicyText.model_fields) & set(StoreText.model_fields)


def test_the_page_names_variables_that_exist() -> None:
    """What the page calls a variable is one, with the place it gives."""
    known = variables({"orders": None})
    named = set(re.findall(r"AFTERRUN_[A-Z_]+[A-Z]", PAGE)) - {"AFTERRUN_STORES"}
    known |= row_variables(["orders"], named)
    rows = re.findall(r"^\| `(AFTERRUN_\w+)` \| `([\w.]+)`", PAGE, re.MULTILINE)
    assert len(rows) == 9
    for variable, place in rows:
        assert ".".join(known[variable][0]) == place
    assert named <= {*known, *OTHER_VARIABLES}
