"""Names and patterns: which entries of a directory may be a run or a result. Pure functions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple
from urllib.parse import quote

from afterrun.core.facts import Reason
from afterrun.profiles.registry import NameCode

OURS: Final = ".afterrun"
"""How the names of all our own entries in a store begin."""

MAX_NAME_BYTES: Final = 255
URI_SAFE: Final = "-_.!~*'()"
"""What JavaScript's encodeURIComponent leaves as it is, beside letters and digits."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\.|$)", re.IGNORECASE)
_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}$")


class Proposal(NamedTuple):
    """An entry that discovery found: of which pattern, its path below the store, whether it is a folder."""

    source: int
    path: tuple[str, ...]
    folder: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One pattern, cut into its parts."""

    text: str
    parts: tuple[str, ...]
    folders: bool

    @classmethod
    def of(cls, text: str, *, folders: bool) -> Source:
        """Cut a pattern; ``folders`` says whether it names folders or files."""
        return cls(text, tuple(text.split("/")), folders)

    @property
    def fixed(self) -> int:
        """Return how many parts at the beginning are no pattern."""
        return next((i for i, part in enumerate(self.parts) if is_pattern(part)), len(self.parts))


def is_pattern(part: str) -> bool:
    """Say whether a part of a path stands for several names."""
    return any(mark in part for mark in "*?[")


def matches(name: str, pattern: str) -> bool:
    """Say whether a name fits one part of a pattern. What begins with a dot must be meant."""
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatchcase(name, pattern)


def unsafe(name: str) -> str:
    """Say why a name is no plain one; an empty text if it is."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return "it is no name of an entry"
    if not name.isprintable():
        surrogate = any("\ud800" <= char <= "\udfff" for char in name)
        return "it is not valid UTF-8" if surrogate else "it has control characters"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    return ""


def validate(proposal: Proposal, sources: Sequence[Source]) -> Reason | None:
    """Say why a proposal is not to be touched; nothing if it may be looked at.

    Raises `ValueError` for a path that its source cannot have proposed: discovery is wrong, not the store.
    """
    source = sources[proposal.source]
    path = proposal.path
    if len(path) != len(source.parts) or any(part in ("", ".", "..") or "/" in part for part in path):
        raise ValueError("discovery proposed a path outside the store")
    if not all(map(matches, path, source.parts)):
        raise ValueError("discovery proposed a path of another source")
    for part in path:
        if why := unsafe(part):
            return Reason("unsafe-name", f"{shown(part)!r}: {why}")
    if proposal.folder != source.folders:
        return Reason("unsafe-path", "it is no folder" if source.folders else "it is no plain file")
    return None


def shown(name: str) -> str:
    """Write a name so that it can be printed, and cut it."""
    return name.encode("utf-8", "backslashreplace").decode()[:120]


def spelled(run: str, code: NameCode) -> tuple[str, ...]:
    """Return the names that an engine may give to a file about a run; none for an id that has none."""
    if _PLAIN.fullmatch(run) and not _RESERVED.match(run):
        return (run,)
    if unsafe(run):
        return ()
    uri = quote(run, safe=URI_SAFE)
    if code == "plain":
        return (run,)
    if code == "uri":
        return (uri,)
    portable = (
        len(uri) <= MAX_NAME_BYTES
        and not uri.endswith(".")
        and not _RESERVED.match(uri)
        and not _ENDING.search(uri)
        and "%5c" not in uri.lower()
    )
    hashed = "~sha256-" + hashlib.sha256(run.encode()).hexdigest()
    return (uri,) if portable else (hashed, uri)


def filled(template: str, run: str, code: NameCode) -> tuple[tuple[str, ...], ...]:
    """Return the paths that a template may mean for a run."""
    return tuple(tuple(template.replace("{id}", name).split("/")) for name in spelled(run, code))
