"""Result files for the comparison with pi-subagents: made at random, judged by the package one at a time."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from afterrun import Policy
from afterrun.core.judge import Verdict, judge
from afterrun.core.plan import make_plan
from afterrun.service import DirectoryRetention

DAY_MS: Final = 86_400_000
AREAS: Final[Mapping[str, str]] = {
    "public": "{id}.json",
    "pending": "result-pending/session/{id}.json",
    "replay": "completion-replay/{id}.json",
    "archive": "output-archives/{id}.json",
}

INTENDED: Final[Mapping[tuple[str, str], str]] = {
    ("workflow-reference", "expired"): "the workflow is not there any more, so nothing can need its result",
    ("deleted", "resumable"): "a session that is a symbolic link, or that is no text, is there, too",
    ("deleted", "unreadable-end-time"): "a number before the year 2000 is no time",
}

DRIVER: Final = """
import { cleanupAsyncRetention } from %(module)s;
import * as fs from "node:fs";
import * as path from "node:path";
const root = process.argv[2];
const results = path.join(root, "async-subagent-results");
const areas = [".", "result-pending/session", "completion-replay", "output-archives"];
const verdicts = {};
for (const area of areas) {
  const folder = path.join(results, area);
  for (const name of fs.readdirSync(folder).filter((entry) => entry.endsWith(".json")).sort()) {
    const file = path.join(folder, name);
    const needed = path.join(results, "completion-replay", name);
    const mine = (from) => {
      const facts = fs.lstatSync(from);
      if (from.startsWith(path.join(results, "result-index"))) return true;
      if (from.startsWith(results + path.sep) && !facts.isDirectory())
        return from === file || (area === "output-archives" && from === needed);
      if (path.dirname(from) === path.join(root, "async-subagent-runs") && path.basename(from)[0] !== ".")
        return path.basename(from) === path.basename(name, ".json");
      return true;
    };
    const alone = fs.mkdtempSync(path.join(root, "..", "alone-"));
    fs.cpSync(root, alone, { recursive: true, preserveTimestamps: true, filter: mine });
    const copy = path.join(alone, "async-subagent-results");
    const result = await cleanupAsyncRetention({
      asyncDirRoot: path.join(alone, "async-subagent-runs"),
      resultsDir: copy,
      maintenanceRoot: alone,
    });
    const gone = !fs.existsSync(path.join(copy, area, name));
    const key = path.relative(root, file);
    verdicts[key] = gone ? "deleted" : Object.keys(result.skipped).join("+") || "nothing";
    fs.rmSync(alone, { recursive: true });
  }
}
console.log(JSON.stringify(verdicts));
"""


def make_results(root: Path, number: int, now: int, seed: int) -> None:
    """Make result files that each differ from an old one, whose run is gone, in a random way or two."""
    chance = random.Random(seed + 1)
    for name in AREAS.values():
        (root / "async-subagent-results" / name).parent.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        make_result(root, f"result-{index:04}", now, chance)


def make_result(root: Path, name: str, now: int, chance: random.Random) -> None:
    """Make one result."""
    old = now - 40 * DAY_MS
    area = chance.choice(list(AREAS))
    record: dict[str, Any] = {"runId": name, "success": True, "state": "complete", "endedAt": old}
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        change(root, record, area, now, chance)
    file = root / "async-subagent-results" / AREAS[area].format(id=name)
    file.write_text(chance.choice(("{", "[]", "")) if chance.random() < 0.05 else json.dumps(record))
    moment = (now - DAY_MS if chance.random() < 0.08 else old) / 1_000
    os.utime(file, (moment, moment))


def change(root: Path, record: dict[str, Any], area: str, now: int, chance: random.Random) -> None:
    """Change one thing about a result, or about what is around it."""
    name = record.get("runId", "")
    kind = chance.randrange(12)
    fields: dict[int, dict[str, Any]] = {
        0: {"success": chance.choice((False, None)), "state": chance.choice(("running", "failed"))},
        1: {"endedAt": chance.choice(("soon", now - DAY_MS))},
        2: {"createdAt": now - DAY_MS},
        3: {"parentWorkflowRunId": "gone"},
        4: {"sessionFile": str(root / f"session-{name}.jsonl")},
        5: {"parallelHandoff": chance.choice(({"path": str(root / "no-such.json")}, {}))},
    }
    record.update(fields.get(kind, {}))
    if kind == 4 and chance.random() < 0.5:
        (root / f"session-{name}.jsonl").write_text("{}\n")
    elif kind == 6:
        run = root / "async-subagent-runs" / name
        run.mkdir(exist_ok=True)
        status = {"runId": name, "state": "running", "mode": "single", "startedAt": now, "lastUpdate": now}
        (run / "status.json").write_text(json.dumps(status))
    elif kind == 7:
        wait = {"runId": name, "expiresAt": now + DAY_MS, "token": "t", "createdAt": now - 2 * DAY_MS}
        (root / "wait-subscriptions" / f"{name}.json").write_text(json.dumps(wait))
    elif kind == 8:
        (root / "async-subagent-runs" / ".active-runs" / name).write_text("")
    elif kind == 9:
        index = root / "async-subagent-results" / "result-index" / "observers" / "mission"
        index.mkdir(parents=True, exist_ok=True)
        (index / f"{name}.json").write_text("{}")
    elif kind == 10:
        marker = root / "async-retention-run-tombstones" / f"{name}.json"
        marker.parent.mkdir(exist_ok=True)
        place = chance.choice((str(root), str(root / "gone"), 5))
        marker.write_text(json.dumps({"version": 1, "runId": name, "tombstonePath": place, "createdAt": now}))
    elif kind == 11 and area == "archive":
        replay = root / "async-subagent-results" / AREAS["replay"].format(id=name)
        replay.write_text(json.dumps({"runId": name, "writtenAt": now}))


def ours(tree: Path, state: Path) -> dict[str, list[str]]:
    """Return the reasons that afterrun gives for each result."""
    policy = Policy(keep_for=timedelta(days=30))
    with DirectoryRetention(str(tree), state=state) as retention:
        results = retention.store.results
        assert results is not None
        plan = make_plan(results, policy, now=results.now())
        found = {}
        for path in [path for names in results.sources.values() for path in names]:
            judged = judge(results.find(path), plan.rules)
            names = [reason.name for reason in judged.reasons]
            found[path] = ["expired"] if judged.verdict is Verdict.EXPIRED else names
    return found
