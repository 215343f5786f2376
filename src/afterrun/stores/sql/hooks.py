"""What engines expect of anybody who removes their runs: the names of the registry, carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from afterrun.profiles.registry import Hook
from afterrun.stores.sql.dialect import Dialect


def _dbos_retention_lock(dialect: Dialect) -> AbstractContextManager[None]:
    """Hold the lock that DBOS 3.0 to 3.2, in any language, takes on PostgreSQL around its own removal."""
    held = "the engine's own retention is removing runs from this store now; try again later"
    return dialect.advisory(f"dbos.retention.{dialect.schema}", held=held)


HOOKS: Final[Mapping[Hook, Callable[[Dialect], AbstractContextManager[None]]]] = {
    "dbos-retention-lock": _dbos_retention_lock,
}


def before_sweep(hook: Hook | None, dialect: Dialect) -> AbstractContextManager[None]:
    """Hold what an engine's profile asks for. Raises `StoreLocked` where the engine holds it."""
    return nullcontext() if hook is None else HOOKS[hook](dialect)
