"""Names whose values are secrets: of keys in JSON, of settings, headers, parameters and options."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

STEMS: Final = tuple(
    stem.encode()
    for stem in ("pass", "pwd", "secret", "token", "key", "auth", "cred", "cookie", "sig", "bearer", "jwt")
)
"""One of these is in every such name, in small letters."""

LONGEST: Final = 64
"""Characters of a name; what is longer is none."""


class Tells(IntEnum):
    """What a name tells of its value."""

    NOTHING = 0
    MAYBE = 1
    SECRET = 2


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""Words of a name, in any style."""

SECRETS: Final = _words(
    "password passwd passwort pwd passphrase passcode secret secrets credential credentials "
    "authorization cookie cookies apikey apikeys secretkey privatekey accesskey authtoken accesstoken "
    "refreshtoken apitoken userpass passwords sshkey authkey accountkey clientsecret"
)
KEYS: Final = _words(
    "api access secret private encryption signing account auth master service ssh shared "
    "client app application subscription deploy admin session license webhook consumer hmac aes rsa "
    "decryption root"
)
"""What makes a key a secret one."""

TOKENS: Final = _words(
    "access refresh auth bearer id session api bot csrf xsrf oauth personal device service secret "
    "security app user client jwt private deploy webhook sas identity registration bootstrap vault gh "
    "github gitlab npm pypi slack hf reset verification authentication"
)
"""What makes a token a secret one."""

PLACES: Final = _words(
    "page next continuation cursor sync previous prev start end pagination max min input output total "
    "prompt completion stop eos bos pad sep unk mask special count per num"
)
"""Tokens that are places in a list, or pieces of text."""

DESCRIBED: Final = _words(
    "value text string plain plaintext raw encoded base64 b64 new old current confirm confirmation "
    "hash hashed data header"
)
"""Words behind a name that change nothing."""

PERHAPS: Final = _words("token pass signature sig jwt bearer auth passkey cred creds")


@lru_cache(maxsize=4_096)
def tells(name: bytes) -> Tells:
    """Return what a name tells of its value."""
    words = [word.lower() for word in PARTS.findall(name.decode("ascii", "replace"))]
    while len(words) > 1 and (words[-1] in DESCRIBED or words[-1].isdigit()):
        words.pop()
    if not words:
        return Tells.NOTHING
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in SECRETS or (last == "key" and before in KEYS) or (last == "token" and before in TOKENS):
        return Tells.SECRET
    if last == "pass" and before:
        return Tells.SECRET
    if last == "token" and before in PLACES:
        return Tells.NOTHING
    if last in PERHAPS or (last == "id" and before == "secret"):
        return Tells.MAYBE
    return Tells.NOTHING
