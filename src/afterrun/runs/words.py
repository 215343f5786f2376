"""The words of the run store: states, kinds of open work, and limits."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

MAX_DEPTH: Final = 32
"""Links between a root and the deepest run of its tree; also the `max_depth` of the store's profile."""

OF_RUN: Final = 0
"""The generation of what belongs to a run as a whole; those of its executions begin with 1."""


PAGE: Final = 100
"""Rows of a list unless the caller says otherwise."""


class RunStatus(StrEnum):
    """States of a run. ``parked`` waits for a call, ``waiting`` for a child, an answer or a time."""

    QUEUED = "queued"
    RUNNING = "running"
    PARKED = "parked"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


LIVE: Final = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PARKED, RunStatus.WAITING)
ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.TIMED_OUT)


class GenerationStatus(StrEnum):
    """States of a generation: ``continued`` is one that continue-as-new ended."""

    RUNNING = "running"
    CONTINUED = "continued"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class StepStatus(StrEnum):
    """States of a step. One that failed and has no end yet has a retry in the queue."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepKind(StrEnum):
    """What a step is: work of its own, or something that it waits for or says."""

    STEP = "step"
    EFFECT = "effect"
    CHILD = "child"
    DECIDE = "decide"
    SLEEP = "sleep"
    RECEIVE = "receive"
    UPDATE = "update"


class AttemptStatus(StrEnum):
    """States of an attempt at a step."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskStatus(StrEnum):
    """States of a task: ``blocked`` until all that it depends on is completed."""

    BLOCKED = "blocked"
    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ApprovalStatus(StrEnum):
    """States of an approval."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class DecisionStatus(StrEnum):
    """States of a decision."""

    PENDING = "pending"
    DECIDED = "decided"
    CANCELLED = "cancelled"


class EffectStatus(StrEnum):
    """States of an effect: nobody knows yet whether an ``ambiguous`` one happened."""

    PENDING = "pending"
    APPLYING = "applying"
    APPLIED = "applied"
    AMBIGUOUS = "ambiguous"
    CANCELLED = "cancelled"


UNSURE: Final = (EffectStatus.PENDING, EffectStatus.APPLYING)
"""Effects that the run's owner has still to end; a run does not complete with one."""

UNSETTLED: Final = (*UNSURE, EffectStatus.AMBIGUOUS)


class Work(StrEnum):
    """Kinds of open work: each is a reason why retention keeps a tree."""

    WAITING = "waiting"
    QUEUED = "queued"
    MESSAGE = "pending-message"
    TURN = "open-turn"
    INTERACTION = "pending-interaction"
    DECISION = "pending-decision"
    RECORDING = "recording"
    FOLLOW_UP = "follow-up"
    LEASE = "lease"
    EFFECT = "unsettled-effect"
    RESOURCE = "managed-resource"
    CHECKPOINT = "resumable-checkpoint"
    RESULT = "undelivered-result"
    PIN = "pinned-content"


SETTLED_AT_END: Final = (
    Work.WAITING,
    Work.QUEUED,
    Work.MESSAGE,
    Work.INTERACTION,
    Work.DECISION,
    Work.RECORDING,
    Work.LEASE,
)
"""The store's own bookkeeping, closed when a run ends. The rest waits for somebody else.

Of effects, turns and checkpoints some are closed with the run, too; `endings` says which.
"""
