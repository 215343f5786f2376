"""Intents: units whose rows in other databases are about to go, kept until both databases agree.

One small file a store beside its other memory, there only while something is open. Whoever writes it holds
the store's sweep lock. It has ids of runs in it, and is readable by nobody else.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from afterrun.core.errors import StoreFailure
from afterrun.core.facts import Key
from afterrun.core.times import Instant
from afterrun.reading import read_small_file
from afterrun.state.files import MAX_STATE_BYTES, StateDirectory, StateError, replacing
from afterrun.stores.sql.elsewhere import Intent


class _Entry(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    unit: int | str
    members: int
    digest: str
    end: Instant | None
    held: dict[str, int]


class _Contents(BaseModel):
    model_config = ConfigDict(extra="ignore")

    identity: str
    places: dict[str, str] = Field(default_factory=dict)
    intents: list[_Entry] = Field(default_factory=list)


class Intents:
    """The intents of one store. It is the `Memory` of batches that reach other databases."""

    def __init__(self, directory: StateDirectory, identity: str) -> None:
        """Name the store; nothing is read yet."""
        self._identity = identity
        memory = directory.file_of(identity)
        self.path: Path = memory.with_name(f"{memory.stem}.intents.json")

    def pending(self) -> Sequence[Intent]:
        """Return what no batch has settled, the oldest first. Raises `StateError`."""
        return [
            Intent(entry.unit, entry.members, entry.digest, entry.end, entry.held)
            for entry in self._load().intents
        ]

    def places(self) -> Mapping[str, str]:
        """Return the other databases of what is pending: what names each, and its URL."""
        return self._load().places

    def record(self, intents: Sequence[Intent], *, places: Mapping[str, str]) -> Collection[Key]:
        """Remember units durably; return those that were not remembered yet. Raises `StoreFailure`.

        What was remembered before stays as it was: it says more.
        """
        try:
            contents = self._load()
            known = {entry.unit for entry in contents.intents}
            fresh = [_Entry.model_validate(asdict(intent)) for intent in intents if intent.unit not in known]
            contents.intents.extend(fresh)
            contents.places.update(places)
            self._replace(contents)
            _sync_folder(self.path.parent)
        except (StateError, OSError) as error:
            raise StoreFailure("state", f"afterrun's state directory cannot be written: {error}") from None
        return [entry.unit for entry in fresh]

    def forget(self, units: Collection[Key]) -> None:
        """Forget units. A failure leaves them in the file: the next start finds that they are settled."""
        with suppress(StateError, OSError):
            contents = self._load()
            if not contents.intents:
                return
            settled = set(units)
            contents.intents = [entry for entry in contents.intents if entry.unit not in settled]
            if contents.intents:
                self._replace(contents)
            else:
                self.path.unlink()

    def _load(self) -> _Contents:
        try:
            contents = _Contents.model_validate_json(read_small_file(self.path, limit=MAX_STATE_BYTES))
        except FileNotFoundError:
            return _Contents(identity=self._identity)
        except OSError as error:
            raise StateError(f"the state file {self.path} cannot be read: {error.strerror}") from None
        except ValidationError:
            raise StateError(
                f"the state file {self.path} is damaged. It lists runs that an interrupted removal was "
                "removing from two databases; if you move it away, nobody looks after them"
            ) from None
        if contents.identity != self._identity:
            raise StateError(f"the state file {self.path} is that of another store; move it away")
        return contents

    def _replace(self, contents: _Contents) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(self.path) as file:
            file.write_text(contents.model_dump_json(), encoding="utf-8")


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file as durable as its content."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
