"""The reader of payloads: it tells which channels hold a value, and builds nothing of what they hold."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterrun.profiles.langgraph import (
    MAX_PAYLOAD,
    PEEK,
    Malformed,
    Outline,
    outline,
    outline_of_json,
    version_of_prefix,
)
from afterrun.profiles.langgraph.walk import MAX_DEPTH, MAX_LISTED
from checkpoints.packing import Ext, checkpoint, pack

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=400),
    st.binary(max_size=300),
    st.builds(Ext, st.integers(0, 127), st.binary(max_size=300)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=40), inner, max_size=20)
    ),
    max_leaves=30,
)
NAMES = st.text(max_size=60)


class Trap:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@given(
    values=st.dictionaries(NAMES, VALUES, max_size=40),
    versions=st.dictionaries(NAMES, st.one_of(st.text(max_size=49), st.integers(0, 2**40)), max_size=40),
)
def test_names_and_first_bytes_are_those_that_were_written(
    values: dict[str, Any], versions: dict[str, Any]
) -> None:
    """Whatever channels hold, the outline has their names and the first bytes of each."""
    found = outline(pack(checkpoint(channel_values=values, channel_versions=versions)))
    assert found.values == {name: pack(value)[:PEEK] for name, value in values.items()}
    assert found.versions == {name: pack(version)[:PEEK] for name, version in versions.items()}
    assert found.version == 4


@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    """Bytes that nobody wrote are refused by the one error that says so."""
    _read(data)


@given(values=st.dictionaries(NAMES, VALUES, max_size=6), at=st.integers(0), change=st.integers(1, 255))
def test_a_damaged_payload_is_read_or_malformed(values: dict[str, Any], at: int, change: int) -> None:
    """A payload with one wrong byte, or cut off, breaks nothing."""
    data = pack(checkpoint(channel_values=values))
    place = at % len(data)
    _read(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])
    with pytest.raises(Malformed):
        outline(data[:place])


def _read(data: bytes) -> Outline | None:
    try:
        return outline(data)
    except Malformed:
        return None


def test_a_planted_pickle_is_not_run(tmp_path: Path) -> None:
    """Bytes that would make a file for whoever unpickles them are passed by."""
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    for planted in (trap, Ext(5, trap), Ext(0, pack(["pathlib", "Path.touch", str(tmp_path / "sprung")]))):
        found = outline(pack(checkpoint(channel_values={"said": planted})))
        assert set(found.values) == {"said"}
    with pytest.raises(Malformed):
        outline(trap)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lead", [b"\x91", b"\x81\xa1k", b"\xdd\x00\x00\x00\x01"])
def test_deep_nesting_is_refused(lead: bytes) -> None:
    """Containers within containers are followed so far, without Python's own stack, and no further."""
    inside = lead * (MAX_DEPTH - 10) + b"\xc0"
    assert outline(_with_value(inside)).values
    for depth in (MAX_DEPTH + 2, 100_000):
        with pytest.raises(Malformed, match="deep"):
            outline(_with_value(lead * depth + b"\xc0"))


def _with_value(value: bytes) -> bytes:
    """Return a checkpoint with one channel that holds these bytes."""
    mark = Ext(9, b"the value")
    return pack(checkpoint(channel_values={"said": mark})).replace(pack(mark), value)


def test_a_huge_payload_is_refused_unread() -> None:
    """What is larger than the limit is not looked into at all."""
    with pytest.raises(Malformed, match="large"):
        outline(pack(checkpoint(channel_values={"said": b"x" * MAX_PAYLOAD})))
    with pytest.raises(Malformed, match="large"):
        outline_of_json("[" * (MAX_PAYLOAD + 1), {})


@pytest.mark.parametrize(
    "value",
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x05"],
)
def test_a_count_that_lies_costs_nothing(value: bytes) -> None:
    """A container that claims four thousand million entries ends with the bytes."""
    began = time.monotonic()
    with pytest.raises(Malformed):
        outline(_with_value(value))
    assert time.monotonic() - began < 5.0


def test_too_many_names_are_refused() -> None:
    """A map of more channels than any graph has is not listed."""
    with pytest.raises(Malformed, match="too many"):
        outline(pack(checkpoint(channel_values={f"c{n}": None for n in range(MAX_LISTED + 1)})))


@pytest.mark.parametrize("part", ["channel_values", "channel_versions", "versions_seen"])
def test_a_part_of_another_kind_is_refused(part: str) -> None:
    """A checkpoint whose channels are no map is none, and neither is one without them."""
    with pytest.raises(Malformed):
        outline(pack(checkpoint(v=3, **{part: ["said"]})))
    with pytest.raises(Malformed):
        outline(pack({key: value for key, value in checkpoint(v=3).items() if key != part}))


def test_a_name_that_stands_twice_is_refused() -> None:
    """Two values of one channel are ambiguous."""
    once = pack({"said": 1})
    twice = b"\x82" + once[1:] + once[1:]
    with pytest.raises(Malformed, match="twice"):
        outline(pack(checkpoint()).replace(pack(checkpoint()["channel_values"]), twice))


def test_something_behind_the_checkpoint_is_refused() -> None:
    """A payload ends where its map does."""
    with pytest.raises(Malformed, match="end"):
        outline(pack(checkpoint()) + b"\xc0")


def test_the_version_stands_in_the_first_bytes() -> None:
    """The version of the format is told without the payload, where the engine writes it first."""
    assert version_of_prefix(pack(checkpoint())[:8]) == 4
    assert version_of_prefix(pack(checkpoint(v=1))[:8]) == 1
    assert version_of_prefix(pack({"id": "x", **checkpoint()})[:8]) is None
    for data in (b"", b"\x87", b"\x87\xa1v", b"\x87\xa1v\xcd\x01\x00"):
        assert version_of_prefix(data) is None


def test_a_snapshot_is_told_by_its_extension_type() -> None:
    """What a DeltaChannel has gathered is marked by a type, which is seen and not opened."""
    for size in (3, 8, 200, 70_000):
        found = outline(pack(checkpoint(channel_values={"numbers": Ext(7, b"x" * size)})))
        assert found.snapshot
    assert not outline(pack(checkpoint(channel_values={"numbers": Ext(5, b"x" * 8)}))).snapshot


def test_json_comes_to_the_same_outline() -> None:
    """Both savers' payloads of one checkpoint name the same channels."""
    both = checkpoint()
    packed, read = outline(pack(both)), outline_of_json(json.dumps(both), {})
    assert packed.values.keys() == read.values.keys()
    assert packed.versions.keys() == read.versions.keys()
    assert packed.version == read.version


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", "[" * 100_000, '{"channel_values": 1}', "1" * 10_000]
)
def test_json_that_is_no_checkpoint_is_refused(text: str) -> None:
    """Any other JSON is malformed, however deep it is nested."""
    with pytest.raises(Malformed):
        outline_of_json(text, {})
