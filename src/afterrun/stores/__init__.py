"""How to reach the state that engines keep: one module or folder for each way.

Nouns: a *store* is opened from a URL or path with a profile; a *dialect* is what differs between databases.
This package imports `profiles` and `core` and nothing above them.
"""

from afterrun.stores.open import open_store

__all__ = ["open_store"]
