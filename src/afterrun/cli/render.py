"""All rendering: reports, explanations and profiles as tables for people or as JSON, and every failure.

Text from a store passes through `text.visible`, and rich interprets no markup.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Final

from rich.console import Console, RenderableType
from rich.table import Table

from afterrun.cli.failure import Failure
from afterrun.cli.space import outcome_lines
from afterrun.cli.text import LONGEST, message_lines, moment, seconds, size, to_json, visible
from afterrun.core.decided import BY_AGE
from afterrun.core.policy import CAPS
from afterrun.core.report import Report, UnitCounts
from afterrun.core.space import Reclaim

WIDTH: Final = 110
"""Columns where standard output is no terminal."""

KINDS: Final = {"tree": "units", "directory": "run directories"}
"""What people read over the counts of a kind of unit, where that is not its plural."""

DECIDED: Final = {BY_AGE: "too young for every rule"}
"""What people read for a rule that decided, where that is not its name."""

Pairs = Iterable[tuple[str, object]]


class Screen:
    """Standard output and standard error of one run of the command line."""

    def __init__(self, *, as_json: bool) -> None:
        """Choose between JSON and tables."""
        self.as_json = as_json

    def show(self, *parts: RenderableType) -> None:
        """Print tables and lines on standard output, all at once."""
        self._emit(drawn(parts, sys.stdout))

    def write(self, text: str) -> None:
        """Print text as it is, line by line; the caller made it safe."""
        self._emit(text)

    def aside(self, *parts: RenderableType) -> None:
        """Print on standard error."""
        sys.stderr.write(drawn(parts, sys.stderr))
        sys.stderr.flush()

    def json(self, value: Mapping[str, object]) -> None:
        """Print the one object on standard output."""
        self._emit(f"{to_json(value)}\n")

    def ask(self, question: str) -> bool:
        """Ask on standard error and read the answer; anything but yes is no."""
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def failure(self, failure: Failure) -> None:
        """Print an ending without a report."""
        lines = message_lines(failure.message)
        for line in [f"afterrun: {lines[0]}", *lines[1:]]:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
        if not self.as_json:
            return
        error: dict[str, object] = {"kind": failure.kind, "message": "\n".join(lines)}
        if failure.reason is not None:
            error["reason"] = failure.reason
        ended = {"ended": "locked"} if failure.kind == "locked" else {}
        self.json({"error": error, **ended})

    def flush(self) -> None:
        """Push out what click has printed."""
        self._emit("")

    def _emit(self, text: str) -> None:
        """Write to standard output; a reader who has gone away is no error, a full disk is one."""
        stream = sys.stdout
        encoding = stream.encoding or "utf-8"
        try:
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except BrokenPipeError:
            self.silence()
        except OSError:
            self.silence()
            raise

    @staticmethod
    def silence() -> None:
        """Send standard output nowhere, so that Python's own flush at exit has nothing to complain of."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def drawn(parts: Iterable[RenderableType], stream: IO[str]) -> str:
    """Return what rich makes of these parts for a stream: colours and its width only for a terminal."""
    terminal = stream.isatty()
    target = io.StringIO()
    console = Console(
        file=target,
        force_terminal=terminal,
        width=None if terminal else WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))  # a line is wrapped by whoever reads it
    text = target.getvalue()
    return text if terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def table(*heads: str, rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> Table:
    """Make a table; columns in ``numbers`` are aligned to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=any(heads))
    for place, head in enumerate(heads):
        made.add_column(head, overflow="fold", justify="right" if place in numbers else "left")
    for row in rows:
        made.add_row(*(visible(cell, limit=LONGEST) for cell in row))
    return made


def notes(title: str, lines: Iterable[str]) -> Iterable[RenderableType]:
    """Make a list of remarks, none without any."""
    shown = [f"- {visible(line)}" for line in lines]
    return ["", title, *shown] if shown else []


def counted(number: int) -> str:
    """Write a count for people."""
    return f"{number:,}"


def report_parts(report: Report, *, more: Iterable[RenderableType] = ()) -> list[RenderableType]:
    """Lay out a plan or what a removal did; ``more`` stands between the figures and the notes."""
    parts: list[RenderableType] = [table("", "", rows=_head(report)), ""]
    parts += list(_unit_tables(report))[:-1]
    rows = [(name, counted(count)) for name, count in report.rows.items() if count]
    if rows:
        would = "rows that would go" if report.dry_run else "rows removed"
        parts += ["", table(would, "count", rows=rows, numbers=[1])]
    parts += _row_tables(report)
    parts += ["", *_sizes(report)]
    parts += more
    if report.backup is not None:
        parts += ["", *_backup(report.backup)]
    if report.reclaim is not None:
        parts += ["", *reclaim_lines(report.reclaim)]
    parts += notes("Units that came back after an interrupted removal, look at what they did:", _back(report))
    parts += notes("Units too large for one batch, left alone:", report.oversized)
    parts += notes("Units so large that each holds the lock longer than a batch:", report.large)
    parts += notes("Notes:", report.notices)
    parts += ["", *message_lines(_closing(report))]
    return parts


def _back(report: Report) -> Iterable[str]:
    ids = (report.interrupted or {}).get("ids")
    return map(str, ids) if isinstance(ids, list) else []


def reclaim_lines(report: Reclaim) -> Iterable[str]:
    """Say what a reclaim came to, and why it came to no more."""
    yield from outcome_lines(report)
    yield from message_lines(report.message) if report.message else []


def _head(report: Report) -> Pairs:
    read = "read" if report.schema.read else "never read"
    yield "store", report.store
    yield "profile", f"{report.profile}, schema {report.schema.version} ({read})"
    yield "policy", policy_words(report.policy)
    yield "now", moment(report.now)
    yield "fingerprint", report.fingerprint


def policy_words(policy: Mapping[str, object]) -> str:
    """Write the rules of a policy on one line."""
    return ", ".join(f"{name} {_words(value)}" for name, value in policy.items())


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({policy_words(value)})"
    return "+".join(map(_words, value)) if isinstance(value, list) else str(value)


def _unit_tables(report: Report) -> Iterable[RenderableType]:
    for kind, units in report.kinds.items():
        rows = list(_unit_rows(units, dry_run=report.dry_run))
        if kind == report.kind and report.keys_forgotten:
            rows.append(("idempotency keys forgotten", counted(report.keys_forgotten)))
        yield table(_headed(kind), "count", rows=rows, numbers=[1])
        yield ""
        if units.decided:
            of = "" if kind == report.kind else f" of {kind}s"
            yield table(f"which rule decided{of}", "units", "", rows=_decided_rows(units), numbers=[1])
            yield ""


def _decided_rows(units: UnitCounts) -> Iterable[tuple[str, str, str]]:
    for name, count in units.decided.items():
        does = "go beyond it" if name in CAPS else "stay"
        if not count:  # of what is too young to be read, some rule of age keeps each
            does = "" if units.decided[BY_AGE] and name.startswith("keep_for") else "it decided nothing"
        yield DECIDED.get(name, name), counted(count), does


def _headed(kind: str) -> str:
    """Return what stands over the counts of a kind."""
    word, colon, name = kind.partition(":")
    return f"rows of {name}" if colon else KINDS.get(word, f"{kind}s")


def _row_tables(report: Report) -> Iterable[RenderableType]:
    """Lay out how the work on each row table went."""
    if report.dry_run or not report.tables:
        return
    rows = [
        (
            name,
            counted(part.rows),
            counted(part.batches),
            seconds(part.slowest),
            counted(part.backlog),
            part.outcome or "not begun",
        )
        for name, part in report.tables.items()
    ]
    heads = ["row table", "removed", "batches", "slowest", "left, at most", "ended"]
    yield ""
    yield table(*heads, rows=rows, numbers=[1, 2, 3, 4])


def _unit_rows(units: UnitCounts, *, dry_run: bool) -> Iterable[tuple[str, str]]:
    if dry_run:
        yield "would go", counted(units.would_go)
    else:
        yield "removed", counted(units.removed)
    if units.deferred:
        yield "deferred", counted(units.deferred)
    for why, count in units.skipped.items():
        yield f"skipped, {why}", counted(count)
    if units.recent or dry_run:  # a removal does not count what its pages never meet
        yield "recent", counted(units.recent)
    for name, count in sorted(units.protected.items()):
        yield f"protected, {name}", counted(count)
    for name, count in sorted(units.blocked.items()):
        yield f"blocked, {name}", counted(count)
    if units.unrooted:
        yield "runs that no root reaches", counted(units.unrooted)


def _kept_in(report: Report) -> str:
    """Say in a word what the measured bytes are of; of a directory none are, since that means to walk it."""
    if "://" not in report.store:
        return ""
    return "file" if report.store.startswith("sqlite:") else "tables"


def _blobs(report: Report) -> Iterable[str]:
    count, held = report.blobs.count, size(report.blobs.size)
    if count:
        verb = "that nothing would refer to" if report.dry_run else "removed, as nothing referred to them"
        yield f"{counted(count)} blobs of {held} {verb} any more"


def _sizes(report: Report) -> Iterable[RenderableType]:
    yield from _blobs(report)
    kept_in = _kept_in(report)
    if report.dry_run:
        yield f"content that would go: ~{size(report.logical_bytes)} (estimated from samples)"
        if kept_in:
            yield f"{kept_in}: {size(report.file_before)} (measured)"
        return
    if kept_in:
        yield f"{kept_in}: {size(report.file_before)} before, {size(report.file_after)} after (both measured)"
    if not kept_in:
        yield "A directory's room is given back with each removal."
    elif report.reclaim is None and kept_in == "file":
        yield "Free pages in the file are used again by the engine; only a reclaim gives them back."
    elif report.reclaim is None:
        yield "The room of removed rows is used again after the next vacuum, autovacuum's or a reclaim's."
    batches = "batch" if report.batches == 1 else "batches"
    longest = f"the longest held its lock for {seconds(report.longest_batch)}"
    yield f"{counted(report.batches)} {batches} in {seconds(report.seconds)}, {longest}"
    if report.backlog_after:
        gaining = {True: ", gaining on the inflow", False: ", not gaining on the inflow", None: ""}
        yield f"left to do: at most {counted(report.backlog_after)} units{gaining[report.gaining]}"


def _backup(facts: Mapping[str, object]) -> Iterable[str]:
    number = {name: float(str(facts[name])) for name in ("bytes", "seconds", "blocked", "longest_hold")}
    yield f"backup: {visible(facts['path'])} ({facts['kind']}, {facts['units']} units)"
    made = f"made and verified before the first batch in {seconds(number['seconds'])}"
    yield f"its size: {size(int(number['bytes']))}, {made}"
    yield f"its checksum: {facts['checksum']}"
    if number["blocked"]:
        yield (
            f"the engine could not commit for {seconds(number['blocked'])} in all and "
            f"{seconds(number['longest_hold'])} at once (measured)"
        )
    if facts["cleared"]:
        yield f"unfinished backups of killed processes taken away: {facts['cleared']}"


ENDINGS: Final = {
    "completed": "The pass is complete.",
    "budget": "The budget is used up; the next sweep goes on from here.",
    "interrupted": "Stopped after a whole batch; the next sweep goes on from here.",
    "guard": "Nothing was removed.",
    "failed": "The store failed; what was committed stays, and nothing is half removed.",
}


def _closing(report: Report) -> str:
    if report.ended == "guard" or (report.message and not report.dry_run):
        return report.message
    return "Nothing was removed." if report.dry_run else ENDINGS[report.ended]
