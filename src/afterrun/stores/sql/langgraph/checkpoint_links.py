"""What checkpoints follow, and what those that stay follow once others went.

A link to one that went is led on to the nearest that is still there. Otherwise a checkpoint that could not be
removed today, when the one after it went, would look like the end of a fork, and stay for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from afterrun.core.facts import Key, Scalar, Unit
from afterrun.profiles.langgraph import Checkpoint
from afterrun.profiles.langgraph.keep import SENDS_INSIDE


class Links:
    """Links among the checkpoints of threads that a batch looks at.

    Attributes:
        followers: checkpoints that follow a member of a unit, each with that member.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.followers: dict[Key, Key] = {}
        self._above: dict[Key, Key] = {}
        self._old: set[Key] = set()

    def note(self, threads: Mapping[Scalar, Sequence[Checkpoint]], units: Sequence[Unit]) -> None:
        """Take in what the members of these units follow, and what follows them."""
        members = {member for unit in units for member in unit.members}
        for thread, found in threads.items():
            present: set[tuple[str, str]] | None = None
            for namespace, name, parent, _, version, *_ in found:
                if parent is None:
                    continue
                key: Key = (thread, namespace, name)
                above: Key = (thread, namespace, parent)
                if above in members:
                    self._above[key] = self.followers[key] = above
                    if version != SENDS_INSIDE:
                        self._old.add(key)
                elif key in members:
                    present = {(row.namespace, row.id) for row in found} if present is None else present
                    if (namespace, parent) in present:
                        self._above[key] = above

    def led_on(self, gone: Collection[Key]) -> Iterator[tuple[Key, Key]]:
        """Yield each checkpoint that stays and followed one of these, with what it follows now, or ``None``.

        One of an old format follows none: it would take the tasks of a checkpoint that it does not follow.
        """
        for key, above in self.followers.items():
            if above in gone and key not in gone:
                yield key, None if key in self._old else self._remaining(above, gone)

    def _remaining(self, key: Key, gone: Collection[Key]) -> Key:
        while key is not None and key in gone:
            key = self._above.get(key)
        return key
