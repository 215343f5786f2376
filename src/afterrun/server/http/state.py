"""Endpoints that say how the server is, and nothing of any run."""

from __future__ import annotations

from fastapi import APIRouter

from afterrun.server.answers import HealthAnswer, StateAnswer
from afterrun.server.host import Host
from afterrun.server.http.problems import responses


def state_of(host: Host) -> APIRouter:
    """Return the endpoints over a host."""
    router = APIRouter(prefix="/v1", tags=["state"])

    @router.get("/health", operation_id="health", responses=responses())
    def health() -> HealthAnswer:
        """Say whether the server takes work. Needs no token."""
        return HealthAnswer(ready=host.ready)

    @router.get("/state", operation_id="state", responses=responses())
    def state() -> StateAnswer:
        """Say how the server and its store are: counts and moments, of live runs and open work alone."""
        status, load = host.status(), host.store.pages.load()
        live = {f"runs_{word}": count for word, count in load.runs.items()}
        work = {f"open_{kind.replace('-', '_')}": count for kind, count in load.work.items()}
        return StateAnswer(
            ready=status.ready,
            counts={**live, **work, **status.counts},
            moments={"oldest_queued_at": load.oldest_queued, **status.moments},
        )

    return router
