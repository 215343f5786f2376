"""Values that go into runs and come out of them: JSON, in one spelling."""

from __future__ import annotations

import json
from typing import Final

from pydantic import JsonValue

from afterrun.core.errors import UsageError

MAX_VALUE: Final = 4 * 1024 * 1024
"""Bytes of one value. What is larger belongs into a store of files, and its name into the run."""


def canonical(what: str, value: JsonValue) -> bytes:
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
