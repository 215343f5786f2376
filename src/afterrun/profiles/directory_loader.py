"""Read profiles of directory stores, and tell from what is in a directory which of them it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from afterrun.core.errors import ProfileError, did_you_mean
from afterrun.profiles.directory import DirectoryProfile
from afterrun.profiles.loader import check_profile, read_profile_file

FOLDER: Final = "directories"
FOLDER_UNITS: Final = "directory"
"""The kind of units by which a profile is known to be of a directory."""


@cache
def directory_names() -> tuple[str, ...]:
    """Return the names of the package's own profiles of directory stores, sorted."""
    entries = files(__package__).joinpath(FOLDER).iterdir()
    return tuple(
        sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml"))
    )


@cache
def load_directory(name: str) -> DirectoryProfile:
    """Return one of the package's own profiles. Raises `ProfileError` for an unknown name."""
    known = directory_names()
    if name not in known:
        raise ProfileError(
            f"there is no profile {name[:40]!r} of a directory{did_you_mean(name, known)}; known: "
            f"{', '.join(known)}, or give a path that ends in .toml"
        )
    return check_profile(DirectoryProfile, directory_text(name), source=name)


def directory_text(name: str) -> str:
    """Return a built-in profile as it stands in its file, comments included."""
    return files(__package__).joinpath(FOLDER, f"{name}.toml").read_text(encoding="utf-8")


def load_directory_file(path: Path) -> DirectoryProfile:
    """Read a user's own profile. Raises `ProfileError` with every fault of the file."""
    return check_profile(DirectoryProfile, read_profile_file(path), source=str(path))


def detect_directory(has: Callable[[str], bool], profiles: Iterable[DirectoryProfile]) -> DirectoryProfile:
    """Return the one profile whose entries are all there; ``has`` says whether a pattern matches.

    Raises `ProfileError` for none or several.
    """
    known = list(profiles)
    found = [profile for profile in known if all(has(entry) for entry in profile.detect.entries)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(profile.name for profile in found))
        raise ProfileError(f"several profiles fit this directory: {names}; say which with --profile NAME")
    raise ProfileError(
        "no profile fits this directory: it has nothing of what the known engines make "
        f"({', '.join(sorted(profile.name for profile in known))}); describe it in a profile of your own and "
        "give that with --profile FILE"
    )
