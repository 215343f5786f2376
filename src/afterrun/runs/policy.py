"""How long our own runs are kept where nobody says otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from afterrun.core.policy import Policy

MONTH: Final = timedelta(days=30)

DEFAULT_POLICY: Final = Policy(keep_for=MONTH, generations=Policy(keep_for=MONTH))
"""Thirty days from the end, for trees and past generations. For hosts: the commands want a policy said."""
