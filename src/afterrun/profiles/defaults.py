"""What a profile keeps where nobody says anything: for stores whose owner has decided that."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

from afterrun.core.errors import UsageError
from afterrun.core.policy import Policy
from afterrun.core.times import parse_duration
from afterrun.profiles.words import Model


def _age(text: str) -> str:
    try:
        age = parse_duration(text)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if age <= timedelta():
        raise ValueError("an age is longer than nothing")
    return text


Age = Annotated[str, AfterValidator(_age)]
"""A length of time, such as ``30d``."""


class DefaultGenerations(Model):
    """How long superseded generations of runs that stay are kept after their end."""

    keep_for: Age


class DefaultPolicy(Model):
    """The policy of a store for which nobody says a rule: how long runs are kept after their end.

    Without ``generations``, all of those stay.
    """

    keep_for: Age
    generations: DefaultGenerations | None = None

    def policy(self) -> Policy:
        """Return it."""
        past = self.generations
        return Policy(
            keep_for=parse_duration(self.keep_for),
            generations=None if past is None else Policy(keep_for=parse_duration(past.keep_for)),
            is_default=True,
        )
