"""A host that runs nothing: a real store under real retention, for tests of what is around the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
from starlette.types import ASGIApp

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.sweep import Budget
from afterrun.runs import RunStore
from afterrun.server.host import Status
from afterrun.stores.sql.backups import BackupOrder

TOKEN: Final = "only-for-tests-0123456789abcdefghijklmnop"  # noqa: S105 - it opens nothing
BEARER: Final = {"authorization": f"Bearer {TOKEN}"}
MISSING: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
"""An id that no store has."""


@dataclass
class QueueingHost:
    """Takes what is asked and runs nothing. ``nudges`` counts how often it was told of work."""

    location: str
    store: RunStore
    state: Path
    policy: Policy = field(default_factory=lambda: Policy(keep_for=timedelta(days=30)))
    backups: Path | None = None
    nudges: int = 0

    def nudge(self) -> None:
        self.nudges += 1

    def status(self) -> Status:
        load = self.store.pages.load()
        return Status(ready=True, counts=load.runs, moments={"oldest_queued_at": load.oldest_queued})

    def plan(self, policy: Policy) -> Report:
        with self._retention() as retention:
            return retention.plan(policy)

    def prune(self, policy: Policy, *, budget: Budget, backup: BackupOrder | None) -> Report:
        with self._retention() as retention:
            return retention.prune(policy, options=SweepOptions(budget=budget), backup=backup)

    def sweep(self, policy: Policy, *, budget: Budget, approve: str | None) -> Report:
        with self._retention() as retention:
            return retention.sweep(policy, options=SweepOptions(budget=budget), approve=approve)

    def reclaim(self, *, apply: bool) -> Reclaim:
        with self._retention() as retention:
            return retention.reclaim(ReclaimOptions()) if apply else retention.survey_space()

    @contextmanager
    def _retention(self) -> Iterator[Retention]:
        with Retention(self.location, state=self.state) as retention:
            yield retention


class Caller:
    """Speaks to an ASGI application as httpx does over a wire, synchronously."""

    def __init__(self, app: ASGIApp) -> None:
        from starlette.testclient import TestClient  # noqa: PLC0415

        self._client = TestClient(app, base_url="http://localhost", headers=BEARER)

    def get(self, path: str, **words: Any) -> httpx.Response:
        return self._client.get(path, **words)

    def post(self, path: str, body: Mapping[str, object] | None = None, **words: Any) -> httpx.Response:
        return self._client.post(path, json=body if body is not None else {}, **words)
