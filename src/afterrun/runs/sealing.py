"""Seal content under the keys of a store, and open it again. Nothing here knows of tables.

A store has a random *secret*, which is kept sealed under the master key. Addresses and marks of displays are
made under the secret, and content is sealed under a key derived from the master key: so a new master key
changes neither, and nothing in the database confirms a guess of content.

What is sealed begins with the number and the address of its row, so that content which was put into another
row is told from content that was changed.
"""

from __future__ import annotations

import hmac
import os
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from afterrun.core.errors import UsageError
from afterrun.runs.keys import Key, Keys

DIGEST: Final = "sha256"
NONCE: Final = 12
"""Bytes of a nonce, which stands before what it sealed."""

TAG: Final = 16
HEAD: Final = struct.Struct(">q32s")
"""Number and address of the row, before the content."""

REPLAY: Final = b"replay"
"""The kind of what is sealed: exact content, for programs that go on with it."""

Why: TypeAlias = Literal["tampered", "wrong-key", "swapped", "missing"]


class Unsealable(Exception):
    """Sealed content does not open; ``why`` says what was found. `contents` says whose it is."""

    def __init__(self, why: Why) -> None:
        self.why: Final = why
        super().__init__(why)


class Sealed(NamedTuple):
    """Content as its row holds it. Without ``key_id`` it is in the clear."""

    key_id: str | None
    content: bytes


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What a store knows of itself: its random id, and its secret, sealed unless ``key_id`` is ``None``."""

    store_id: str
    key_id: str | None
    secret: bytes


class Sealing(Protocol):
    """How a store keeps content: sealed, or in the clear."""

    store_id: str
    key_id: str | None

    def address(self, content: bytes) -> str:
        """Return the address of content: what is equal has the same one."""

    def seal(self, number: int, address: str, content: bytes) -> Sealed:
        """Return content as it is stored in the row with this number."""

    def open(self, number: int, address: str, sealed: Sealed) -> bytes:
        """Return the exact content of a row. Raises `Unsealable`."""

    def mark(self, address: str, display: str | None) -> bytes | None:
        """Return what shows that a display is the one that was stored."""


class Clear:
    """Content in the clear, for stores whose owner said so."""

    key_id: str | None = None

    def __init__(self, wrapped: Wrapped) -> None:
        """Take what an unsealed store knows of itself."""
        self.store_id = wrapped.store_id
        self._address_key = _derived(wrapped.secret, b"address")

    def address(self, content: bytes) -> str:
        """Return the address of content."""
        return hmac.digest(self._address_key, content, DIGEST).hex()

    def seal(self, number: int, address: str, content: bytes) -> Sealed:  # noqa: ARG002 - one interface
        """Return content as it is."""
        return Sealed(None, content)

    def open(self, number: int, address: str, sealed: Sealed) -> bytes:  # noqa: ARG002 - one interface
        """Return content that is still what its address says."""
        if sealed.key_id is not None:
            raise Unsealable("wrong-key")
        if not hmac.compare_digest(self.address(sealed.content), address):
            raise Unsealable("tampered")
        return sealed.content

    def mark(self, address: str, display: str | None) -> bytes | None:  # noqa: ARG002 - one interface
        """Return nothing: who can write here can make any mark."""
        return None


class Sealer:
    """Content sealed by AES-256-GCM, with its address by HMAC-SHA-256."""

    def __init__(self, wrapped: Wrapped, keys: Keys) -> None:
        """Open a store's secret. Raises `Unsealable` if these keys do not open it."""
        self.store_id = wrapped.store_id
        self.key_id: str | None = keys.current.id
        self._current = keys.current.id
        self._keys = keys.by_id()
        self._ciphers: dict[str, Any] = {}
        self._secret = self._unwrap(wrapped)
        self._address_key = _derived(self._secret, b"address")
        self._mark_key = _derived(self._secret, b"display")

    def wrapped(self) -> Wrapped:
        """Return the store's secret, sealed anew under the current key."""
        wrap = _cipher(self._keys[self._current], self.store_id, b"secret")
        nonce = os.urandom(NONCE)
        sealed = wrap.encrypt(nonce, self._secret, _bound(self.store_id, b"secret", self._current))
        return Wrapped(self.store_id, self._current, nonce + sealed)

    def address(self, content: bytes) -> str:
        """Return the address of content: without the secret nobody can compute it."""
        return hmac.digest(self._address_key, content, DIGEST).hex()

    def seal(self, number: int, address: str, content: bytes) -> Sealed:
        """Seal content for the row with this number, under the current key."""
        nonce = os.urandom(NONCE)
        inner = HEAD.pack(number, bytes.fromhex(address)) + content
        outer = self._cipher(self._current).encrypt(
            nonce, inner, _bound(self.store_id, REPLAY, self._current)
        )
        return Sealed(self._current, nonce + outer)

    def open(self, number: int, address: str, sealed: Sealed) -> bytes:
        """Return the exact content of a row, or say what is wrong with it."""
        if sealed.key_id is None:
            raise Unsealable("tampered")  # nothing here is stored in the clear
        if sealed.key_id not in self._keys:
            raise Unsealable("wrong-key")
        bound = _bound(self.store_id, REPLAY, sealed.key_id)
        inner = _decrypt(self._cipher(sealed.key_id), sealed.content, bound)
        own_number, own_address = HEAD.unpack_from(inner)
        if own_number != number:
            raise Unsealable("swapped")
        if own_address.hex() != address:
            raise Unsealable("tampered")
        return inner[HEAD.size :]

    def mark(self, address: str, display: str | None) -> bytes | None:
        """Return the mark of a display; a missing display has one, too."""
        told = b"\x00" if display is None else b"\x01" + display.encode()
        return hmac.digest(self._mark_key, address.encode() + told, DIGEST)

    def _cipher(self, key_id: str) -> Any:  # noqa: ANN401 - of a package that may be missing
        found = self._ciphers.get(key_id)
        if found is None:
            found = self._ciphers[key_id] = _cipher(self._keys[key_id], self.store_id, REPLAY)
        return found

    def _unwrap(self, wrapped: Wrapped) -> bytes:
        if wrapped.key_id is None or wrapped.key_id not in self._keys:
            raise Unsealable("wrong-key")
        cipher = _cipher(self._keys[wrapped.key_id], self.store_id, b"secret")
        return _decrypt(cipher, wrapped.secret, _bound(self.store_id, b"secret", wrapped.key_id))


def new_store(keys: Keys | None) -> Wrapped:
    """Return a new identity: a random id and a random secret, which stays in the clear without keys."""
    store_id, secret = secrets.token_hex(16), secrets.token_bytes(32)
    if keys is None:
        return Wrapped(store_id, None, secret)
    key = keys.current
    nonce = os.urandom(NONCE)
    bound = _bound(store_id, b"secret", key.id)
    return Wrapped(store_id, key.id, nonce + _cipher(key, store_id, b"secret").encrypt(nonce, secret, bound))


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"afterrun 1 " + purpose, DIGEST)


def _bound(store_id: str, kind: bytes, key_id: str) -> bytes:
    """Return what a seal is bound to; sealed content has its row inside."""
    return b"\x00".join((b"afterrun 1", kind, store_id.encode(), key_id.encode()))


def _cipher(key: Key, store_id: str, purpose: bytes) -> Any:  # noqa: ANN401 - of a package that may be missing
    """Return the cipher for one purpose in one store: no two stores share a key."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise UsageError("sealing needs a package more: pip install 'afterrun[runs]'") from None
    derive = HKDF(algorithm=SHA256(), length=32, salt=store_id.encode(), info=b"afterrun 1 " + purpose)
    return AESGCM(derive.derive(key.secret))


def _decrypt(cipher: Any, sealed: bytes, bound: bytes) -> bytes:  # noqa: ANN401 - of a package that may be missing
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra; a cipher was made, so it is there

    if len(sealed) < NONCE + TAG:
        raise Unsealable("tampered")
    opened: Callable[..., bytes] = cipher.decrypt
    try:
        return opened(sealed[:NONCE], sealed[NONCE:], bound)
    except InvalidTag:
        raise Unsealable("tampered") from None
