"""Settings: ``afterrun.toml``, checked as a whole and turned into frozen values.

A *place* is where a value stands in the file, such as ``stores.orders.interval``. A *variable* of the
environment takes the place of the key it names. A *fault* is one thing that is wrong, and all of them are
said at once. A *location* is the URL or path of a store; it may hold a password and is never repeated.

Imports the stores for reading URLs, and no click: where a value comes from is said by the file alone.
"""

from afterrun.config.environment import OTHER_VARIABLES, PREFIX, variables
from afterrun.config.rows_text import rules_of
from afterrun.config.settings import ServerSettings, Settings, StoreSettings, TelemetrySettings, load_settings
from afterrun.config.text import (
    MAX_PAUSE,
    PolicyText,
    RowsText,
    ServerText,
    SettingsText,
    StoreText,
    TelemetryText,
    json_schema,
)

__all__ = [
    "MAX_PAUSE",
    "OTHER_VARIABLES",
    "PREFIX",
    "PolicyText",
    "RowsText",
    "ServerSettings",
    "ServerText",
    "Settings",
    "SettingsText",
    "StoreSettings",
    "StoreText",
    "TelemetrySettings",
    "TelemetryText",
    "json_schema",
    "load_settings",
    "rules_of",
    "variables",
]
