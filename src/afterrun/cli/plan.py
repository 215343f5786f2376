"""`afterrun plan`: what would go, what stays and why."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.calendar import Calendar
from afterrun.cli.options import (
    PolicyOptions,
    datasource_option,
    json_option,
    policy_options,
    profile_option,
    store_argument,
)
from afterrun.cli.plan_file import PlanWriter
from afterrun.cli.render import counted, notes, report_parts, table
from afterrun.cli.session import Session
from afterrun.cli.text import distance, size, visible
from afterrun.cli.through import not_said, served, show_served
from afterrun.core.errors import Exit
from afterrun.core.inspection import Ahead, Held
from afterrun.core.outlook import Outlook
from afterrun.core.policy import Policy
from afterrun.core.times import Instant, to_datetime
from afterrun.service import PLAN_PAGE, Retention, open_retention

EXAMPLES: Final = 3
NAME: Final = 40
"""Ids shown to people, and characters of each; JSON has more."""


@click.command("plan")
@store_argument
@policy_options
@profile_option
@datasource_option
@click.option("--out", metavar="FILE", help="Write the ids of what would go to a new file.")
@click.option("--calendar", is_flag=True, help="Draw the units that ended each day: what goes, what stays.")
@click.option("--show-sql", is_flag=True, help="Print the statements that read and would remove.")
@json_option
@click.pass_obj
def plan(
    session: Session,
    *,
    store: str,
    policy: PolicyOptions,
    profile: str | None,
    datasources: tuple[str, ...],
    out: str | None,
    calendar: bool,
    show_sql: bool,
    as_json: bool,
) -> int:
    """Say what would go, what stays and why. Nothing is removed."""
    rules, _ = policy.resolve(store)
    asides = {"--out": out, "--calendar": calendar, "--show-sql": show_sql}
    with served(store, refused={**asides, **not_said(profile=profile, datasources=datasources)}) as holder:
        if holder is not None:
            return show_served(session, holder.plan(store, policy), as_json=as_json)
    with open_retention(store, profile=profile, writable=False, datasources=datasources) as retention:
        outlook = _planned(retention, rules, None if out is None else Path(out), calendar=calendar)
        statements = retention.statements(rules) if show_sql else {}
    if as_json:
        session.screen.json({**outlook.as_json(), **({"sql": statements} if show_sql else {})})
        return Exit.DONE
    session.screen.show(
        *report_parts(outlook.report, more=_parts(outlook, calendar=calendar)),
        *([] if out is None else notes("Written:", [f"{out}, the units that would go"])),
    )
    for name, sql in statements.items():
        lines = [f"-- {name}", *sql.split("\n")]
        session.screen.write("".join(f"{visible(line)}\n" for line in ["", *lines]))
    return Exit.DONE


def _planned(retention: Retention, policy: Policy, out: Path | None, *, calendar: bool) -> Outlook:
    began = time.monotonic()
    outlook = retention.outlook(policy, calendar=calendar)
    with nullcontext() if out is None else PlanWriter(out, retention.store, outlook.report) as file:
        for kind, unit in outlook.going(page=PLAN_PAGE):
            if file is not None:
                file.add(kind, unit)
    outlook.report.notices += [] if file is None else file.notices()
    outlook.report.seconds = time.monotonic() - began
    return outlook


def _parts(outlook: Outlook, *, calendar: bool) -> list[RenderableType]:
    """Lay out what a plan says besides what was asked."""
    now = outlook.report.now
    parts: list[RenderableType] = ["", _ages(outlook)]
    stays = [*_held("blocked", outlook.blocked, now), *_held("protected", outlook.protected, now)]
    if stays:
        parts += ["", table("stays whatever its age", "units", "oldest", "such as", rows=stays, numbers=[1])]
    stuck = outlook.stuck
    if stuck.count:
        rows = [("without a sign of life for 30 days", counted(stuck.count), *_aged(stuck, now))]
        parts += ["", table("stuck", "runs", "oldest", "such as", rows=rows, numbers=[1])]
    if calendar:
        today = to_datetime(now).date()
        parts += ["", Calendar(outlook.days, today=today, encoding=sys.stdout.encoding)]
    return parts


def _ages(outlook: Outlook) -> RenderableType:
    """Lay out the asked policy beside the other ages, a column each."""
    report, ahead = outlook.report, outlook.ahead
    rows = [
        ("units", counted(report.would_go), *(_about(part, part.units) for part in ahead)),
        ("rows", counted(sum(report.rows.values())), *(_about(part, part.rows) for part in ahead)),
        ("content", f"~{size(report.logical_bytes)}", *map(_content, ahead)),
    ]
    heads = ["would go", "as asked", *(f"--keep-for {part.days}d" for part in ahead)]
    return table(*heads, rows=rows, numbers=range(1, len(heads)))


def _about(part: Ahead, count: int) -> str:
    return f"~{counted(count)}" if part.estimated else counted(count)


def _content(part: Ahead) -> str:
    return f"{'~' if part.units else ''}{size(part.bytes)}" + (f" +-{part.error:.0%}" if part.error else "")


def _held(word: str, held: Mapping[str, Held], now: Instant) -> Iterable[tuple[str, str, str, str]]:
    for name, part in sorted(held.items()):
        yield f"{word}, {name}", counted(part.count), *_aged(part, now)


def _aged(held: Held, now: Instant) -> tuple[str, str]:
    """Write the age of the oldest and a few ids."""
    age = "unknown" if held.oldest is None else distance(held.oldest, now)
    return age, ", ".join(visible(name, limit=NAME) for name in held.ids[:EXAMPLES])
