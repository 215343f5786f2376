"""What afterrun remembers of each store, and the lock that keeps one sweep a store.

Nouns: the *state directory* holds one file a store with its cursor, deferrals, approvals and records; a
*sweep lock* lies beside the store, not in the state directory, since other machines may share the store.
This package imports `core` and parts of `stores`, and nothing beside or above it.
"""

from afterrun.state.files import StateDirectory, StoreState
from afterrun.state.lock import SweepLock

__all__ = ["StateDirectory", "StoreState", "SweepLock"]
