"""Sizes are read and written in one way."""

from __future__ import annotations

import pytest

from afterrun import UsageError
from afterrun.core.sizes import format_size, parse_size

READ = [
    ("5GiB", 5 * 2**30),
    ("5 gib", 5 * 2**30),
    ("10MB", 10_000_000),
    ("1kB", 1_000),
    ("1KiB", 1_024),
    ("42", 42),
    ("42B", 42),
]


@pytest.mark.parametrize(("text", "size"), READ)
def test_sizes_are_read(text: str, size: int) -> None:
    """Binary and decimal units have names of their own."""
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.5GiB", "5G", "5 Gib s", "1" * 19])
def test_what_is_no_size_is_a_mistake_of_usage(text: str) -> None:
    """A unit that may be one or the other is not guessed."""
    with pytest.raises(UsageError, match="such as 5GiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(1023, "1023B"), (2**20, "1MiB"), (3 * 2**40, "3TiB"), (1500, "1500B")]
)
def test_sizes_are_written_in_the_largest_unit_that_is_exact(size: int, text: str) -> None:
    """So that one policy has one spelling."""
    assert format_size(size) == text
