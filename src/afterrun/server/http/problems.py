"""Errors as problem JSON (RFC 9457): a sentence for people, words for programs, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from afterrun.core.errors import (
    AfterrunError,
    BackupFailed,
    Refused,
    StoreFailure,
    StoreLocked,
    StoreUnreadable,
    UnitFailure,
    UnitNotFound,
    UsageError,
)
from afterrun.runs import NotFound, RunError, RunNotFound, WrongState
from afterrun.server.answers import ProblemAnswer

MEDIA_TYPE: Final = "application/problem+json"
SAID: Final = 10
"""Faults of one request that are said."""

KEY: Final = 40
"""Characters of a caller's own key that are repeated to it."""

DEEPEST: Final = 6
"""Keys of a place that are repeated."""

KINDS: Final[Sequence[tuple[type[AfterrunError], int, str]]] = (
    (UsageError, 422, "usage"),
    (StoreLocked, 423, "locked"),
    (Refused, 409, "refused"),
    (RunNotFound, 404, "run-not-found"),
    (NotFound, 404, "not-found"),
    (UnitNotFound, 404, "unit-not-found"),
    (WrongState, 409, "state"),
    (RunError, 409, "run"),
    (BackupFailed, 503, "backup"),
    (StoreUnreadable, 503, "unreadable"),
    (UnitFailure, 503, "store"),
    (StoreFailure, 503, "store"),
    (AfterrunError, 503, "error"),
)
"""Status and word for each class of error; the first that fits counts."""

SENTENCES: Final[Mapping[int, str]] = {
    400: "the request is no JSON that can be read",
    404: "there is nothing at this address",
    405: "this address knows no such method",
}
"""What people read in place of the framework's words."""


class Problem(Exception):
    """An answer other than what was asked for. ``headers`` are added to it."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str,
        reason: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.kind = kind
        self.reason = reason
        self.headers = dict(headers or {})
        super().__init__(detail)

    @property
    def body(self) -> bytes:
        """Return it as JSON in ASCII, so that any text can stand in it."""
        answer = ProblemAnswer(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail="",
            kind=self.kind,
            reason=self.reason,
        )
        return json.dumps(answer.model_dump() | {"detail": str(self)}).encode("ascii")

    def response(self) -> Response:
        """Return it as a response."""
        return Response(self.body, status_code=self.status, media_type=MEDIA_TYPE, headers=self.headers)


def problem_of(error: AfterrunError) -> Problem:
    """Return what an error is over HTTP. Its text is for people as it is."""
    status, kind = next((status, word) for known, status, word in KINDS if isinstance(error, known))
    reason = getattr(error, "reason", None) or getattr(error, "kind", None) or getattr(error, "status", None)
    return Problem(status, str(error), kind=kind, reason=None if reason is None else str(reason))


def answer_with_problems(app: FastAPI) -> None:
    """Turn every error of an application into a problem."""
    app.add_exception_handler(Problem, _own)
    app.add_exception_handler(AfterrunError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_framework)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says of these statuses, and of those that any request may have."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
    every = sorted({*statuses, 400, 401, 408, 413, 421, 422, 431, 503})
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in every}


async def _own(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - as it was registered
    return error.response()


async def _known(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AfterrunError)  # noqa: S101 - as it was registered
    return problem_of(error).response()


async def _invalid(_request: Request, error: Exception) -> Response:
    """Say every fault with its place. What was sent is not repeated, but for names of keys."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as it was registered
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return Problem(400, SENTENCES[400], kind="usage").response()
    lines = [f"{_place(fault['loc'])}: {_words(fault)}" for fault in faults[:SAID]]
    more = [f"and {len(faults) - SAID} more"] if len(faults) > SAID else []
    return Problem(422, "; ".join([*lines, *more]), kind="usage").response()


async def _of_framework(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as it was registered
    sentence = SENTENCES.get(error.status_code, "the request cannot be answered")
    return Problem(error.status_code, sentence, kind="usage", headers=error.headers).response()


def _place(parts: Iterable[object]) -> str:
    words = [str(part)[:KEY] for part in parts]
    said = words[1:] or words  # the first one says whether it is of the body, the path or the query
    return ".".join(said if len(said) <= DEEPEST else [*said[:DEEPEST], "..."])


def _words(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return "unknown key"
    return str(fault["msg"]).removeprefix("Value error, ")
