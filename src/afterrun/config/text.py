"""What a settings file may say: the models it is read with, and their JSON Schema for editors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from afterrun.core.errors import AfterrunError
from afterrun.core.periods import zone_of
from afterrun.core.policy import (
    CAPS,
    COUNTS,
    DEFAULT_GRACE,
    FOREVER,
    MAX_CAP_BYTES,
    MAX_KEEP_LAST,
    MatchRule,
    Policy,
)
from afterrun.core.policy import (
    Age as AgeLimit,
)
from afterrun.core.row_rules import RowRules
from afterrun.core.sizes import parse_size
from afterrun.core.times import parse_duration, parse_timestamp, utc
from afterrun.profiles.defaults import DefaultPolicy

MAX_PAUSE: Final = 100
"""Most that ``pause`` takes: such a sweep leaves the engine 99 % of the time, and more would hardly end."""

RULES: Final = ("keep_for", "before", *COUNTS, *CAPS)
"""Keys by which whole runs go."""

NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,39}$"
TABLE_PATTERN: Final = r"^[a-z][a-z0-9-]{0,39}$"
HOST_PATTERN: Final = r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$"
DURATION_PATTERN: Final = r"^\s*[0-9]{1,12}[smhdw]\s*$"
SIZE_PATTERN: Final = r"^\s*[0-9]{1,18}\s*([kKmMgGtT]?[bB]|[kKmMgGtT][iI][bB])?\s*$"


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except AfterrunError as error:
        raise ValueError(str(error)) from None
    return text


def _age(text: str) -> str:
    return text if text == FOREVER.value else _duration(text)


def _moment(moment: str | datetime) -> str | datetime:
    try:
        parse_timestamp(moment) if isinstance(moment, str) else utc(moment)
    except AfterrunError as error:
        raise ValueError(str(error)) from None
    return moment


def _zone(name: str) -> str:
    try:
        zone_of(name)
    except AfterrunError as error:
        raise ValueError(str(error)) from None
    return name


def _size(size: str | int) -> str | int:
    try:
        amount = parse_size(size) if isinstance(size, str) else size
    except AfterrunError as error:
        raise ValueError(str(error)) from None
    if not 1 <= amount <= MAX_CAP_BYTES:
        raise ValueError(f"it must be at least 1 and at most {MAX_CAP_BYTES}")
    return size


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


Duration = Annotated[
    str, AfterValidator(_duration), WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN})
]
Age = Annotated[
    str,
    AfterValidator(_age),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN.replace("^", "^forever$|^", 1)}),
]
Moment = Annotated[str | datetime, AfterValidator(_moment), WithJsonSchema({"type": "string"})]
Size = Annotated[
    str | int,
    AfterValidator(_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": 1, "maximum": MAX_CAP_BYTES},
            ]
        }
    ),
]
Zone = Annotated[
    str, AfterValidator(_zone), WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z0-9_+/-]+$"})
]
Word = Annotated[str, AfterValidator(_not_empty), WithJsonSchema({"type": "string", "minLength": 1})]
TableName = Annotated[str, StringConstraints(pattern=TABLE_PATTERN)]
HostName = Annotated[str, StringConstraints(pattern=HOST_PATTERN)]
StoreName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class Text(BaseModel):
    """A table of the file: no unknown keys, and no value of another type that could be meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GenerationsText(Text):
    """The ``[policy.generations]`` table: what to keep of the superseded generations of runs that stay."""

    keep_for: Age | None = Field(
        None, description="Keep a superseded generation this long after its end: 12h, 7d, forever."
    )
    keep_last: int | None = Field(
        None,
        ge=1,
        le=MAX_KEEP_LAST,
        description="Keep the newest N generations of each run, the current one included.",
    )

    keep_forks: bool | None = Field(
        None, description="Keep the end of every branch, where generations branch. Default: true."
    )

    def policy(self) -> Policy | None:
        """Return the rules, or ``None`` without any. Raises `UsageError` for words that make no sense."""
        if self.keep_for is None and self.keep_last is None:
            return None
        keep_forks = self.keep_forks is not False
        return Policy(keep_for=_keep_for(self.keep_for), keep_last=self.keep_last, keep_forks=keep_forks)


def _keep_for(text: str | None) -> AgeLimit | None:
    return None if text is None else _age_limit(text)


def _age_limit(text: str) -> AgeLimit:
    return FOREVER if text == FOREVER.value else parse_duration(text)


class RuleText(Text):
    """A ``[[policy.rules]]`` table: an age for the units that match, in place of the policy's own."""

    match: dict[Word, Annotated[list[Word], Field(min_length=1)]] = Field(
        min_length=1, description="Words by key: `status`, or a group column of the profile; all must match."
    )
    keep_for: Age = Field(description="Keep these units this long after their end: 12h, 90d, forever.")

    def rule(self) -> MatchRule:
        """Return the rule."""
        return MatchRule(match=self.match, keep_for=_age_limit(self.keep_for))


def _period(word: str) -> int | None:
    text = f"Keep the newest unit of each of the last N {word} of each group that have one."
    found: int | None = Field(None, ge=1, le=MAX_KEEP_LAST, description=text)
    return found


class RowsText(Text):
    """A ``[tables.<name>]`` table: what to keep of one row table, by the profile's name for it."""

    keep_for: Age | None = Field(None, description="Keep a row this long after its end: 12h, 14d, forever.")
    keep_latest: int | None = Field(
        None,
        ge=1,
        le=MAX_KEEP_LAST,
        description="Keep the newest N rows of each value of the profile's partition columns.",
    )
    statuses: list[Word] | None = Field(
        None, description="Only rows in these states go. Default: every terminal state of the profile."
    )

    def rules(self) -> RowRules:
        """Return the rules. Raises `UsageError` for words that make no sense, and without any rule."""
        return RowRules(
            keep_for=_keep_for(self.keep_for),
            keep_latest=self.keep_latest,
            statuses=tuple(self.statuses or ()),
        )

    def merged(self, own: RowsText) -> Self:
        """Return these rules with the keys that ``own`` sets in place of their own."""
        return self.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


class PolicyText(Text):
    """The ``[policy]`` table, as people write it: durations are text such as ``30d``."""

    keep_for: Age | None = Field(None, description="Keep a unit this long after its end: 12h, 30d, forever.")
    before: Moment | None = Field(
        None, description="Keep what ended at this moment or later; it names its zone."
    )
    keep_last: int | None = Field(
        None, ge=1, le=MAX_KEEP_LAST, description="Keep the newest N units of each group."
    )
    keep_hourly: int | None = _period("hours")
    keep_daily: int | None = _period("days")
    keep_weekly: int | None = _period("weeks")
    keep_monthly: int | None = _period("months")
    keep_yearly: int | None = _period("years")
    timezone: Zone = Field("UTC", description="Whose hours, days and weeks these are: an IANA name.")
    keep_last_counts: Literal["successful", "any"] = Field(
        "successful", description="Which units keep_last and keep_hourly to keep_yearly count."
    )
    group_by: list[Word] | None = Field(
        None, description="Columns that make groups. Default: all group columns of the profile."
    )
    grace: Duration | None = Field(None, description="Keep what ended less than this ago. Default: 1h.")
    cap_units: int | None = Field(
        None,
        ge=1,
        le=MAX_KEEP_LAST,
        description="Beyond the newest N ended units, keep rules do not count.",
    )
    cap_bytes: Size | None = Field(
        None, description="The same for so many units as take about so many bytes: a number, or 5GiB."
    )
    pins: list[str] = Field(default_factory=list, description="Ids of runs whose units stay.")
    keep_keys: Age | None = Field(
        None, description="Keep units that hold an idempotency key this long after their end: 90d, forever."
    )
    rules: list[RuleText] = Field(
        default_factory=list, description="Narrower rules: ages for the units that match."
    )
    generations: GenerationsText = Field(
        default_factory=GenerationsText,
        description="What to keep of the superseded generations of runs that stay. Default: all.",
    )

    def policy(self, *, tables: Mapping[str, RowRules] | None = None) -> Policy:
        """Return the policy, with rules for these row tables.

        Raises `UsageError` for words that make no sense, `Refused` if it is empty.
        """
        before = parse_timestamp(self.before) if isinstance(self.before, str) else self.before
        if before is not None:
            before = utc(before)
        return Policy(
            keep_for=_keep_for(self.keep_for),
            before=before,
            keep_last=self.keep_last,
            keep_hourly=self.keep_hourly,
            keep_daily=self.keep_daily,
            keep_weekly=self.keep_weekly,
            keep_monthly=self.keep_monthly,
            keep_yearly=self.keep_yearly,
            timezone=self.timezone,
            keep_last_counts=self.keep_last_counts,
            group_by=None if self.group_by is None else tuple(self.group_by),
            grace=DEFAULT_GRACE if self.grace is None else parse_duration(self.grace),
            cap_units=self.cap_units,
            cap_bytes=parse_size(self.cap_bytes) if isinstance(self.cap_bytes, str) else self.cap_bytes,
            pins=frozenset(self.pins),
            keep_keys=_keep_for(self.keep_keys),
            rules=tuple(rule.rule() for rule in self.rules),
            generations=self.generations.policy(),
            tables=tables or {},
        )

    @property
    def says_nothing(self) -> bool:
        """Say whether it has no rule by which anything goes: grace, pins and the like are none."""
        named = any(getattr(self, name) is not None for name in RULES)
        return not (named or self.rules or self.generations.policy())

    def or_default(
        self, default: DefaultPolicy | None, *, tables: Mapping[str, RowRules] | None = None
    ) -> Policy:
        """Return the policy; without a rule, the ``default`` of the profile beside what else is said.

        Raises what `policy` does.
        """
        if default is None or tables or not self.says_nothing:
            return self.policy(tables=tables)
        past = default.generations
        generations = GenerationsText(keep_for=None if past is None else past.keep_for)
        filled = self.model_copy(update={"keep_for": default.keep_for, "generations": generations})
        return replace(filled.policy(), is_default=True)

    def merged(self, own: PolicyText) -> Self:
        """Return this policy with the keys that ``own`` sets in place of its own; pins add up."""
        update: dict[str, object] = {name: getattr(own, name) for name in own.model_fields_set}
        rules = own.generations
        more = {name: getattr(rules, name) for name in rules.model_fields_set}
        update["generations"] = self.generations.model_copy(update=more)
        return self.model_copy(update=update | {"pins": [*self.pins, *own.pins]})


class StoreText(Text):
    """A ``[stores.<name>]`` table: one store, and what is different for it."""

    store: Word | None = Field(
        None, description="URL or path of the store; a relative path is relative to this file."
    )
    store_env: Word | None = Field(
        None, description="Name of a variable that holds the URL or path, so that no password stands here."
    )
    profile: Word | None = Field(
        None, description="Name of the profile, or path of a file that ends in .toml. Default: detected."
    )
    datasources: list[Word] = Field(
        default_factory=list,
        description="URLs or paths of other databases with rows of the runs, which go with them.",
    )
    policy: PolicyText = Field(
        default_factory=PolicyText, description="Keys that take the place of those of [policy]; pins add up."
    )
    tables: dict[TableName, RowsText] = Field(
        default_factory=dict,
        description="Keys that take the place of those of [tables], for each row table.",
        json_schema_extra={"additionalProperties": False},
    )
    inherit: bool = Field(
        default=True, description="false: the store's policy stands alone, without [policy] and [tables]."
    )
    approve: bool | None = Field(None, description="Admit every sweep of this store without asking.")
    interval: Duration | None = Field(
        None, description="Time from one completed sweep to the next; 0s turns sweeps of this store off."
    )
    pause: float | None = Field(
        None,
        ge=0,
        le=MAX_PAUSE,
        allow_inf_nan=False,
        description="Pause this many times as long as each batch held its lock. Default: 1.",
    )
    max_seconds: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Stop a sweep after this many seconds."
    )
    trash: Duration | None = Field(
        None,
        description="Of a directory: keep what goes for this long, so that restore can put it back. Default: "
        "it is deleted at once.",
    )
    metrics_file: Word | None = Field(
        None, description="File for the metrics of this store alone, as Prometheus text."
    )


class TelemetryText(Text):
    """The ``[telemetry]`` table: what ``afterrun watch`` tells, and how."""

    log_format: Literal["text", "json"] = Field("text", description="How log lines are written.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least weight of a line; debug has one for each page and batch."
    )
    prometheus_file: Word | None = Field(
        None, description="File for the metrics of all stores, as Prometheus text."
    )
    opentelemetry: bool = Field(
        default=True,
        description="Tell OpenTelemetry, where its API package is installed and an SDK is set up.",
    )


class ServerText(Text):
    """The ``[server]`` table: how ``afterrun serve`` runs workflows, and who may speak to it."""

    app: Word | None = Field(
        None, description="The app with the workflows: module:attribute, or path.py:attribute."
    )
    listen: Word = Field(
        "127.0.0.1:0",
        description="Where the API listens: a loopback address with a port, 0 for a free one, or unix for a "
        "socket in a folder that is closed to others.",
    )
    hosts: list[HostName] = Field(
        default_factory=list,
        description="Other names that requests may give this host: those of a proxy before it.",
    )
    token_file: Word | None = Field(
        None, description="File with the token, mode 0600; made if it is not there. Default: one of its own."
    )
    backups: Word | None = Field(
        None, description="Folder for backups that are asked for over HTTP. Default: none may be."
    )
    sealing: Literal["keys", "off"] = Field(
        "keys",
        description="How exact content is kept: sealed by the keys of the environment, or in the clear.",
    )
    runners: int = Field(2, ge=1, le=256, description="Processes that execute workflows.")
    slots: int = Field(16, ge=1, le=10_000, description="Runs that a runner executes at a time.")
    lease: Duration = Field(
        "15s", description="How long a store and its runs are held without a sign of life."
    )
    grace: Duration = Field("10s", description="How long running steps may take to end at a shutdown.")


class SettingsText(Text):
    """The whole file."""

    approve: bool = Field(default=False, description="Admit every automatic sweep without asking.")
    interval: Duration = Field("24h", description="Time from one completed sweep to the next; 0s is off.")
    policy: PolicyText = Field(default_factory=PolicyText, description="What to keep, for all stores.")
    tables: dict[TableName, RowsText] = Field(
        default_factory=dict,
        description="What to keep of row tables, by the profile's names for them.",
        json_schema_extra={"additionalProperties": False},
    )
    stores: dict[StoreName, StoreText] = Field(
        default_factory=dict,
        description="The stores that `afterrun watch` sweeps, by a name of yours.",
        json_schema_extra={"additionalProperties": False},
    )
    telemetry: TelemetryText = Field(
        default_factory=TelemetryText, description="What `afterrun watch` tells, and how."
    )
    server: ServerText = Field(
        default_factory=ServerText,
        description="How `afterrun serve` runs workflows, and who may speak to it.",
    )


class _Schema(GenerateJsonSchema):
    """TOML has no null: a key that may be left out is simply not required."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return the schema of what may stand there."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Leave out a default of null."""
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if (name, value) != ("default", None)}


def json_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a settings file, for editors."""
    made = SettingsText.model_json_schema(schema_generator=_Schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "afterrun.toml",
        **{name: value for name, value in made.items() if name != "title"},
    }
