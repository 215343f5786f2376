"""Unfinished backups that a killed removal left: named, and taken away by the next removal by hand.

A removal notes the name before its backup grows under it. The name has a random part, and the note is
readable by nobody else, so that what lies there, if it is this user's own file, is what that removal left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from afterrun.state.files import StateDirectory, StateError, StoreState
from afterrun.stores.new_file import clear, standing_of


def leftovers(directory: StateDirectory, identity: str) -> Iterator[str]:
    """Yield a line for each unfinished backup of a store that is left. Changes nothing."""
    try:
        drafts = directory.load(identity).drafts
    except StateError as error:
        yield f"state: {error}"
        return
    for draft in drafts:
        standing = standing_of(draft)
        if standing == "left":
            yield (
                f"leftover: {draft}, {_size(draft):,} bytes, is the unfinished backup of a removal that was "
                "killed, and of no use. The next prune --apply of this store takes it away"
            )
        elif standing == "other":
            yield (
                f"leftover: {draft} was the unfinished backup of a removal that was killed, and is something "
                "else now, or another user's. afterrun leaves it alone: look at it, and remove it"
            )


def clear_leftovers(state: StoreState) -> Iterator[str]:
    """Take unfinished backups away; yield a line for each. The caller holds the sweep lock, and saves."""
    kept = []
    for draft in state.drafts:
        standing, size = standing_of(draft), _size(draft)
        if standing == "left" and clear(draft):
            yield (
                f"the unfinished backup of an earlier removal that was killed was taken away: {draft}, "
                f"{size:,} bytes"
            )
        elif standing != "gone":
            kept.append(draft)
    state.keep_drafts(kept)


def _size(draft: Path) -> int:
    try:
        return draft.lstat().st_size
    except OSError:
        return 0
