"""The closed registry: everything a profile may name that is code.

A profile is data from outside, so it never says where code is, and holds no SQL. It names an entry of this
registry, and a dialect knows how to carry it out.
"""

from __future__ import annotations

from typing import Literal

TimeFormat = Literal["epoch_s", "epoch_ms", "epoch_us", "text_utc"]
"""How a column spells an instant: numbers since 1970, or ISO 8601 text in UTC or with an offset."""

Hook = Literal["dbos-retention-lock"]
"""What an engine expects of anybody who removes its runs, beside afterrun's own sweep lock."""

EngineLock = Literal["pi-subagents-retention"]
"""A lock of the engine's own around its removal of run folders, which is taken beside ours."""

NameCode = Literal["plain", "uri", "pi-segment"]
"""How an engine spells a run's id in the name of a file: plain, percent-encoded, or as pi-subagents does."""
