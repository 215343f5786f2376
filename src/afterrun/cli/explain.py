"""`afterrun explain`: every rule and time for one unit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.options import (
    STORE_VARIABLE,
    PolicyOptions,
    json_option,
    policy_options,
    profile_option,
    store_argument,
)
from afterrun.cli.render import counted, table
from afterrun.cli.session import Session
from afterrun.cli.text import distance, moment
from afterrun.core.decided import Ruling
from afterrun.core.errors import Exit
from afterrun.core.policy import CAPS
from afterrun.core.times import Instant, iso
from afterrun.service import Explanation, open_retention

SHOWN: Final = 20
"""Members listed for people."""

LISTED: Final = 1_000
"""Members listed in JSON."""


@click.command("explain")
@store_argument
@click.argument("run", metavar="RUN", required=False)
@policy_options
@profile_option
@json_option
@click.pass_obj
def explain(
    session: Session,
    *,
    store: str,
    run: str | None,
    policy: PolicyOptions,
    profile: str | None,
    as_json: bool,
) -> int:
    """Say every rule and time for the unit of one run, and when it becomes eligible."""
    store, run = _words(store, run)
    said = policy.resolve(store)
    with open_retention(store, profile=profile, writable=False) as retention:
        explanation = retention.explain(run, said.on(retention))
        place = {"store": retention.store.url, "profile": retention.store.profile_name}
    if as_json:
        session.screen.json(_as_json(explanation, place, run=run))
    else:
        session.screen.show(*_parts(explanation, place, run=run))
    return Exit.DONE


def _words(store: str, run: str | None) -> tuple[str, str]:
    """Tell STORE and RUN apart: with the store in the environment, the one word that was typed is the run."""
    if run is not None:
        return store, run
    named = os.environ.get(STORE_VARIABLE)
    if not named or store == named:
        raise click.UsageError("Missing argument 'RUN'. It is the id of a run.")
    return named, store


CLOCKED: Final = ("keep_for", "grace", "keep_keys")
"""Rules whose time counts from the end, so that they have no say of what has none."""

QUALIFIERS: Final = ("keep_last_counts", "group_by", "timezone", "keep_forks")
"""Words of a policy that keep nothing by themselves."""


def _as_json(explanation: Explanation, place: Mapping[str, object], *, run: str) -> Mapping[str, object]:
    members = [
        {**{name: member[name] for name in ("run", "parent", "status")}, "ended_at": _end(member["end"])}
        for member in explanation.members[:LISTED]
    ]
    return {
        **place,
        "unit": explanation.unit,
        "run": run,
        "kind": explanation.kind,
        "verdict": explanation.verdict.value,
        "reasons": [{"name": reason.name, "detail": reason.detail} for reason in explanation.reasons],
        "members": members,
        "member_count": len(explanation.members),
        "ended_at": iso(explanation.ended_at),
        "eligible_at": iso(explanation.eligible_at),
        "group": explanation.group,
        "rows": explanation.rows,
        "now": iso(explanation.now),
        "policy": explanation.policy,
        "rules": [{**rule._asdict(), "until": _end(rule.until)} for rule in explanation.rules],
    }


def _end(value: object) -> str | None:
    """Write a time of a store; one that makes no sense is left out."""
    return iso(value) if isinstance(value, int) and value >= 0 else None


def _parts(explanation: Explanation, place: Mapping[str, object], *, run: str) -> Iterable[RenderableType]:
    yield table("", "", rows=[*place.items(), *_head(explanation, run)])
    reasons = [(reason.name, reason.detail) for reason in explanation.reasons]
    if reasons:
        yield ""
        yield table("reason", "what was seen", rows=reasons)
    yield ""
    rules = [_rule_row(rule, explanation.now) for rule in explanation.rules]
    words = [
        (name, _listed(explanation.policy[name]), "") for name in QUALIFIERS if name in explanation.policy
    ]
    yield table("rule", "value", "says", rows=[*rules, *words])
    yield ""
    yield table("member", "parent", "status", "ended", rows=_member_rows(explanation))
    more = len(explanation.members) - SHOWN
    if more > 0:
        yield f"and {counted(more)} more"


def _head(explanation: Explanation, run: str) -> Iterable[tuple[str, object]]:
    if run != explanation.unit:
        yield "run", run
    yield f"unit ({explanation.kind})", explanation.unit
    yield "verdict", explanation.verdict.value
    yield "ended", moment(explanation.ended_at, otherwise="not yet, or at no known time")
    waits = explanation.verdict.value == "expired"
    yield "eligible", "now" if waits else moment(explanation.eligible_at, otherwise="no clock decides that")
    yield "now", moment(explanation.now)
    for column, value in explanation.group.items():
        yield f"group {column}", "(none)" if value is None else value
    yield "rows", counted(explanation.rows)


def _listed(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _rule_row(rule: Ruling, now: Instant) -> tuple[object, object, str]:
    by_age = rule.rule.startswith(CLOCKED)
    if by_age and not rule.keeps and rule.until is None:
        return rule.rule, rule.value, rule.says or "has no say: the unit has not ended, or at no known time"
    if rule.rule in CAPS:
        return rule.rule, rule.value, rule.says
    says = "keeps it" if rule.keeps else "lets it go"
    if rule.until is not None and rule.rule != "before":
        says = f"{says}: its time ends {moment(rule.until)}, {distance(rule.until, now)}"
    return rule.rule, rule.value, "; ".join(filter(None, (says, rule.says)))


def _member_rows(explanation: Explanation) -> Iterable[tuple[object, ...]]:
    for member in explanation.members[:SHOWN]:
        parent = "" if member["parent"] is None else member["parent"]
        status = "(none)" if member["status"] is None else member["status"]
        yield member["run"], parent, status, _end(member["end"]) or "not known"
