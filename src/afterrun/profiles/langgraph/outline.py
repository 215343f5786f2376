"""The outline of one checkpoint: which channels hold a value, never what value.

Both savers come to the same outline. SQLite keeps a whole checkpoint as MessagePack; PostgreSQL keeps it as
JSON, with most values in a table of their own, of which the store fetches the first bytes where they matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from afterrun.profiles.langgraph import walk
from afterrun.profiles.langgraph.walk import MAX_LISTED, Malformed

MAX_PAYLOAD: Final = 16 * 2**20
"""Bytes of a checkpoint that is looked into. A larger one stays, with its thread."""

PEEK: Final = 64
"""First bytes of a value that are kept: enough to tell an empty one."""

NIL: Final = b"\xc0"
SNAPSHOT: Final = 7
"""The engine's extension type for what a DeltaChannel has gathered so far."""

FIRST_KEY: Final = b"\xa1v"
"""What the engine writes first: the version of the format."""

Versions: TypeAlias = "Mapping[str, object]"
"""Versions of channels by name, each as it is stored: they are compared, and only with their like."""

NEWEST: Final = 4
"""Version of the format from which the names of channels say what they trigger."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What decides of a checkpoint.

    Attributes:
        version: of the format, or ``None``.
        values: channels that hold a value, each with its first bytes.
        versions: of every channel that was ever written.
        seen: the versions that each node ran for; left out in the newest format, where nothing needs them.
        snapshot: whether a channel holds what a DeltaChannel has gathered.
    """

    version: int | None
    values: Mapping[str, bytes] = field(default_factory=dict)
    versions: Versions = field(default_factory=dict)
    seen: Mapping[str, Versions] = field(default_factory=dict)
    snapshot: bool = False


def outline(data: bytes) -> Outline:
    """Read a checkpoint as the SQLite saver keeps it. Raises `Malformed`."""
    if len(data) > MAX_PAYLOAD:
        raise Malformed("it is too large to be looked into")
    try:
        return _outline(data)
    except IndexError:
        raise Malformed("it ends too early") from None
    except UnicodeDecodeError:
        raise Malformed("a name is no UTF-8") from None


def _outline(data: bytes) -> Outline:
    version: int | None = None
    parts: dict[bytes, dict[str, bytes]] = {}
    seen: dict[str, Versions] | None = None
    count, place = walk.fields(data, 0)
    for _ in range(count):
        key, place = walk.name(data, place)
        if key in parts:
            raise Malformed("a name stands twice")
        if key in _PARTS:
            parts[key], place = walk.entries(data, place, PEEK)
            continue
        if key == b"v":
            version = walk.small_number(data, place)
        elif key == b"versions_seen" and version != NEWEST:
            seen, place = _seen(data, place)
            continue
        place = walk.skip(data, place)
    walk.finish(data, place)
    if parts.keys() != _PARTS or (seen is None and version != NEWEST):
        raise Malformed("it is no checkpoint")
    values = parts[b"channel_values"]
    snapshot = any(_extension(value) == SNAPSHOT for value in values.values())
    return Outline(version, values, parts[b"channel_versions"], seen or {}, snapshot)


def _seen(data: bytes, place: int) -> tuple[dict[str, Versions], int]:
    """Read the versions that each node ran for."""
    found: dict[str, Versions] = {}
    count, place = walk.fields(data, place)
    for _ in range(count):
        node, place = walk.name(data, place)
        found[node.decode()], place = walk.entries(data, place, PEEK)
    if len(found) != count:
        raise Malformed("a name stands twice")
    return found, place


def version_of_prefix(data: bytes) -> int | None:
    """Return the version of the format from the first bytes of a checkpoint; ``None`` if it is not first."""
    if data[1:3] != FIRST_KEY or len(data) < 4:  # noqa: PLR2004  # a small map, its first key, its value
        return None
    return data[3] if data[0] & 0xF0 == 0x80 and data[3] < 0x80 else None  # noqa: PLR2004  # the same


def outline_of_json(text: str, blobs: Mapping[str, bytes]) -> Outline:
    """Read a checkpoint as the PostgreSQL saver keeps it. Raises `Malformed`.

    ``blobs`` are the first bytes of values that lie in the other table, by channel.
    """
    if len(text) > MAX_PAYLOAD:
        raise Malformed("it is too large to be looked into")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("it is no JSON that can be read") from None
    inline = _mapping(found, "channel_values")
    return Outline(
        version=_whole(found.get("v")),
        values={**dict.fromkeys(inline, NIL), **blobs},
        versions=_mapping(found, "channel_versions"),
        seen={node: _plain(seen) for node, seen in _mapping(found, "versions_seen").items()},
    )


def _mapping(found: object, name: str) -> Mapping[str, Any]:
    part = found.get(name) if isinstance(found, dict) else None
    return _plain(part)


def _plain(part: object) -> Mapping[str, Any]:
    if not isinstance(part, dict) or len(part) > MAX_LISTED:
        raise Malformed("it is no checkpoint")
    return part


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_PARTS: Final = {b"channel_values", b"channel_versions"}

_FIXED_EXTENSIONS: Final = frozenset(range(0xD4, 0xD9))
_EXTENSIONS: Final = {0xC7: 2, 0xC8: 3, 0xC9: 5}
"""Lead bytes of extension types, each with where its code stands."""


def _extension(value: bytes) -> int | None:
    """Return the code of an extension type, or ``None`` for any other value."""
    lead = value[0] if value else 0
    at = 1 if lead in _FIXED_EXTENSIONS else _EXTENSIONS.get(lead, 0)
    return value[at] if 0 < at < len(value) else None
