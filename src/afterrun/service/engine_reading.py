"""What the engine itself reads in a store, as digests: written before a removal, and compared after it.

The engine runs in a process of its own, with the Python that has it, since only that can say what it makes
of what is left. It is the user who asks for that: nothing else here has an engine decode anything. The
programs are in ``afterrun/readers``; they are handed to that Python and never imported here. Each prints a
line for each thing that the engine reads, with its name and a digest of what the engine made of it, and no
value.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from afterrun.core.errors import Refused, StoreUnreadable, UsageError
from afterrun.reading import read_small_file

READERS: Final = ("duroxide", "langgraph")
"""Profiles whose engine can be asked, by programs of these names."""

FORMAT: Final = "afterrun-engine-reading/1"

MAX_READING: Final = 1 << 30
"""Bytes of a reading that is compared with."""

SECONDS: Final = 3_600.0
NAMED: Final = 20
TOLD: Final = 300
"""Things that differ and are named one by one, and characters of what a failed engine said."""


class Reading(BaseModel):
    """What an engine read of one store. It is input when it is compared with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["afterrun-engine-reading/1"]
    profile: str
    parts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Compared:
    """A reading beside an earlier one: counts, and a sentence for each fault."""

    equal: int
    gone: int
    new: int
    faults: tuple[str, ...]


def read_engine(location: str, profile: str, *, python: str | None = None) -> Reading:
    """Have the engine read the whole store. ``python`` is the interpreter that has it; default: this one.

    Raises `Refused` for a profile whose engine cannot be asked, `StoreUnreadable` if it fails.
    """
    if profile not in READERS:
        known = ", ".join(READERS)
        raise Refused("no-reader", f"the engine of the profile {profile} cannot be asked; known: {known}")
    script = files("afterrun").joinpath("readers", f"{profile}_reader.py").read_bytes()
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user names, with a program of our own
            [python or sys.executable, "-"],
            input=script,
            env={**os.environ, "AFTERRUN_ENGINE_STORE": location},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"the interpreter {python} cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise StoreUnreadable(f"the engine of {profile} did not finish reading within an hour") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        hint = "; name the Python that has the engine with --engine-python" if "No module" in said else ""
        raise StoreUnreadable(f"the engine of {profile} could not read the store: {said[:TOLD]}{hint}")
    return Reading(format=FORMAT, profile=profile, parts=dict(_parts(done.stdout)))


def _parts(output: bytes) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        if line.startswith(b"{"):
            told = json.loads(line)
            yield told["name"], told["digest"]


def load_reading(path: Path) -> Reading:
    """Read what an engine read before. Raises `UsageError` for any other file."""
    try:
        return Reading.model_validate_json(read_small_file(path, limit=MAX_READING))
    except OSError as error:
        raise UsageError(f"the reading {path} cannot be read: {error.strerror}") from None
    except ValidationError:
        raise UsageError(f"{path} is no reading that `afterrun verify --engine` wrote") from None


def save_reading(path: Path, reading: Reading) -> None:
    """Write a reading to a new file, mode 0600. Raises `UsageError` for a place that is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"the reading {path} cannot be made: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(reading.model_dump_json())


def compare(before: Reading, after: Reading) -> Compared:
    """Say whether everything that is still there reads as it did."""
    if before.profile != after.profile:
        raise UsageError(f"the reading is of a store of {before.profile}, this is one of {after.profile}")
    kept = before.parts.keys() & after.parts.keys()
    differing = sorted(name for name in kept if before.parts[name] != after.parts[name])
    faults = [f"the engine reads {name} otherwise than before" for name in differing[:NAMED]]
    if len(differing) > NAMED:
        faults.append(f"and {len(differing) - NAMED} more")
    return Compared(
        equal=len(kept) - len(differing),
        gone=len(before.parts) - len(kept),
        new=len(after.parts) - len(kept),
        faults=tuple(faults),
    )
