"""Open a directory as a store: by a profile's name or file, or by what is in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from afterrun.profiles.directory import DirectoryProfile
from afterrun.profiles.directory_loader import (
    detect_directory,
    directory_names,
    load_directory,
    load_directory_file,
)
from afterrun.stores.directory.site import Root
from afterrun.stores.directory.store import DirectoryStore


def is_directory(location: str) -> bool:
    """Say whether a location is a directory, and no URL or file."""
    return "://" not in location and "\0" not in location and Path(location).is_dir()


def open_directory(
    location: str,
    *,
    profile: str | None = None,
    trash: timedelta | None = None,
    break_token: str | None = None,
) -> DirectoryStore:
    """Open the directory at a path. Raises `StoreUnreadable` or `ProfileError`."""
    root = Root(location)
    try:
        if profile is not None:
            chosen = read_directory_profile(profile)
        else:
            chosen = detect_directory(root.has, map(load_directory, directory_names()))
        return DirectoryStore(root, chosen, trash=trash, break_token=break_token)
    except BaseException:
        root.close()
        raise


def read_directory_profile(profile: str) -> DirectoryProfile:
    """Return a profile of a directory by its name or by the path of its file. Raises `ProfileError`."""
    if profile.endswith(".toml") or "/" in profile:
        return load_directory_file(Path(profile))
    return load_directory(profile)
