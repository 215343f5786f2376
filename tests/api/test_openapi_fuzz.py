"""Requests that are made up from the OpenAPI document: none is a server error, and none is undocumented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from afterrun.runs import RunStore
from api.api_kit import BEARER, QueueingHost
from runs.runs_kit import KEYS

SOAK: Final = os.environ.get("AFTERRUN_SOAK") == "1"
EXAMPLES: Final = 500 if SOAK else 5
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
HERE: Final = {**BEARER, "host": "localhost"}
FEWEST: Final = 16


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueingHost]:
    """Give a host whose store has a few runs."""
    folder = tmp_path_factory.mktemp("fuzzed")
    with RunStore.open(str(folder / "runs.sqlite"), sealing=KEYS) as store:
        run = store.create("known", content=b"1").run.id
        store.start(run)
        store.steps.complete(store.steps.start(run, "think"), output=b"2")
        store.decisions.ask(run, "which way?")
        store.create("ended")
        yield QueueingHost(str(folder / "runs.sqlite"), store, folder / "state", backups=_made(folder))


def _made(folder: Path) -> Path:
    path = folder / "backups"
    path.mkdir()
    return path


@pytest.mark.slow
@pytest.mark.timeout(3_600 if SOAK else 120)
def test_no_made_up_request_is_a_server_error(fuzzed: QueueingHost) -> None:
    """Whatever fits the document, and whatever does not, is answered as the document says."""
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", fuzzed.app, headers=HERE)
    known = [run.id for run in fuzzed.store.newest()]
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= FEWEST
    tried = sum(_tried(operation, mode, known) for operation in operations for mode in GenerationMode)
    assert tried >= FEWEST * EXAMPLES


def _tried(operation: Any, mode: GenerationMode, known: list[str]) -> int:  # noqa: ANN401 - untyped
    """Try an operation with what fits it or what does not, and return how often."""
    tried = 0

    @settings(
        max_examples=EXAMPLES,
        derandomize=not SOAK,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), run=st.sampled_from([None, *known]))
    def one(case: Any, run: str | None) -> None:  # noqa: ANN401 - untyped
        if run is not None and "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = run
        nonlocal tried
        tried += 1
        case.call_and_validate(headers=HERE, checks=CHECKS)

    with suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
        one()
    return tried
