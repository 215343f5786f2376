"""What checkpoints follow, and what those that stay follow once others went.

A link to one that went is led on to the nearest that is still there. Otherwise a checkpoint that could not be
removed today, when the one after it went, would look like the end of a fork, and stay for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from afterrun.core.facts import Key


class Links:
    """Links among the checkpoints of threads that a batch looks at.

    Attributes:
        followers: checkpoints that follow a member of a unit, each with that member.
        above: what these, and members, follow, as far as it is there.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.followers: dict[Key, Key] = {}
        self.above: dict[Key, Key] = {}
        self._old: set[Key] = set()

    def follow(self, key: Key, member: Key, *, old: bool) -> None:
        """Note that a checkpoint follows a member; ``old`` if it is of an old format."""
        self.above[key] = self.followers[key] = member
        if old:
            self._old.add(key)

    def led_on(self, gone: Collection[Key]) -> Iterator[tuple[Key, Key]]:
        """Yield each checkpoint that stays and followed one of these, with what it follows now, or ``None``.

        One of an old format follows none: it would take the tasks of a checkpoint that it does not follow.
        """
        for key, above in self.followers.items():
            if above in gone and key not in gone:
                yield key, None if key in self._old else self._remaining(above, gone)

    def _remaining(self, key: Key, gone: Collection[Key]) -> Key:
        while key is not None and key in gone:
            key = self.above.get(key)
        return key
