"""Options that several commands share. Each group arrives at a command as one value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from afterrun.cli.rows_options import rows_text
from afterrun.cli.text import masked
from afterrun.config import MAX_PAUSE, PolicyText, RowsText, load_settings, rules_of
from afterrun.core.errors import UsageError
from afterrun.core.events import Observer
from afterrun.core.periods import PERIODS
from afterrun.core.policy import Policy
from afterrun.core.row_rules import RowRules
from afterrun.core.sweep import Budget
from afterrun.core.times import parse_duration
from afterrun.service import Retention, SweepOptions, open_retention

Command = Callable[..., int]
Wrap = Callable[[Command], Command]

STORE_VARIABLE: Final = "AFTERRUN_STORE"


class Amount(click.ParamType[float]):
    """A finite number within bounds."""

    name = "number"

    def __init__(self, *, over: float = -math.inf, least: float = -math.inf, most: float = math.inf) -> None:
        """Set the bounds: more than ``over``, or at least ``least``; and at most ``most``."""
        self._over = over
        self._least = least
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number."""
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{masked(str(value))[:40]!r} is no number", param, ctx)
        if not math.isfinite(number) or not self._least <= number <= self._most or number <= self._over:
            bound = f"more than {self._over:g}" if self._over > -math.inf else f"at least {self._least:g}"
            limit = f" and at most {self._most:g}" if self._most < math.inf else ""
            self.fail(f"it must be a finite number, {bound}{limit}", param, ctx)
        return number


class Duration(click.ParamType[timedelta]):
    """A length of time, such as 24h."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read a duration."""
        try:
            return parse_duration(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


SAID: Final = (
    *("keep_for", "before", "keep_last", *PERIODS, "timezone", "keep_last_counts"),
    *("cap_units", "cap_bytes", "grace", "keep_keys"),
)
"""Options that are called as their key of the settings file is, and say what it says."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was said of a store's policy, and whether its file approves every sweep."""

    text: PolicyText
    tables: Mapping[str, RowRules]
    approve: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        """Refuse words that make no sense before any store is opened."""
        if self.tables or not self.text.says_nothing:
            self.text.policy(tables=self.tables)

    def on(self, retention: Retention) -> Policy:
        """Return the policy for an open store: its profile may have one where nothing is said.

        Raises `Refused` for a policy without a rule where it has none.
        """
        return self.text.or_default(retention.default, tables=self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What was said about the policy; a rule on the command line takes the place of the file's."""

    keep_for: str | None
    before: str | None
    keep_last: int | None
    keep_hourly: int | None
    keep_daily: int | None
    keep_weekly: int | None
    keep_monthly: int | None
    keep_yearly: int | None
    timezone: str | None
    keep_last_counts: str | None
    group_by: tuple[str, ...]
    cap_units: int | None
    cap_bytes: str | None
    grace: str | None
    pin: tuple[str, ...]
    keep_keys: str | None
    generations_keep_for: str | None
    generations_keep_last: int | None
    generations_drop_forks: bool
    rows: tuple[str, ...]
    rows_latest: tuple[str, ...]
    policy_file: str | None

    def resolve(self, store: str) -> Wanted:
        """Return what is said of a store. One that the file names has its own policy there.

        So nobody removes by a shorter one. Raises `UsageError` for words that make no sense.
        """
        text, tables, approve = self.words(store)
        return Wanted(text, rules_of(tables), approve=approve)

    def words(self, store: str) -> tuple[PolicyText, Mapping[str, RowsText], bool]:
        """Return the words of the policy for a store, those of its row tables, and whether it is approved.

        A store that the file names has its own policy there, so that nobody removes by a shorter one.
        """
        text, approve, tables = PolicyText(), False, dict[str, RowsText]()
        if self.policy_file is not None:
            settings = load_settings(Path(self.policy_file))
            text, approve = settings.policy_of(store)
            tables.update(settings.tables_of(store))
        said = {name: getattr(self, name) for name in SAID}
        said["group_by"] = list(self.group_by) or None
        said["pins"] = [*text.pins, *self.pin]
        rules = {
            "keep_for": self.generations_keep_for,
            "keep_last": self.generations_keep_last,
            "keep_forks": False if self.generations_drop_forks else None,
        }
        given: dict[str, object] = {name: value for name, value in said.items() if value is not None}
        own = {name: value for name, value in rules.items() if value is not None}
        given["generations"] = text.generations.model_copy(update=own)
        rows = rows_text(tables, ages=self.rows, latest=self.rows_latest)
        return text.model_copy(update=given), rows, approve


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalOptions:
    """How a removal runs, and what it may do."""

    max_seconds: float | None
    limit: int | None
    batch_units: int | None
    pause: float | None
    offline: bool
    schema_unverified: bool
    secure_delete: bool
    trash: timedelta | None
    break_lock: str | None
    verbose: bool
    strict: bool

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.offline and self.pause is not None:
            raise click.UsageError("--pause has no meaning with --offline, which never pauses")

    def sweep_options(self, *, gate: Callable[[], bool], observer: Observer) -> SweepOptions:
        """Return them as the service takes them."""
        return SweepOptions(
            budget=Budget(seconds=self.max_seconds, units=self.limit),
            gate=gate,
            observer=observer,
            batch_units=self.batch_units,
            rest=1.0 if self.pause is None else self.pause,
            offline=self.offline,
        )

    def open(
        self, store: str, *, profile: str | None, writable: bool, datasources: Sequence[str] = ()
    ) -> Retention:
        """Open a store to remove from it, or to look at what would go."""
        return open_retention(
            store,
            profile=profile,
            writable=writable,
            schema_unverified=self.schema_unverified,
            secure_delete=self.secure_delete and writable,
            datasources=datasources,
            trash=self.trash,
            break_lock=self.break_lock if writable else None,
        )


store_argument: Final = click.argument("store", metavar="STORE", envvar=STORE_VARIABLE)

profile_option: Final = click.option(
    "--profile",
    metavar="NAME|FILE",
    help="The profile to read the store with: a name, or a path that ends in .toml. Default: detected.",
)

datasource_option: Final = click.option(
    "--datasource",
    "datasources",
    multiple=True,
    metavar="URL|PATH",
    envvar="AFTERRUN_DATASOURCE",
    help="Another database with rows of the runs, which go with them. May be repeated.",
)

json_option: Final = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object on standard output and nothing else.",
)

metrics_option: Final = click.option(
    "--metrics-file",
    "metrics_path",
    metavar="PATH",
    help="Replace this file with counts and times of the run, in the Prometheus text format.",
)

PERIOD_WORDS: Final = {
    "hourly": "hours",
    "daily": "days",
    "weekly": "weeks",
    "monthly": "months",
    "yearly": "years",
}

POLICY: Final = (
    click.option("--keep-for", metavar="D", help="Keep a unit this long after its end: 12h, 30d, forever."),
    click.option(
        "--before", metavar="TIMESTAMP", help="Keep what ended at this moment or later; it names its zone."
    ),
    click.option("--keep-last", type=int, metavar="N", help="Keep the newest N units of each group."),
    *(
        click.option(
            f"--keep-{period}",
            type=int,
            metavar="N",
            help=f"Keep the newest unit of each of the last N {word} of each group that have one.",
        )
        for period, word in PERIOD_WORDS.items()
    ),
    click.option(
        "--timezone",
        metavar="ZONE",
        help="Whose hours, days and weeks these are: an IANA name, else UTC.",
    ),
    click.option(
        "--keep-last-counts",
        type=click.Choice(["successful", "any"]),
        help="Which units --keep-last and --keep-hourly to --keep-yearly count. Default: successful.",
    ),
    click.option(
        "--group-by", multiple=True, metavar="COL", help="A column that makes groups. May be repeated."
    ),
    click.option(
        "--cap-units",
        type=int,
        metavar="N",
        help="Beyond the newest N units that ended, keep rules do not count.",
    ),
    click.option(
        "--cap-bytes", metavar="SIZE", help="The same for so many units as take about this much: 5GiB."
    ),
    click.option("--grace", metavar="D", help="Keep what ended less than this ago. Default: 1h."),
    click.option("--pin", multiple=True, metavar="ID", help="Keep the unit of this run. May be repeated."),
    click.option(
        "--keep-keys",
        metavar="D",
        help="Keep a unit that holds an idempotency key this long after its end: 90d, forever.",
    ),
    click.option(
        "--generations-keep-for",
        metavar="D",
        help="Keep superseded generations of runs that stay for this long. Default: for ever.",
    ),
    click.option(
        "--generations-keep-last",
        type=int,
        metavar="N",
        help="Keep the newest N generations of each run, the current one included.",
    ),
    click.option(
        "--generations-drop-forks",
        is_flag=True,
        help="Where generations branch, keep the end of the newest branch alone. Default: of every one.",
    ),
    click.option(
        "--rows",
        multiple=True,
        metavar="NAME=D",
        help="Keep rows of this row table of the profile for so long: logs=14d. May be repeated.",
    ),
    click.option(
        "--rows-latest",
        multiple=True,
        metavar="NAME=N",
        help="Keep the newest N rows of this row table, or of each partition of it. May be repeated.",
    ),
    click.option(
        "--policy",
        "policy_file",
        metavar="FILE",
        help="A TOML file with a [policy] table; options come first.",
    ),
)

REMOVAL: Final = (
    click.option("--max-seconds", type=Amount(over=0), metavar="S", help="Stop after this many seconds."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N units were removed."),
    click.option(
        "--batch-units", type=click.IntRange(min=1), metavar="N", help="Most units of one transaction."
    ),
    click.option(
        "--pause",
        type=Amount(least=0, most=MAX_PAUSE),
        metavar="R",
        help=f"Pause R times as long as each batch held its lock, up to {MAX_PAUSE}. Default: 1.",
    ),
    click.option("--offline", is_flag=True, help="No engine uses the store now: large batches, no pause."),
    click.option(
        "--schema-unverified", is_flag=True, help="Admit a schema version that was never read. Look first."
    ),
    click.option("--secure-delete", is_flag=True, help="Overwrite removed content on disk."),
    click.option(
        "--trash",
        type=Duration(),
        metavar="D",
        help="Directories: keep what goes for so long, so that restore can put it back.",
    ),
    click.option(
        "--break-lock",
        metavar="TOKEN",
        help="Directories: take the sweep lock of a machine that is gone for good.",
    ),
    click.option("-v", "verbose", is_flag=True, help="Say one line a batch on standard error."),
    click.option("--strict", is_flag=True, help="Exit 3 when a budget or a gate ended the work."),
)


def _grouped(name: str, kind: type[Any], options: Sequence[Any]) -> Wrap:
    """Return a decorator that adds options to a command and hands them over as one value."""
    names = [field.name for field in fields(kind)]

    def wrap(command: Command) -> Command:
        @functools.wraps(command)
        def call(**words: Any) -> int:  # noqa: ANN401 - click hands over whatever the options say
            chosen = {part: words.pop(part) for part in names}
            return command(**{name: kind(**chosen)}, **words)

        wrapped: Command = call
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return wrap


policy_options: Final = _grouped("policy", PolicyOptions, POLICY)
removal_options: Final = _grouped("removal", RemovalOptions, REMOVAL)
