"""Endpoints of retention, for the server's own store: no other store or profile can be named here.

Backups go into the folder of the server's settings, each as a new file with a plain name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter

from afterrun.config import rules_of
from afterrun.core.errors import AfterrunError, Refused, UsageError
from afterrun.core.policy import Policy
from afterrun.core.report import Report
from afterrun.core.sweep import Budget
from afterrun.server.asks import BackupAsk, PolicyAsk, PruneAsk, ReclaimAsk, RemovalAsk, SweepAsk
from afterrun.server.host import Host
from afterrun.server.http.problems import Problem, problem_of, responses
from afterrun.stores.sql.backups import BackupOrder


def retention_of(host: Host) -> APIRouter:
    """Return the endpoints over a host."""
    router = APIRouter(prefix="/v1", tags=["retention"])
    changed = responses(409, 423)

    @router.post("/plan", operation_id="plan", responses=responses(409))
    def plan(ask: PolicyAsk) -> Mapping[str, Any]:
        """Say what would go, what stays and why, as `afterrun plan --json` does."""
        return host.plan(_policy(host, ask)).as_json()

    @router.post("/prune", operation_id="prune", responses=changed)
    def prune(ask: PruneAsk) -> Mapping[str, Any]:
        """Remove what a policy lets go, at a person's word, after a backup or without one."""
        order = _backup(host, ask)
        policy = _policy(host, ask)
        try:
            report = host.prune(policy, budget=_budget(ask), backup=order)
        except AfterrunError as error:
            raise _without_folder(error, order) from None
        return _named(report, ask.backup)

    @router.post("/sweep", operation_id="sweep", responses=changed)
    def sweep(ask: SweepAsk) -> Mapping[str, Any]:
        """Run one automatic sweep now; one that has to ask ends `guard`."""
        return host.sweep(_policy(host, ask), budget=_budget(ask), approve=ask.approve).as_json()

    @router.post("/reclaim", operation_id="reclaim", responses=changed)
    def reclaim(ask: ReclaimAsk) -> Mapping[str, Any]:
        """Say what space could be given back, or give it back."""
        return host.reclaim(apply=ask.apply).as_json()

    return router


def _policy(host: Host, ask: PolicyAsk) -> Policy:
    """Return the policy that is asked for, or the server's own."""
    if ask.policy is None:
        if ask.tables:
            raise UsageError("tables: rules for row tables stand beside a policy; give one")
        return host.policy
    return ask.policy.policy(tables=rules_of(ask.tables))


def _budget(ask: RemovalAsk) -> Budget:
    return Budget(seconds=ask.max_seconds, units=ask.limit)


def _backup(host: Host, ask: PruneAsk) -> BackupOrder | None:
    if ask.backup is None:
        if not ask.no_backup:
            raise UsageError("say backup, with the name of a new file, or no_backup: true")
        return None
    if ask.no_backup:
        raise UsageError("backup and no_backup contradict each other")
    if host.backups is None:
        raise Refused("backups", "the settings of the server name no folder for backups: set server.backups")
    path = host.backups / ask.backup.name
    if os.path.lexists(path):
        raise Refused("backup-exists", "there is something of that name in the folder for backups already")
    return BackupOrder(path=path, kind=ask.backup.kind)


def _without_folder(error: AfterrunError, order: BackupOrder | None) -> Problem:
    """Return an error without the path of the folder, which is the server's own affair."""
    problem = problem_of(error)
    if order is None:
        return problem
    said = (
        str(problem).replace(str(order.path), order.path.name).replace(str(order.path.parent), "the folder")
    )
    return Problem(problem.status, said, kind=problem.kind, reason=problem.reason)


def _named(report: Report, backup: BackupAsk | None) -> Mapping[str, Any]:
    """Return a report whose backup is told by its name."""
    told = report.as_json()
    if backup is not None and isinstance(told["backup"], dict):
        told["backup"] = {**told["backup"], "path": backup.name}
    return told
