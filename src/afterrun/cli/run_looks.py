"""`afterrun run list`, `show`, `steps`, `tree` and `state`: looking, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click
from rich.console import RenderableType

from afterrun.cli.desks import ask_of, desk_of, remote_of, words_argument, words_of
from afterrun.cli.options import json_option, store_argument
from afterrun.cli.render import counted, table
from afterrun.cli.run_rows import payload_row, question_row, run_rows, when
from afterrun.cli.session import Session
from afterrun.core.errors import Exit, Refused
from afterrun.runs import RunStatus
from afterrun.server.answers import RunAnswer
from afterrun.server.asks import MOST, PAGE, PageAsk, PartsAsk, RunsAsk

RUN_HEADS: Final = ("run", "workflow", "status", "created", "ended")
TREE_HEADS: Final = ("run", "workflow", "status", "hangs from")
STEP_HEADS: Final = ("step", "name", "status", "attempt", "started", "ended")
QUESTION_HEADS: Final = ("asks for", "number", "about", "choices", "asked")

limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=1, max=MOST),
    default=PAGE,
    show_default=True,
    metavar="N",
    help=f"Rows of the page, at most {MOST}.",
)
after_option: Final = click.option(
    "--after", metavar="NEXT", help="Go on after this, which the last page said."
)


@click.command("list")
@store_argument
@click.option(
    "--status", type=click.Choice([status.value for status in RunStatus]), help="Only runs in this state."
)
@limit_option
@after_option
@json_option
@click.pass_obj
def listed(
    session: Session, *, store: str, status: str | None, limit: int, after: str | None, as_json: bool
) -> int:
    """List the newest runs, without payloads."""
    with desk_of(store) as (desk, _):
        page = desk.runs(ask_of(RunsAsk, status=status, limit=limit, after=after))
    if as_json:
        session.screen.json(page.model_dump(mode="json"))
        return Exit.DONE
    rows = [_row(run) for run in page.runs]
    session.screen.show(table(*RUN_HEADS, rows=rows) if rows else "There is no such run.", *_more(page.next))
    return Exit.DONE


@click.command("show")
@words_argument("RUN")
@json_option
@click.pass_obj
def show(session: Session, *, words: tuple[str, ...], as_json: bool) -> int:
    """Show a run: its state, how much it has, and what it asks. Payloads are shown scrubbed."""
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        view = desk.view(run)
    if as_json:
        session.screen.json(view.model_dump(mode="json"))
        return Exit.DONE
    rows = [
        *run_rows(view),
        *payload_row("input", view.input),
        *payload_row("output", view.output),
        *([] if view.progress is None else [("progress", view.progress)]),
        ("steps", counted(view.steps)),
        ("children", counted(view.children)),
    ]
    asked = [question_row(question) for question in view.questions]
    questions: list[RenderableType] = ["", table(*QUESTION_HEADS, rows=asked)] if asked else []
    doubts = [(effect.name, f"{effect.generation}.{effect.number}") for effect in view.in_doubt]
    doubted: list[RenderableType] = ["", table("in doubt", "number", rows=doubts)] if doubts else []
    session.screen.show(table("", "", rows=rows), *questions, *doubted)
    return Exit.DONE


@click.command("steps")
@words_argument("RUN")
@limit_option
@after_option
@json_option
@click.pass_obj
def steps(session: Session, *, words: tuple[str, ...], limit: int, after: str | None, as_json: bool) -> int:
    """List the steps of a run, without payloads."""
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        page = desk.steps(run, ask_of(PartsAsk, limit=limit, after=after))
    if as_json:
        session.screen.json(page.model_dump(mode="json"))
        return Exit.DONE
    rows = [
        (
            f"{step.generation}.{step.number}",
            step.name,
            step.status,
            step.attempt,
            when(step.started_at),
            when(step.ended_at),
        )
        for step in page.steps
    ]
    made = table(*STEP_HEADS, rows=rows, numbers=[3]) if rows else "It has no more steps."
    session.screen.show(made, *_more(page.next))
    return Exit.DONE


@click.command("tree")
@words_argument("RUN")
@limit_option
@after_option
@json_option
@click.pass_obj
def tree(session: Session, *, words: tuple[str, ...], limit: int, after: str | None, as_json: bool) -> int:
    """List a run and all below it, in the order of their creation."""
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        page = desk.tree(run, ask_of(PageAsk, limit=limit, after=after))
    if as_json:
        session.screen.json(page.model_dump(mode="json"))
        return Exit.DONE
    rows = [(part.id, part.workflow, part.status, _above(part)) for part in page.runs]
    session.screen.show(table(*TREE_HEADS, rows=rows), *_more(page.next))
    return Exit.DONE


@click.command("state")
@store_argument
@json_option
@click.pass_obj
def state(session: Session, *, store: str, as_json: bool) -> int:
    """Say how the server of a store is: counts and moments."""
    remote = remote_of(store)
    if remote is None:
        raise Refused(
            "no-server", "no server of this machine holds the store: start one with `afterrun serve`"
        )
    with remote:
        found = remote.state()
    if as_json:
        session.screen.json(found.model_dump(mode="json"))
        return Exit.DONE
    moments: Mapping[str, str] = {name: when(at) for name, at in found.moments.items()}
    rows = [("ready", "yes" if found.ready else "no"), *found.counts.items(), *moments.items()]
    session.screen.show(table("", "", rows=rows))
    return Exit.DONE


def _row(run: RunAnswer) -> tuple[object, ...]:
    return (run.id, run.workflow, run.status, when(run.created_at), when(run.ended_at))


def _above(run: RunAnswer) -> str:
    above = run.restart_of or run.continuation_of if run.parent is None else run.parent.run
    return above or ""


def _more(after: str | None) -> list[str]:
    return [] if after is None else [f"There may be more: --after {after}"]
