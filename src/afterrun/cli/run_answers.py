"""`afterrun run cancel`, `decide`, `message` and `resume`: what a person says to a run."""

from __future__ import annotations

import getpass

import click

from afterrun.cli.desks import ask_of, desk_of, words_argument, words_of
from afterrun.cli.options import json_option
from afterrun.cli.render import counted, table
from afterrun.cli.run_rows import run_rows
from afterrun.cli.run_starts import value_of
from afterrun.cli.session import Session
from afterrun.core.errors import Exit
from afterrun.server.asks import CancelAsk, DecideAsk, MessageAsk, SettleAsk


@click.command("cancel")
@words_argument("RUN")
@click.option("--reason", metavar="TEXT", default="cancelled by a person", show_default=True, help="Why.")
@json_option
@click.pass_obj
def cancel(session: Session, *, words: tuple[str, ...], reason: str, as_json: bool) -> int:
    """Cancel a run and all below it, in one transaction."""
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        done = desk.cancel(run, ask_of(CancelAsk, reason=reason))
    if as_json:
        session.screen.json(done.model_dump(mode="json"))
    else:
        session.screen.show(f"Cancelled: {counted(done.cancelled)} runs.")
    return Exit.DONE


@click.command("decide")
@words_argument("RUN", "CHOICE")
@click.option("--by", metavar="NAME", help="Who answers. Default: the name of this user.")
@click.option("--number", type=click.IntRange(min=1), metavar="N", help="Of several questions, this one.")
@click.option("--generation", type=click.IntRange(min=1), metavar="N", help="Of this generation.")
@click.option("--approval", is_flag=True, help="Answer an approval: approve or reject.")
@json_option
@click.pass_obj
def decide(
    session: Session,
    *,
    words: tuple[str, ...],
    by: str | None,
    number: int | None,
    generation: int | None,
    approval: bool,
    as_json: bool,
) -> int:
    """Answer what a run asked; `run show` lists its questions."""
    store, run, choice = words_of(words, "RUN", "CHOICE")
    ask = ask_of(
        DecideAsk,
        kind="approval" if approval else "decision",
        choice=choice,
        by=by or getpass.getuser(),
        number=number,
        generation=generation,
    )
    with desk_of(store) as (desk, _):
        answered = desk.decide(run, ask)
    if as_json:
        session.screen.json(answered.model_dump(mode="json"))
    else:
        rows = [
            ("about", answered.subject),
            ("status", answered.status),
            ("answer", answered.answer or choice),
        ]
        session.screen.show(table("", "", rows=rows))
    return Exit.DONE


@click.command("message")
@words_argument("RUN")
@click.option("--input", "text", metavar="JSON", help="The message. Default: null.")
@click.option("--input-file", metavar="FILE", help="The same from a file, or from standard input: -")
@click.option("--sender", metavar="NAME", help="Who sends it.")
@click.option("--key", metavar="KEY", help="The same key is the same message.")
@json_option
@click.pass_obj
def message(
    session: Session,
    *,
    words: tuple[str, ...],
    text: str | None,
    input_file: str | None,
    sender: str | None,
    key: str | None,
    as_json: bool,
) -> int:
    """Send a message to a run."""
    store, run = words_of(words, "RUN")
    ask = ask_of(MessageAsk, content=value_of(text, input_file), sender=sender, key=key)
    with desk_of(store) as (desk, _):
        sent = desk.message(run, ask)
    if as_json:
        session.screen.json(sent.model_dump(mode="json"))
    else:
        session.screen.show(f"Sent: message {counted(sent.number)}.")
    return Exit.DONE


@click.command("settle")
@words_argument("RUN")
@click.option("--applied", is_flag=True, help="It happened: look outside before you say so.")
@click.option("--not-applied", is_flag=True, help="It did not happen; it is tried again.")
@click.option("--by", metavar="NAME", help="Who looked. Default: the name of this user.")
@click.option("--number", type=click.IntRange(min=1), metavar="N", help="Of several effects, this one.")
@click.option("--generation", type=click.IntRange(min=1), metavar="N", help="Of this generation.")
@click.option("--receipt", metavar="JSON", help="With --applied: what the outside answered. Default: null.")
@json_option
@click.pass_obj
def settle(
    session: Session,
    *,
    words: tuple[str, ...],
    applied: bool,
    not_applied: bool,
    by: str | None,
    number: int | None,
    generation: int | None,
    receipt: str | None,
    as_json: bool,
) -> int:
    """Say what became of an effect in doubt; `run show` lists those of a run."""
    store, run = words_of(words, "RUN")
    if applied == not_applied:
        raise click.UsageError("say either --applied or --not-applied")
    ask = ask_of(
        SettleAsk,
        applied=applied,
        by=by or getpass.getuser(),
        number=number,
        generation=generation,
        receipt=value_of(receipt, None),
    )
    with desk_of(store) as (desk, _):
        settled = desk.settle(run, ask)
    if as_json:
        session.screen.json(settled.model_dump(mode="json"))
    else:
        session.screen.show(table("", "", rows=[("effect", settled.name), ("status", settled.status)]))
    return Exit.DONE


@click.command("resume")
@words_argument("RUN")
@json_option
@click.pass_obj
def resume(session: Session, *, words: tuple[str, ...], as_json: bool) -> int:
    """Let a run go on that failed, ran out of time, parked or waits."""
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        found = desk.resume(run)
    if as_json:
        session.screen.json(found.model_dump(mode="json"))
    else:
        session.screen.show(table("", "", rows=run_rows(found)))
    return Exit.DONE
