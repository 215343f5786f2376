"""The `afterrun` command: finds the command, runs it, and turns every ending into words and an exit code."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

import click

from afterrun.cli.config import config
from afterrun.cli.explain import explain
from afterrun.cli.failure import Failure, failure_of
from afterrun.cli.history import history
from afterrun.cli.inspect import inspect
from afterrun.cli.key import key
from afterrun.cli.plan import plan
from afterrun.cli.profile import profile
from afterrun.cli.prune import prune
from afterrun.cli.reclaim import reclaim
from afterrun.cli.render import Screen
from afterrun.cli.restore import restore
from afterrun.cli.run import run
from afterrun.cli.scan import scan
from afterrun.cli.serve import serve
from afterrun.cli.session import Session, Signals
from afterrun.cli.suggest import SuggestingGroup
from afterrun.cli.sweep import sweep
from afterrun.cli.verify import verify
from afterrun.cli.watch import watch
from afterrun.core.errors import Exit

DEBUG: Final = "AFTERRUN_DEBUG"
"""Set to 1, this variable adds the traceback of a bug to its one line."""

app = SuggestingGroup(
    "afterrun",
    help=(
        "Look after the state of workflow and agent engines once the runs are over.\n\n"
        "STORE is the path or the sqlite:/// URL of a store; the variable AFTERRUN_STORE can hold it, too."
    ),
    commands=[
        *(scan, inspect, plan, explain, prune, sweep, watch),
        *(restore, reclaim, verify, history, profile, config, key),
        *(serve, run),
    ],
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app = click.version_option(version("afterrun"), prog_name="afterrun", message="%(prog)s %(version)s")(app)

GC_THRESHOLD: Final = 100_000
"""New containers between looks for cycles: a sweep makes millions of tuples, none in a cycle, and looking at
them again and again took two fifths of its own time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Nothing but an exit code comes out of it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # a process of our own: the collector need not look at imported modules again
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
    screen = Screen(as_json=_wants_json(words))
    with Signals() as signals:
        try:
            return _run(words, Session(screen, signals))
        except BaseException as error:  # noqa: BLE001 - the last place: no traceback may reach a person
            failure = failure_of(error, interrupted=signals.aborted)
            return _fail(failure, screen)


def _run(words: list[str], session: Session) -> int:
    try:
        with app.make_context("afterrun", words, obj=session) as context:
            return int(app.invoke(context))
    except click.exceptions.Exit as ending:  # --help and --version have said what they say
        session.screen.flush()
        return ending.exit_code
    except BrokenPipeError:  # the reader of a help text has gone away; `Screen` sees to all else
        session.screen.silence()
        return Exit.DONE


def _fail(failure: Failure, screen: Screen) -> int:
    if failure.code is Exit.ERROR and failure.kind == "bug" and os.environ.get(DEBUG) == "1":
        traceback.print_exc()
    try:
        screen.failure(failure)
    except OSError:  # nobody listens, or the disk is full: the exit code is what remains
        screen.silence()
    return failure.code


def _wants_json(words: Sequence[str]) -> bool:
    """Say whether the answer is wanted as JSON: also an error in the words themselves is given so."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options
