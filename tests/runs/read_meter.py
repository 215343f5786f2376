"""How much of a run store's pages one of its calls reads.

On SQLite, what the thread has read from files: pages come by system calls, as no file is mapped into memory.
On PostgreSQL, the pages that each of its statements found or read, as the server tells.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import sqlalchemy as sa

from afterrun.runs import RunStore
from afterrun.runs.direct import Direct
from runs.runs_kit import Home

IO: Final = Path("/proc/thread-self/io")
PAGE: Final = 8_192
RUNS: Final = 12
SERIALIZES: Final = (17,)
"""The first version of PostgreSQL that tells what it reads of values to send them."""

Call = Callable[[RunStore], object]


def fill(store: RunStore, payload: int, *, count: int = RUNS) -> str:
    """Make a tree of so many runs whose content is of this size, each another one; return its root."""
    root = store.create("root", content=_content(0, payload)).run.id
    store.start(root)
    step = store.steps.start(root, "delegate")
    for number in range(1, count):
        run = store.create("child", content=_content(number, payload), parent=step).run.id
        store.start(run)
        done = store.steps.start(run, "work")
        store.steps.complete(done, output=_content(number + count, payload))
        store.finish(run, output=_content(number + 2 * count, payload))
    return root


def _content(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def slim_calls(root: str) -> dict[str, Call]:
    """Return the calls that read no content, by name."""
    return {
        "list": lambda store: store.newest(limit=RUNS),
        "queue": lambda store: store.queued(),
        "status": lambda store: store.get(root),
        "tree": lambda store: store.tree(root),
        "steps": lambda store: store.steps.of(root),
        "tasks": lambda store: store.tasks.of(root),
        "blocks": lambda store: store.lineage_block(root),
    }


def bytes_read(home: Home, call: Call) -> int:
    """Return the bytes of pages that a call reads in a store that was just opened."""
    if home.name == "sqlite":
        return _from_file(home, call)
    return _from_server(home, call)


def _from_file(home: Home, call: Call) -> int:
    """Make the call twice, each time in a store just opened: what Python itself reads, it reads at first."""
    for _ in range(2):
        with home.open() as store:
            before = _received()
            call(store)
            found = _received() - before
    return found - _cost_of_looking()


def _cost_of_looking() -> int:
    before = _received()
    return _received() - before


def _received() -> int:
    line = IO.read_text("ascii").splitlines()[0]
    return int(line.removeprefix("rchar: "))


def _from_server(home: Home, call: Call) -> int:
    with home.open() as store:
        with statements(store) as seen:
            call(store)
        pages = 0
        with store._database._engine.connect() as connection:
            newer = (connection.dialect.server_version_info or (0,)) >= SERIALIZES
            options = "ANALYZE, BUFFERS, FORMAT JSON" + (", SERIALIZE" if newer else "")
            for text, values in seen:
                if not text.startswith(("SELECT", "WITH")):
                    continue
                asked = f"EXPLAIN ({options}) {text}"
                told = connection.exec_driver_sql(asked, values).scalar_one()[0]
                parts = [told["Plan"], told.get("Serialization", {})]
                pages += sum(part.get(f"Shared {how} Blocks", 0) for part in parts for how in ("Hit", "Read"))
    return pages * PAGE


@contextmanager
def statements(store: RunStore) -> Iterator[list[tuple[str, Any]]]:
    """Give the statements that a store runs meanwhile, with their values."""
    seen: list[tuple[str, Any]] = []
    engine = store._database._engine
    send = Direct.send

    def send_noted(made: Direct, driver: object, values: Mapping[str, object]) -> object:
        seen.append((made.text, {**made.given, **values}))
        return send(made, driver, values)

    def note(_connection: object, _cursor: object, text: str, values: object, *_more: object) -> None:
        seen.append((text, values))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        with patch.object(Direct, "send", send_noted):
            yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
