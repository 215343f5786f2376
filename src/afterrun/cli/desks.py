"""Where a command finds the desk of a store: the server that holds it, else the store itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from pydantic import ValidationError

from afterrun.cli.options import STORE_VARIABLE
from afterrun.core.errors import Refused, UsageError
from afterrun.runs import RunStore, UpgradeNeeded
from afterrun.server.asks import Ask, faults_of
from afterrun.server.desk import Desk, StoreDesk
from afterrun.server.places import ServerFolder

if TYPE_CHECKING:
    from afterrun.server.remote import RemoteDesk

Kind = TypeVar("Kind", bound=Ask)
Command = TypeVar("Command", bound=Callable[..., int])

NEEDED: Final = (
    "a server holds this store, and to speak to it takes more than the base install, such as {missing}: "
    "pip install 'afterrun[server]'"
)

NOT_READY: Final = (
    "there are no tables of a run store there, or those of an earlier version: `afterrun serve` makes or "
    "upgrades them"
)


@contextmanager
def desk_of(store: str) -> Iterator[tuple[Desk, bool]]:
    """Give the desk of a store, and whether it is a server's.

    Raises what `remote_of` and `RunStore.open` raise; no store is made or upgraded.
    """
    remote = remote_of(store)
    if remote is not None:
        with remote:
            yield remote, True
        return
    try:
        opened = RunStore.open(store, migrate=False)
    except UpgradeNeeded:
        raise Refused("upgrade", NOT_READY) from None
    with opened:
        yield StoreDesk(opened), False


def remote_of(store: str) -> RemoteDesk | None:
    """Return the server that holds a store on this machine, if one does.

    Raises `StoreHeld` while it starts or ends, `Refused` without the right to speak to it.
    """
    if ServerFolder(store).find() is None:
        return None
    try:
        from afterrun.server.remote import RemoteDesk  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as missing:
        raise UsageError(NEEDED.format(missing=missing.name)) from None
    return RemoteDesk.of(store)


def ask_of(kind: type[Kind], /, **words: Any) -> Kind:  # noqa: ANN401 - the model checks them
    """Make an ask of what was typed. Raises `UsageError`."""
    try:
        return kind(**words)
    except ValidationError as error:
        raise UsageError("; ".join(faults_of(error))) from None


def words_argument(*names: str) -> Callable[[Command], Command]:
    """Take STORE and words with these names; STORE may be in the environment instead."""
    return click.argument("words", nargs=-1, metavar=" ".join(["STORE", *names]))


def words_of(words: Sequence[str], *names: str) -> Sequence[str]:
    """Return the store, then the words with these names, as they were typed.

    With the store in the environment, one word fewer is enough. Raises `click.UsageError`.
    """
    named = os.environ.get(STORE_VARIABLE)
    if named and len(words) == len(names):
        words = [named, *words]
    wanted = ["STORE", *names]
    if len(words) < len(wanted):
        missing = wanted[len(words) + bool(named)]
        raise click.UsageError(
            f"Missing argument {missing!r}. It takes {' '.join(wanted)}; the variable "
            f"{STORE_VARIABLE} can hold STORE."
        )
    if len(words) > len(wanted):
        raise click.UsageError(f"Got unexpected extra argument; it takes {' '.join(wanted)}.")
    return words
