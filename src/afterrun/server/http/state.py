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
        """Say how the server is: counts and moments."""
        status = host.status()
        return StateAnswer(ready=status.ready, counts=dict(status.counts), moments=dict(status.moments))

    return router
