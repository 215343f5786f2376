"""A host that runs nothing: a real store under real retention, for tests of what is around the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
from starlette.types import ASGIApp

from afterrun import Policy, Report, Retention, SweepOptions
from afterrun.core.space import Reclaim, ReclaimOptions
from afterrun.core.sweep import Budget
from afterrun.runs import RunStore
from afterrun.server.host import Status
from afterrun.server.http.app import api
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
    ready: bool = True

    @cached_property
    def app(self) -> ASGIApp:
        return self.guarded(TOKEN)

    def guarded(self, token: str) -> ASGIApp:
        return api(self, token=token)

    def nudge(self) -> None:
        self.nudges += 1

    def look_for_work(self) -> None:
        self.nudges += 1

    def status(self) -> Status:
        return Status(ready=self.ready, counts={"finished": 0}, moments={"started_at": None})

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

    def sweep_away(self) -> None:
        """Remove all that has ended, whatever its age."""
        with self._retention() as retention:
            retention.prune(Policy(keep_for=timedelta(microseconds=1), grace=timedelta(0)))

    @contextmanager
    def _retention(self) -> Iterator[Retention]:
        with Retention(self.location, state=self.state) as retention:
            yield retention


class Caller:
    """Speaks to an ASGI application as httpx does over a wire."""

    def __init__(self, app: ASGIApp) -> None:
        self._transport = httpx.ASGITransport(app=app)

    def get(self, path: str, **query: str | int | bool) -> httpx.Response:
        return anyio.run(partial(self._ask, "GET", path, params=query))

    def post(self, path: str, body: Mapping[str, object] | None = None) -> httpx.Response:
        return anyio.run(partial(self._ask, "POST", path, json={} if body is None else body))

    def send(self, path: str, content: bytes) -> httpx.Response:
        head = {"content-type": "application/json"}
        return anyio.run(partial(self._ask, "POST", path, content=content, headers=head))

    async def _ask(self, method: str, path: str, **words: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        here = "http://localhost"
        async with httpx.AsyncClient(transport=self._transport, base_url=here, headers=BEARER) as client:
            return await client.request(method, path, **words)
