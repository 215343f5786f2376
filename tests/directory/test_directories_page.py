"""The page on directories: what it says is so, and all there is stands in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from afterrun.profiles import directory as model
from afterrun.profiles.directory import DirectoryProfile
from afterrun.profiles.directory_loader import directory_names, load_directory, load_directory_file
from afterrun.profiles.registry import NameCode
from afterrun.profiles.words import Model
from afterrun.stores import directory as package

PAGE = Path(__file__).resolve().parents[2] / "docs" / "directories.md"


def words() -> set[str]:
    """Return all words that stand in code marks outside examples."""
    page = re.sub(r"```.*?```", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    return set(re.findall(r"[A-Za-z_-]+", " ".join(re.findall(r"`([^`]+)`", page))))


def test_every_key_of_a_directory_profile_is_documented() -> None:
    """A key that the model accepts stands on the page."""
    models = [
        part
        for part in vars(model).values()
        if isinstance(part, type) and issubclass(part, Model) and part is not Model
    ]
    keys = {name for part in models for name in _keys(part)}
    assert {"runs", "entries", "expires", "tombstone"} <= keys
    assert keys - words() == set()


def _keys(part: type[BaseModel]) -> set[str]:
    return set(part.model_fields)


def test_every_reason_is_documented() -> None:
    """A reason that code or a profile gives stands on the page."""
    source = "".join(path.read_text("utf-8") for path in Path(package.__path__[0]).glob("*.py"))
    given = set(re.findall(r'Reason\(\s*"([a-z-]+)"', source))
    profiles = [load_directory(name) for name in directory_names()]
    given |= {part.reason for profile in profiles for part in profile.units.directory.protect}
    assert {"mount-point", "undelivered", "wait-reference"} <= given
    assert given - words() == set()


def test_every_kind_of_reference_and_spelling_is_documented() -> None:
    """So are the profiles."""
    kinds = {name for part in get_args(get_args(model.Reference)[0]) for name in _kind(part)}
    assert "recovery" in kinds
    assert (kinds | set(get_args(NameCode)) | set(directory_names())) - words() == set()


def _kind(part: type[BaseModel]) -> tuple[str, ...]:
    return get_args(part.model_fields["kind"].annotation)


def test_the_example_is_a_profile(tmp_path: Path) -> None:
    """The page's own profile passes the loader."""
    example = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "example.toml").write_text(example[0])
    assert load_directory_file(tmp_path / "example.toml").name == "my-agents"
    assert isinstance(load_directory("hydra"), DirectoryProfile)
