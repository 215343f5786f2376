"""What an engine's tables mean: the profile model, its loader, detection, and one TOML file an engine.

Nouns: a *profile* describes one engine's store as data; an *edge* is a link from a child to its parent; an
*owned* table holds rows that go with a run; a *protection* names rows elsewhere that hold one.

A profile holds no SQL and no import path. What it cannot say in data is a name in the closed `registry`.
This package imports `core` and pydantic, never SQLAlchemy: detection works on names that stores hand in.
"""

from afterrun.profiles.detect import TableShape, detect, shape_digest
from afterrun.profiles.loader import built_in_names, load_built_in, load_file, load_profile
from afterrun.profiles.model import Profile

__all__ = [
    "Profile",
    "TableShape",
    "built_in_names",
    "detect",
    "load_built_in",
    "load_file",
    "load_profile",
    "shape_digest",
]
