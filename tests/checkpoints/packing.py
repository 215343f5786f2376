"""MessagePack as the engine writes it, for payloads that no engine would write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAP, ARRAY = 0x80, 0x90


@dataclass(frozen=True)
class Ext:
    """An extension type: its code, and bytes that nobody may look into."""

    code: int
    data: bytes


NO_NAMES = Ext(0, b"\x93\xa8builtins\xa3set\x90")
"""An empty set, as the engine writes it."""


def pack(value: Any) -> bytes:  # noqa: ANN401, PLR0911 - one kind of value after another
    """Write a value."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, str):
        return _sized(value.encode(), (0xD9, 0xDA, 0xDB), small=0xA0)
    if isinstance(value, bytes):
        return _sized(value, (0xC4, 0xC5, 0xC6))
    if isinstance(value, Ext):
        sizes = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
        code = value.code.to_bytes(1)
        if len(value.data) in sizes:
            return sizes[len(value.data)].to_bytes(1) + code + value.data
        return _sized(value.data, (0xC7, 0xC8, 0xC9), between=code)
    if isinstance(value, dict):
        inside = b"".join(pack(key) + pack(item) for key, item in value.items())
        return _counted(len(value), MAP, (0xDE, 0xDF)) + inside
    return _counted(len(value), ARRAY, (0xDC, 0xDD)) + b"".join(map(pack, value))


def _number(value: int) -> bytes:
    if -32 <= value < 128:
        return value.to_bytes(1, signed=value < 0)
    lead = 0xD3 if value < 0 else 0xCF
    return lead.to_bytes(1) + value.to_bytes(8, signed=value < 0)


def _sized(data: bytes, leads: tuple[int, int, int], *, small: int = 0, between: bytes = b"") -> bytes:
    if small and len(data) < 32:
        return (small | len(data)).to_bytes(1) + data
    for lead, size in zip(leads, (1, 2, 4), strict=True):
        if len(data) < 256**size:
            return lead.to_bytes(1) + len(data).to_bytes(size) + between + data
    raise ValueError(len(data))


def _counted(count: int, small: int, large: tuple[int, int]) -> bytes:
    if count < 16:
        return (small | count).to_bytes(1)
    size = 2 if count < 65_536 else 4
    return large[0 if size == 2 else 1].to_bytes(1) + count.to_bytes(size)


def checkpoint(**parts: object) -> dict[str, object]:
    """Return a checkpoint of a graph of nodes and edges that is done, with other parts as given."""
    return {
        "v": 4,
        "ts": "2026-01-01T00:00:00+00:00",
        "id": "1f0b22e4-7038-6ac7-8001-c4ceaf710b32",
        "channel_values": {"said": ["hello"]},
        "channel_versions": {"__start__": "2.0", "said": "3.0", "branch:to:answer": "3.0"},
        "versions_seen": {"__input__": {}, "answer": {"branch:to:answer": "2.0"}},
        "updated_channels": ["said"],
        **parts,
    }
