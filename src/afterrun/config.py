"""Settings: the text of ``afterrun.toml`` or of ``--policy FILE``, checked and turned into frozen values."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterrun.core.errors import UsageError, did_you_mean
from afterrun.core.policy import DEFAULT_GRACE, FOREVER, Policy
from afterrun.core.times import parse_duration, parse_timestamp, utc
from afterrun.reading import read_small_file

MAX_SETTINGS_BYTES: Final = 1_048_576


class PolicyText(BaseModel):
    """The ``[policy]`` table, as people write it: durations are text such as ``30d``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    keep_for: str | None = None
    before: str | datetime | None = None
    keep_last: int | None = None
    keep_last_counts: Literal["successful", "any"] = "successful"
    group_by: list[str] | None = None
    grace: str | None = None
    pins: list[str] = Field(default_factory=list)

    def policy(self) -> Policy:
        """Return the policy. Raises `UsageError` for words that make no sense, `Refused` if it is empty."""
        keep_for = None
        if self.keep_for is not None:
            keep_for = FOREVER if self.keep_for == FOREVER.value else parse_duration(self.keep_for)
        before = parse_timestamp(self.before) if isinstance(self.before, str) else self.before
        if before is not None:
            before = utc(before)
        return Policy(
            keep_for=keep_for,
            before=before,
            keep_last=self.keep_last,
            keep_last_counts=self.keep_last_counts,
            group_by=None if self.group_by is None else tuple(self.group_by),
            grace=DEFAULT_GRACE if self.grace is None else parse_duration(self.grace),
            pins=frozenset(self.pins),
        )


class _SettingsText(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    approve: bool = False
    policy: PolicyText = Field(default_factory=PolicyText)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a settings file says. ``approve`` admits every automatic sweep without asking."""

    policy: PolicyText
    approve: bool = False


def load_settings(path: Path) -> Settings:
    """Read a settings file. Raises `UsageError` with every fault and its place."""
    try:
        raw = read_small_file(path, limit=MAX_SETTINGS_BYTES)
    except OSError as error:
        raise UsageError(f"the policy file {path} cannot be read: {error.strerror}") from None
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the policy file {path} is not valid TOML: {error}") from None
    try:
        text = _SettingsText.model_validate(data)
    except ValidationError as error:
        lines = "".join(f"\n  - {line}" for line in map(_problem, error.errors(include_url=False)))
        raise UsageError(f"the policy file {path} is not valid{lines}") from None
    return Settings(policy=text.policy, approve=text.approve)


def _problem(fault: Any) -> str:  # noqa: ANN401 - pydantic's ErrorDetails, a plain mapping
    place = [str(part) for part in fault["loc"]]
    if fault["type"] != "extra_forbidden":
        return f"{'.'.join(place)}: {fault['msg']}"
    model = PolicyText if place[0] == "policy" and len(place) > 1 else _SettingsText
    return f"{'.'.join(place)}: unknown key{did_you_mean(place[-1], model.model_fields)}"
