"""The application: every group of endpoints over one host, behind the guard."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fastapi import FastAPI
from starlette.types import ASGIApp

from afterrun.server.answers import ProblemAnswer
from afterrun.server.desk import StoreDesk
from afterrun.server.host import Host
from afterrun.server.http.bodies import MAX_BODY, Bodies
from afterrun.server.http.guard import HEALTH, LOOPBACK, Guard
from afterrun.server.http.problems import answer_with_problems
from afterrun.server.http.retention import retention_of
from afterrun.server.http.runs import runs_of
from afterrun.server.http.state import state_of

OPENAPI: Final = "/v1/openapi.json"
ABOUT: Final = "Runs of a workflow server: start, look, answer, cancel, and what retention does with them."


def api(host: Host, *, token: str, hosts: Collection[str] = LOOPBACK, most: int = MAX_BODY) -> ASGIApp:
    """Return the API over a host as an ASGI application.

    Every request but that for its health brings ``token`` in the ``Authorization`` header, and names one of
    ``hosts``. ``most`` bounds the bytes of a body.
    """
    return Guard(Bodies(application(host), most=most), token=token, hosts=hosts)


def application(host: Host) -> FastAPI:
    """Return the bare application, without a guard: what the OpenAPI document is made of."""
    app = FastAPI(
        title="afterrun",
        version="1",
        description=ABOUT,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    answer_with_problems(app)
    desk = StoreDesk(host.store, nudge=host.nudge, queued=host.look_for_work)
    for router in (state_of(host), runs_of(desk), retention_of(host)):
        app.include_router(router)
    made = app.openapi
    app.openapi = lambda: _completed(made())  # type: ignore[method-assign] # as FastAPI's pages have it
    return app


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """Add the token, and the model of a problem."""
    parts = document.setdefault("components", {})
    parts.setdefault("schemas", {})["ProblemAnswer"] = ProblemAnswer.model_json_schema()
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    document["paths"][HEALTH]["get"]["security"] = []
    return document
