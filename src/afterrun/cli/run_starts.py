"""`afterrun run start` and `afterrun run result`: a value in, and the exact value out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final

import click
from pydantic import JsonValue

from afterrun.cli.desks import ask_of, desk_of, words_argument, words_of
from afterrun.cli.options import Amount, json_option
from afterrun.cli.render import table
from afterrun.cli.run_rows import run_rows
from afterrun.cli.session import Session
from afterrun.core.errors import Exit, UsageError
from afterrun.reading import read_small_file
from afterrun.runs.words import LIVE
from afterrun.server.asks import StartAsk
from afterrun.server.desk import Desk

STDIN: Final = "-"
MAX_INPUT: Final = 4 * 1024 * 1024
"""Bytes of a file with an input; a server takes no larger request."""

FIRST_REST: Final = 0.02
LONGEST_REST: Final = 1.0
"""Seconds between two looks at a run that is waited for: doubled from the first to the longest."""


@click.command("start")
@words_argument("WORKFLOW")
@click.option("--input", "text", metavar="JSON", help="What it begins with. Default: null.")
@click.option("--input-file", metavar="FILE", help="The same from a file, or from standard input: -")
@click.option("--key", metavar="KEY", help="Idempotency key: the same one gives the same run.")
@json_option
@click.pass_obj
def start(
    session: Session,
    *,
    words: tuple[str, ...],
    text: str | None,
    input_file: str | None,
    key: str | None,
    as_json: bool,
) -> int:
    """Start a workflow: its run is queued when this returns."""
    store, workflow = words_of(words, "WORKFLOW")
    ask = ask_of(StartAsk, workflow=workflow, input=value_of(text, input_file), idempotency_key=key)
    with desk_of(store) as (desk, served):
        made = desk.start(ask)
    if as_json:
        session.screen.json({**made.model_dump(mode="json"), "served": served})
        return Exit.DONE
    session.screen.show(table("", "", rows=[("new", "yes" if made.new else "no"), *run_rows(made.run)]))
    if not served:
        session.screen.aside("No server of this machine holds the store: the run waits for one.")
    return Exit.DONE


@click.command("result")
@words_argument("RUN")
@click.option(
    "--wait", type=Amount(least=0), metavar="S", help="Wait for its end, at most this many seconds."
)
@click.pass_obj
def result(session: Session, *, words: tuple[str, ...], wait: float | None) -> int:
    """Print exactly what a run ended with, as JSON on one line.

    It ends with 3 if the run did not end in the time, and with 4 if it ended without a result.
    """
    store, run = words_of(words, "RUN")
    with desk_of(store) as (desk, _):
        if wait is not None and not _ended(desk, run, seconds=wait):
            session.screen.aside("The run has not ended yet; it goes on.")
            return Exit.DEFERRED
        content = desk.result(run)
    session.screen.write("null\n" if content is None else f"{content.decode('utf-8', 'backslashreplace')}\n")
    return Exit.DONE


def value_of(text: str | None, file: str | None) -> JsonValue:
    """Return the value that was given as JSON. Raises `UsageError`, which does not repeat it."""
    if text is not None and file is not None:
        raise click.UsageError("--input and --input-file contradict each other")
    raw = text if file is None else _read(file)
    if raw is None:
        return None
    try:
        value: JsonValue = json.loads(raw)
    except (ValueError, RecursionError):
        raise UsageError(
            "the input is no JSON that can be read: text needs double quotes, as in '\"you\"'"
        ) from None
    return value


def _read(file: str) -> bytes:
    if file == STDIN:
        raw = sys.stdin.buffer.read(MAX_INPUT + 1)
    else:
        try:
            raw = read_small_file(Path(file), limit=MAX_INPUT)
        except OSError as error:
            raise UsageError(f"the input {file} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_INPUT:
        raise UsageError(f"the input has more than {MAX_INPUT:,} bytes")
    return raw


def _ended(desk: Desk, run: str, *, seconds: float) -> bool:
    until, rest = time.monotonic() + seconds, FIRST_REST
    while desk.view(run).status in LIVE:
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(rest, left))
        rest = min(2 * rest, LONGEST_REST)
    return True
