"""Read a profile of either kind: of a database, or of a directory."""

from __future__ import annotations

import tomllib
from pathlib import Path

from afterrun.profiles import Profile, built_in_names, load_built_in
from afterrun.profiles.directory import DirectoryProfile
from afterrun.profiles.directory_loader import FOLDER_UNITS, directory_names, load_directory
from afterrun.profiles.loader import check_profile, read_profile_file
from afterrun.stores.open import read_profile


def read_any_profile(profile: str) -> Profile | DirectoryProfile:
    """Return a profile by its name or by the path of its file. Raises `ProfileError`."""
    if profile in directory_names() and profile not in built_in_names():
        return load_directory(profile)
    if profile.endswith(".toml") or "/" in profile:
        text = read_profile_file(Path(profile))
        if _is_of_directory(text):
            return check_profile(DirectoryProfile, text, source=profile)
    return read_profile(profile)


def built_in() -> list[Profile]:
    """Return the package's own profiles of databases."""
    return [load_built_in(name) for name in built_in_names()]


def built_in_directories() -> list[DirectoryProfile]:
    """Return the package's own profiles of directories."""
    return [load_directory(name) for name in directory_names()]


def _is_of_directory(text: str) -> bool:
    """Say whether a profile has folders for units; one that is malformed is told of as of a database."""
    try:
        units = tomllib.loads(text).get("units")
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return isinstance(units, dict) and FOLDER_UNITS in units
