"""`afterrun run`: start, look at, answer and end runs of a run store, through its server if one holds it."""

from __future__ import annotations

from afterrun.cli.run_answers import cancel, decide, message, resume, settle
from afterrun.cli.run_looks import listed as newest
from afterrun.cli.run_looks import show, state, steps, tree
from afterrun.cli.run_starts import result, start
from afterrun.cli.suggest import SuggestingGroup

run = SuggestingGroup(
    "run",
    help=(
        "Start, look at, answer and end the runs of a run store.\n\n"
        "A server that holds the store does it; without one, the store is opened, and what is started waits."
    ),
    commands=[start, newest, show, steps, tree, cancel, decide, message, settle, resume, result, state],
    no_args_is_help=False,
)
