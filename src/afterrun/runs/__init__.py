"""A store of runs of our own: trees that cannot break, and retention that cannot forget.

**run**: one execution of an agent or workflow. **tree**: a root run with all that hangs from it: children of
its steps' attempts, restarts, continuations. **generation**: one execution of a run between two
continue-as-new. **step**, **attempt**: a piece of a generation's work, and one try at it. **task**: a piece
of a plan, with what it needs. **lease**: what keeps one owner a run; its **epoch** fences off the owner
before. **obligation**: a row for each piece of open work; retention asks for these alone. **content**: bytes,
stored once, whoever has them, and sealed. **display**: what may be shown of content.

::

    from afterrun.runs import RunStore

    with RunStore.open("agent.sqlite", sealing="off") as store:
        run = store.create("greet", content=b"hello").run
        store.start(run.id)
        step = store.steps.start(run.id, "think")
        store.steps.complete(step, output=b"hello, world")
        store.finish(run.id, output=b"hello, world")

This package imports the core, SQLAlchemy and Alembic, and nothing of stores, profiles or service: its
retention is that of every engine, by ``profiles/native.toml``.
"""

from afterrun.runs.checkpoints import Checkpoint
from afterrun.runs.contents import Display
from afterrun.runs.creation import Created
from afterrun.runs.effect_rows import Effect
from afterrun.runs.errors import (
    Block,
    FingerprintMismatch,
    KeySpent,
    LeaseHeld,
    NoSealingKey,
    NotFound,
    PayloadUnreadable,
    RunError,
    RunNotFound,
    SchemaTooNew,
    SealedStore,
    StaleEpoch,
    UpgradeNeeded,
    UpgradeRefused,
    WorkBlocked,
    WrongSealingKey,
    WrongState,
)
from afterrun.runs.follow_ups import FollowUp
from afterrun.runs.keys import Key, Keys
from afterrun.runs.leases import Lease
from afterrun.runs.messages import Message
from afterrun.runs.overview import Overview
from afterrun.runs.pins import Pin
from afterrun.runs.policy import DEFAULT_POLICY
from afterrun.runs.questions import Question
from afterrun.runs.resources import Resource
from afterrun.runs.results import Result
from afterrun.runs.store import RunStore
from afterrun.runs.tasks import Task
from afterrun.runs.trees import Tree
from afterrun.runs.turns import Turn
from afterrun.runs.upgrade import Upgrade
from afterrun.runs.views import Attempt, Run, Step
from afterrun.runs.words import AttemptStatus, EffectStatus, RunStatus, StepStatus, TaskStatus, Work

__all__ = [
    "DEFAULT_POLICY",
    "Attempt",
    "AttemptStatus",
    "Block",
    "Checkpoint",
    "Created",
    "Display",
    "Effect",
    "EffectStatus",
    "FingerprintMismatch",
    "FollowUp",
    "Key",
    "KeySpent",
    "Keys",
    "Lease",
    "LeaseHeld",
    "Message",
    "NoSealingKey",
    "NotFound",
    "Overview",
    "PayloadUnreadable",
    "Pin",
    "Question",
    "Resource",
    "Result",
    "Run",
    "RunError",
    "RunNotFound",
    "RunStatus",
    "RunStore",
    "SchemaTooNew",
    "SealedStore",
    "StaleEpoch",
    "Step",
    "StepStatus",
    "Task",
    "TaskStatus",
    "Tree",
    "Turn",
    "Upgrade",
    "UpgradeNeeded",
    "UpgradeRefused",
    "Work",
    "WorkBlocked",
    "WrongSealingKey",
    "WrongState",
]
