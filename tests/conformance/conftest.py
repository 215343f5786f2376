"""The stores that the suite runs on."""

from __future__ import annotations

import pytest

from sites import MemorySite, Site


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def site(request: pytest.FixtureRequest) -> Site:
    """Give an empty store of each kind in turn."""
    if request.param == "memory":
        return MemorySite()
    found: Site = request.getfixturevalue(f"{request.param}_site")
    return found
