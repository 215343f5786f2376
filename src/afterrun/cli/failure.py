"""What an exception means to whoever typed the command: a kind, a message and an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from afterrun.cli.suggest import explain_option
from afterrun.core.errors import (
    AfterrunError,
    BackupFailed,
    Exit,
    ProfileError,
    Refused,
    StoreFailure,
    StoreLocked,
    StoreUnreadable,
    UnitFailure,
    UnitNotFound,
    UsageError,
)

KINDS: Final[tuple[tuple[type[AfterrunError], str], ...]] = (
    (ProfileError, "profile"),
    (UsageError, "usage"),
    (Refused, "refused"),
    (StoreLocked, "locked"),
    (StoreUnreadable, "unreadable"),
    (BackupFailed, "backup"),
    (UnitNotFound, "not-found"),
    (UnitFailure, "store"),
    (StoreFailure, "store"),
    (AfterrunError, "error"),
)
"""Word for each class of error, in JSON; the first that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An ending without a report. ``reason`` is the stable word of a refusal or of a store's failure."""

    kind: str
    message: str
    code: Exit
    reason: str | None = None


def failure_of(error: BaseException, *, interrupted: bool = False) -> Failure:
    """Describe an exception. ``interrupted``: a person aborted, whatever the abort looked like inside."""
    if interrupted or isinstance(error, (KeyboardInterrupt, click.Abort)):
        message = "interrupted; what was committed stays, and nothing is half removed"
        return Failure(kind="interrupted", message=message, code=Exit.INTERRUPTED)
    if isinstance(error, AfterrunError):
        kind = next(word for known, word in KINDS if isinstance(error, known))
        reason = getattr(error, "reason", None) or getattr(error, "kind", None)
        return Failure(kind=kind, message=str(error), code=error.exit_code, reason=reason)
    if isinstance(error, click.ClickException):
        return Failure(kind="usage", message=_usage(error), code=Exit.USAGE)
    if isinstance(error, OSError):
        return Failure(kind="os", message=_system(error), code=Exit.ERROR)
    name = type(error).__name__
    return Failure(kind="bug", message=f"unexpected {name}: this is a bug", code=Exit.ERROR)


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.NoSuchOption):
        message = explain_option(error)
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.MissingParameter) and error.param and error.param.envvar:
        message = f"{message} Give it, or set {error.param.envvar}."
    return message if context is None else f"{message}\nSee {context.command_path} --help"


def _system(error: OSError) -> str:
    what = error.strerror or type(error).__name__
    return what if error.filename is None else f"{error.filename}: {what}"
