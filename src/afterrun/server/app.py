"""Apps: workflows by their names. A workflow is an async function that takes a context and its input.

::

    from afterrun.server.app import App

    app = App("shop")

    @app.workflow()
    async def greet(ctx, name):
        return await ctx.step("say hello", hello, name)
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from afterrun.core.errors import UsageError

Workflow: TypeAlias = Callable[..., Awaitable[Any]]
W = TypeVar("W", bound=Workflow)

LONGEST: Final = 200
"""Characters of a workflow's name."""


class App:
    """Knows workflows by name."""

    def __init__(self, name: str) -> None:
        """Begin with no workflow."""
        self.name = name
        self.workflows: dict[str, Workflow] = {}

    def workflow(self, name: str | None = None) -> Callable[[W], W]:
        """Register a function under a name, by default its own. Raises `UsageError`."""

        def register(function: W) -> W:
            known = name or function.__name__
            if not known.isprintable() or not 0 < len(known) <= LONGEST:
                raise UsageError(f"the name of a workflow is printable text of 1 to {LONGEST} characters")
            if known in self.workflows:
                raise UsageError(f"the app has two workflows of the name {known!r}")
            self.workflows[known] = function
            return function

        return register

    def name_of(self, workflow: str | Workflow) -> str:
        """Return the name of a workflow of this app. Raises `UsageError`."""
        for name, function in self.workflows.items():
            if workflow in (name, function):
                return name
        raise UsageError("the app has no such workflow: register it with @app.workflow()")


def load_app(reference: str) -> App:
    """Import an app, ``module:attribute`` or ``path.py:attribute``. Raises `UsageError`."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute.isidentifier():
        raise UsageError("an app is given as module:attribute or path.py:attribute")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    found = getattr(module, attribute, None)
    if not isinstance(found, App):
        raise UsageError(f"{attribute} in {place} is no App of afterrun.server.app")
    return found


def _from_file(path: Path) -> object:
    if not path.is_file():
        raise UsageError(f"there is no file {path} for the app")
    spec = importlib.util.spec_from_file_location(f"afterrun_app_{path.stem}", path.absolute())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.absolute().parent))  # as Python does for a script
    spec.loader.exec_module(module)
    return module


def _from_name(name: str) -> object:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise UsageError(f"there is no module {name} for the app") from None
        raise
