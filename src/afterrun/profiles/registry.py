"""The closed registry: everything a profile may name that is code.

A profile is data from outside, so it never says where code is, and holds no SQL. It names an entry of this
registry, and a dialect knows how to carry it out.
"""

from __future__ import annotations

from typing import Literal

TimeFormat = Literal["epoch_s", "epoch_ms", "epoch_us", "text_utc", "uuid6"]
"""How a column spells an instant: numbers since 1970, ISO 8601 text in UTC or with an offset, or an id.

An id of UUID version 6 holds its time in an order that no database reads: only code from here takes it.
"""

EndFormat = Literal["epoch_s", "epoch_ms", "epoch_us", "text_utc", "text_local", "uuid6"]
"""How a run's time is spelled: as any time, or as ISO 8601 text without a zone that nobody knows.

Such a time counts as the latest moment that it may mean, in whatever zone, but as no later than the clock:
what may have ended just now ended just now.
"""

Records = Literal["langgraph-threads"]
"""Runs that have no row of their own: what several rows together say of one is told by code."""

KeepSet = Literal["langgraph-checkpoints"]
"""Which rows of a run that stays are superseded, where other rows of it decide, is told by code."""

Hook = Literal["dbos-retention-lock"]
"""What an engine expects of anybody who removes its runs, beside afterrun's own sweep lock."""

EngineLock = Literal["pi-subagents-retention"]
"""A lock of the engine's own around its removal of run folders, which is taken beside ours."""

NameCode = Literal["plain", "uri", "pi-segment"]
"""How an engine spells a run's id in the name of a file: plain, percent-encoded, or as pi-subagents does."""
