"""Retention of one store: the one caller of the layers below, for the command line and for embedding.

Nouns: a *retention* is one open store with its lock and what is remembered of it; *sweep options* are how a
sweep or manual apply runs; an *explanation* is all that decides about one unit. A sweep that may not begin by
itself *asks*. An *interrupted* removal was cut off between two databases, and is ended before all else.

This package imports `state`, `telemetry`, `stores` and `core`, and nothing beside or above it: it knows of no
schedule, no file of settings and no command.
"""

from afterrun.service.asking import PLAN_PAGE
from afterrun.service.directories import DirectoryRetention, open_retention
from afterrun.service.explanation import Explanation
from afterrun.service.options import SweepOptions
from afterrun.service.retention import Retention

__all__ = [
    "PLAN_PAGE",
    "DirectoryRetention",
    "Explanation",
    "Retention",
    "SweepOptions",
    "open_retention",
]
