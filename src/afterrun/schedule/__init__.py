"""When a store is swept: by itself, and out of the way of its host.

Nouns: an *activity* is work that the host has registered with its *gate*; the host is idle while there is
none. A *request* asks for a sweep and joins the one that is scheduled or running. The *agenda* is what is due
of one store, and why nothing happens yet; the *scheduler* is its thread. An *outcome* is how a sweep ended.

This package imports `core` and the standard library, nothing else, so that a host of any kind can embed it.
The rules are in ``docs/scheduling.md``.
"""

from afterrun.schedule.agenda import Standing, Why
from afterrun.schedule.clock import Clock, SystemTime
from afterrun.schedule.gate import IdleGate
from afterrun.schedule.memory import Memory
from afterrun.schedule.outcome import Outcome, log_outcome
from afterrun.schedule.request import Reason, Request, Timing
from afterrun.schedule.scheduler import Scheduler

__all__ = [
    "Clock",
    "IdleGate",
    "Memory",
    "Outcome",
    "Reason",
    "Request",
    "Scheduler",
    "Standing",
    "SystemTime",
    "Timing",
    "Why",
    "log_outcome",
]
