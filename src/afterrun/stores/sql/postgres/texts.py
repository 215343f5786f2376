"""Text of databases whose encoding is not UTF-8, or that have none."""

from __future__ import annotations

import codecs
from typing import Any, Final

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.types.string import TextLoader

ANY_BYTES: Final = "SQL_ASCII"
"""The encoding of a database that takes any bytes for text."""


class AnyText(Loader):
    """Reads text that may be no UTF-8: such bytes become lone surrogates, which no key may hold."""

    def load(self, data: Buffer) -> str:
        """Return the text."""
        return bytes(data).decode("utf-8", "surrogateescape")


class AnyTextDumper(Dumper):
    """Writes such text back as the bytes it came from."""

    def dump(self, obj: str) -> Buffer:
        """Return the bytes."""
        return obj.encode("utf-8", "surrogateescape")


class Unpadded(TextLoader):
    """Reads text of a fixed width without the blanks that fill it: they count for nothing."""

    def load(self, data: Buffer) -> str:
        """Return the text."""
        return str(super().load(bytes(data).rstrip(b" ")))


class UnpaddedAnyText(AnyText):
    """Reads such text from a database that takes any bytes."""

    def load(self, data: Buffer) -> str:
        """Return the text."""
        return super().load(bytes(data).rstrip(b" "))


def loaders(driver: psycopg.Connection[Any]) -> tuple[type[Loader], type[Loader]]:
    """Return what reads the text of this database, and text of a fixed width; let text be written alike."""
    if not takes_any_bytes(driver):
        return TextLoader, Unpadded
    # told any other encoding, the server would refuse to send bytes that are not valid in it
    driver.execute("SELECT pg_catalog.set_config('client_encoding', %s, false)", (ANY_BYTES,))
    driver.adapters.register_dumper(str, AnyTextDumper)
    return AnyText, UnpaddedAnyText


def takes_any_bytes(driver: psycopg.Connection[Any]) -> bool:
    """Say whether the database has no encoding: its text is taken for UTF-8 where it is that."""
    return driver.info.parameter_status("server_encoding") == ANY_BYTES


def codec_of(driver: psycopg.Connection[Any]) -> str | None:
    """Return Python's name for what the database can hold; nothing where that is all text, or not known."""
    name = driver.info.parameter_status("server_encoding") or ""
    if name in (ANY_BYTES, "UTF8"):
        return None
    try:
        return codecs.lookup(name.replace("WIN", "cp").replace("KOI8", "koi8_")).name
    except LookupError:
        return None


def fits(text: str, codec: str) -> bool:
    """Say whether a database can hold a text: if not, no row has it."""
    try:
        text.encode(codec)
    except UnicodeEncodeError:
        return False
    return True
