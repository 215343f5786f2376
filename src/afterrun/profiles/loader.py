"""Read profiles: those of the package by name, or a user's own file. Both take the same path."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from afterrun.core.errors import ProfileError, did_you_mean
from afterrun.profiles.model import Profile
from afterrun.reading import read_small_file

MAX_PROFILE_BYTES: Final = 262_144
Described = TypeVar("Described", bound=BaseModel)
"""A model of profiles: of stores in SQL, or of directories."""


@cache
def built_in_names() -> tuple[str, ...]:
    """Return the names of the package's own profiles, sorted."""
    names = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def load_built_in(name: str) -> Profile:
    """Return one of the package's own profiles. Raises `ProfileError` for an unknown name."""
    if name not in built_in_names():
        raise ProfileError(
            f"there is no profile {name[:40]!r}{did_you_mean(name, built_in_names())}; "
            f"known: {', '.join(built_in_names())}, or give a path that ends in .toml"
        )
    return load_profile(built_in_text(name), source=name)


def built_in_text(name: str) -> str:
    """Return a built-in profile as it stands in its file, comments included."""
    load_name = files(__package__).joinpath(f"{name}.toml")
    return load_name.read_text(encoding="utf-8")


def load_file(path: Path) -> Profile:
    """Read a user's own profile. Raises `ProfileError` with every fault of the file."""
    return load_profile(read_profile_file(path), source=str(path))


def read_profile_file(path: Path) -> str:
    """Return the text of a user's own profile. Raises `ProfileError`."""
    try:
        raw = read_small_file(path, limit=MAX_PROFILE_BYTES)
    except OSError as error:
        raise ProfileError(f"the profile {path} cannot be read: {error.strerror}") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ProfileError(f"the profile {path} is not UTF-8 text") from None


def load_profile(text: str, *, source: str) -> Profile:
    """Check the text of a profile. ``source`` names it in messages. Raises `ProfileError`."""
    return check_profile(Profile, text, source=source)


def check_profile(model: type[Described], text: str, *, source: str) -> Described:
    """Check the text of a profile against one of the models. Raises `ProfileError`."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProfileError(f"the profile {source} is not valid TOML: {error}") from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ProfileError(f"the profile {source} is not valid", problems=_problems(error, model)) from None


def _problems(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    faults = error.errors(include_url=False, include_input=False)
    for fault in faults:
        if fault["type"] == "too_short" and any(
            len(other["loc"]) > len(fault["loc"]) and other["loc"][: len(fault["loc"])] == fault["loc"]
            for other in faults
        ):
            continue  # only because its faulty items were left out
        place = [
            part for part in fault["loc"] if isinstance(part, int) or not str(part).startswith("function")
        ]
        path = ".".join(str(part) for part in place) or "profile"
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + did_you_mean(str(place[-1]), _keys_at(model, place[:-1]))
        yield f"{path}: {message}"


def _keys_at(root: type[BaseModel], place: list[int | str]) -> list[str]:
    """Return the keys that the model knows at a place of the file."""
    model: type[BaseModel] | None = root
    for part in place:
        if model is None or isinstance(part, int):
            continue
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        model = model if field is None else _model_in(field.annotation)
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - typing has no type for annotations
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, tuple, dict):
        return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
    return None
