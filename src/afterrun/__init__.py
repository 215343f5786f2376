"""afterrun looks after the state of durable workflows and agent runs once the runs are over.

Open a store, say what to keep, and look before anything goes::

    from datetime import timedelta
    import afterrun

    policy = afterrun.Policy(keep_for=timedelta(days=30))
    with afterrun.Retention("app.sqlite") as store:
        print(store.plan(policy).units.expired)
        report = store.sweep(policy)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from afterrun.core.errors import (
        AfterrunError,
        BackupFailed,
        ProfileError,
        Refused,
        StoreLocked,
        StoreUnreadable,
        UnitNotFound,
        UsageError,
    )
    from afterrun.core.policy import FOREVER, MatchRule, Policy
    from afterrun.core.report import Report
    from afterrun.core.row_rules import RowRules
    from afterrun.core.sweep import Budget
    from afterrun.service import DirectoryRetention, Explanation, Retention, SweepOptions, open_retention
    from afterrun.stores.sql.backups import BackupOrder, Restored

__all__ = [
    "FOREVER",
    "AfterrunError",
    "BackupFailed",
    "BackupOrder",
    "Budget",
    "DirectoryRetention",
    "Explanation",
    "MatchRule",
    "Policy",
    "ProfileError",
    "Refused",
    "Report",
    "Restored",
    "Retention",
    "RowRules",
    "StoreLocked",
    "StoreUnreadable",
    "SweepOptions",
    "UnitNotFound",
    "UsageError",
    "open_retention",
]

PLACES: Final = {
    "afterrun.core.errors": (
        "AfterrunError",
        "BackupFailed",
        "ProfileError",
        "Refused",
        "StoreLocked",
        "StoreUnreadable",
        "UnitNotFound",
        "UsageError",
    ),
    "afterrun.core.policy": ("FOREVER", "MatchRule", "Policy"),
    "afterrun.core.report": ("Report",),
    "afterrun.core.row_rules": ("RowRules",),
    "afterrun.core.sweep": ("Budget",),
    "afterrun.service": ("DirectoryRetention", "Explanation", "Retention", "SweepOptions", "open_retention"),
    "afterrun.stores.sql.backups": ("BackupOrder", "Restored"),
}
"""Where the names above come from. They are imported when they are asked for: a runner of workflows needs
none of them, and starts in a fraction of the time."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of any kind
    for place, names in PLACES.items():
        if name in names:
            found = getattr(import_module(place), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
