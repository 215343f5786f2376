"""Values of workflows as content: JSON in one spelling. Needs nothing but the standard library."""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from afterrun.core.errors import UsageError

JsonValue: TypeAlias = Any
"""Text, a finite number, true, false, null, a list, or an object with text for keys."""

MAX_VALUE: Final = 16 * 1024 * 1024
"""Bytes of one value. What is larger belongs into a store of files, and its name into the run."""


def dump(what: str, value: JsonValue) -> bytes:
    """Return a value as JSON in UTF-8: sorted keys, no blanks. Raises `UsageError`."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"the {what} has a lone surrogate in it, which is no character") from None
    except RecursionError:
        raise UsageError(f"the {what} is nested too deeply") from None
    except (TypeError, ValueError):
        raise UsageError(
            f"the {what} is no JSON: text, finite numbers, true, false, null, lists, objects"
        ) from None
    if len(content) > MAX_VALUE:
        raise UsageError(f"the {what} has {len(content):,} bytes of JSON; at most {MAX_VALUE:,} are taken")
    return content


def load(content: bytes | None) -> JsonValue:
    """Return the value of content; no content is ``None``, and what is no JSON is text or refused."""
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return content.decode("utf-8", "replace")
