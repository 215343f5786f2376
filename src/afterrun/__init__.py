"""afterrun looks after the state of durable workflows and agent runs once the runs are over.

Open a store, say what to keep, and look before anything goes::

    from datetime import timedelta
    import afterrun

    policy = afterrun.Policy(keep_for=timedelta(days=30))
    with afterrun.Retention("app.sqlite") as store:
        print(store.plan(policy).units.expired)
        report = store.sweep(policy)
"""

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
