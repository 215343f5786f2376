"""What units within a run answer: rules that count units or match them are for whole runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from afterrun.core.facts import Newest, Scalar, Status
from afterrun.core.judge import Group, Rank
from afterrun.core.times import Instant, Micros


class Uncounted:
    """Units of which each knows by itself how many of its run are newer."""

    def newest_kept(
        self,
        places: Sequence[int],  # noqa: ARG002 - of the protocol, as are the others
        *,
        count: int,  # noqa: ARG002
        any_status: bool,  # noqa: ARG002
        now: Instant,  # noqa: ARG002
    ) -> Mapping[Group, Rank]:
        """Return nothing: each unit says by itself how many of its run are newer."""
        return {}

    def newest_in(
        self,
        places: Sequence[int],  # noqa: ARG002 - of the protocol, as are the others
        *,
        slot: Micros,  # noqa: ARG002
        any_status: bool,  # noqa: ARG002
        now: Instant,  # noqa: ARG002
    ) -> Iterable[Newest]:
        """Return nothing: rules by periods are for whole runs."""
        return ()

    def groups(self, places: Sequence[int]) -> int:  # noqa: ARG002 - there are none
        """Return 0: runs are their groups."""
        return 0

    def content(self) -> tuple[int, int]:
        """Return nothing: caps are for whole runs."""
        return 0, 0

    @property
    def statuses(self) -> Mapping[Scalar, Status]:
        """Return nothing: narrower rules are for whole runs."""
        return {}

    @property
    def knows_keys(self) -> bool:
        """Say no: the run keeps its key."""
        return False
