"""The real package pi-subagents and afterrun judge the same runs and results; their verdicts are compared.

Optional: it needs Node, npm and a network, and fetches the package into a temporary folder. Every
verdict must be equal but for the intended differences, which are listed here with their reasons.

Run: python benchmarks/pi_subagents_differential.py [--package NAME] [--seed 1] [--runs 300] [--results 300]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import _pi_results
from _common import ROOT, say
from afterrun import Policy
from afterrun.core.judge import Verdict, judge
from afterrun.core.plan import make_plan
from afterrun.service import DirectoryRetention

DAY_MS: Final = 86_400_000
ENTRY: Final = "async-retention"

# What the package says, and what afterrun may say instead. The text is why.
INTENDED: Final[Mapping[tuple[str, str], str]] = {
    ("workflow-reference", "expired"): "a whole workflow that is old goes with all its runs",
    ("workflow-reference", "missing-parent"): "part of a workflow that is not there: kept, and reported",
    ("nested-reference", "expired"): "a run whose nested runs are all over goes with them",
    ("wait-reference", "expired"): "a wait that has expired holds nothing",
    ("non-terminal", "unknown-status"): "a state that nobody knows is blocked, and stops the store",
    ("deleted", "unreadable-end-time"): "a number before the year 2000 is no time",
    ("deleted", "live-owner"): "the process that has the run lives",
    ("deleted", "resumable"): "a session that is a symbolic link is there, too",
}
SAME: Final[Mapping[str, str]] = {
    "deleted": "expired",
    "non-terminal": "live-member",
    "unknown-age": "unreadable-end-time",
    "recent": "keep-for",
    "non-terminal-result": "live-member",
}
"""Names that differ and mean the same."""

DRIVER: Final = """
import { cleanupAsyncRetention } from %(module)s;
import * as fs from "node:fs";
import * as path from "node:path";
const root = process.argv[2];
const runs = path.join(root, "async-subagent-runs");
const verdicts = {};
for (const name of fs.readdirSync(runs).filter((entry) => !entry.startsWith(".")).sort()) {
  // one run a pass, so that the pass's counts are this run's verdict
  const alone = fs.mkdtempSync(path.join(root, "..", "alone-"));
  const inside = path.join(alone, "async-subagent-runs");
  const mine = (from) => path.dirname(from) !== runs || [".", name[0]].includes(path.basename(from)[0])
    && (path.basename(from).startsWith(".") || path.basename(from) === name);
  fs.cpSync(root, alone, { recursive: true, preserveTimestamps: true, filter: mine });
  const facts = fs.statSync(path.join(runs, name));
  fs.utimesSync(path.join(inside, name), facts.atime, facts.mtime);
  const result = await cleanupAsyncRetention({
    asyncDirRoot: inside,
    resultsDir: path.join(alone, "async-subagent-results"),
    maintenanceRoot: alone,
  });
  const reasons = Object.keys(result.skipped);
  verdicts[name] = result.deletedRuns ? "deleted" : reasons.join("+") || "nothing";
  fs.rmSync(alone, { recursive: true });
}
console.log(JSON.stringify(verdicts));
"""


def make_tree(root: Path, runs: int, seed: int) -> None:
    """Make runs that each differ from an old, finished one in a few random ways."""
    chance = random.Random(seed)
    for folder in ("async-subagent-runs/.active-runs", "async-subagent-results", "wait-subscriptions"):
        (root / folder).mkdir(parents=True)
    now = int(time.time() * 1_000)
    for number in range(runs):
        make_run(root, f"run-{number:04}", now, chance)


def make_run(root: Path, name: str, now: int, chance: random.Random) -> None:
    """Make one run."""
    old = now - 40 * DAY_MS
    folder = root / "async-subagent-runs" / name
    folder.mkdir()
    status: dict[str, Any] = {
        "runId": name,
        "state": "complete",
        "mode": "single",
        "startedAt": old - 1_000,
        "endedAt": old,
        "lastUpdate": old,
        "steps": [{"agent": "worker", "status": "complete"}],
    }
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2))):
        change(root, folder, status, now, chance)
    (folder / "status.json").write_text(json.dumps(status))
    if chance.random() < 0.03:
        (folder / "status.json").write_text(chance.choice(("{", "[]", "", "null")))
    recent = chance.random() < 0.08
    moment = (now - DAY_MS if recent else old) / 1_000
    for path in (*folder.iterdir(), folder):
        os.utime(path, (moment, moment), follow_symlinks=False)


def change(root: Path, folder: Path, status: dict[str, Any], now: int, chance: random.Random) -> None:
    """Change one thing about a run."""
    name = folder.name
    session = root / f"session-{name}.jsonl"
    kind = chance.randrange(16)
    fields: dict[int, dict[str, Any]] = {
        0: {"state": chance.choice(("failed", "stopped", "rejected"))},
        1: {"state": chance.choice(("running", "queued", "paused"))},
        2: {"runId": "another"},
        3: {"mode": chance.choice(("swarm", "parallel", "chain", "workflow"))},
        4: {"endedAt": chance.choice(("soon", now - DAY_MS))},
        5: {"endedAt": None, "lastUpdate": "never"},
        6: {"parentWorkflowRunId": "gone", "workflowKey": "key"},
        7: {"isNested": True},
        8: {
            "steps": [
                {"agent": "a", "status": "complete", "children": [{"id": "child", "state": "complete"}]}
            ]
        },
        9: {"sessionFile": str(session)},
        10: {"parallelHandoff": {"path": str(root / "no-such.json")}},
    }
    status.update(fields.get(kind, {}))
    if status.get("endedAt", 0) is None:
        del status["endedAt"]
    if kind == 9 and chance.random() < 0.5:
        session.write_text("{}\n")
    elif kind == 11:
        (root / "async-subagent-runs" / ".active-runs" / name).write_text("")
    elif kind == 12:
        expires = now + chance.choice((-DAY_MS, DAY_MS))
        wait = {"runId": name, "expiresAt": expires, "token": "t", "createdAt": now - 2 * DAY_MS}
        (root / "wait-subscriptions" / f"{name}.json").write_text(json.dumps(wait))
    elif kind == 13:
        (folder / "mission.json").write_text("{}")
    elif kind == 14:
        cleanup = chance.choice(("complete", "pending"))
        (folder / "handoff.json").write_text(
            json.dumps({"version": 1, "groups": [{"cleanup": {"state": cleanup}}]})
        )
    elif kind == 15:
        source = chance.choice((name, "another"))
        (folder / "recovery-descriptor.json").write_text(
            json.dumps({"sourceRunId": source, "sessionFile": str(session)})
        )


def fetch(package: str, folder: Path) -> Path:
    """Install the package; return its module of retention."""
    subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, capture_output=True)
    subprocess.run(
        [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--legacy-peer-deps",
            package,
            "tsx",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    found = sorted((folder / "node_modules" / package.split("@", maxsplit=1)[0]).rglob(f"{ENTRY}.[tj]s"))
    if not found:
        raise SystemExit(f"{package} has no module {ENTRY}")
    return found[0]


def theirs(module: Path, script: str, tree: Path, folder: Path) -> dict[str, str]:
    """Return what the package says of each run or result, by a pass over a copy in which it is alone."""
    driver = folder / "driver.mts"
    driver.write_text(script % {"module": json.dumps(str(module))})
    done = subprocess.run(
        ["npx", "tsx", str(driver), str(tree)], cwd=folder, check=True, capture_output=True, text=True
    )
    verdicts: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return verdicts


def ours(tree: Path, state: Path) -> dict[str, list[str]]:
    """Return the reasons that afterrun gives for each run; those of a tree for its root."""
    policy = Policy(keep_for=timedelta(days=30))
    with DirectoryRetention(str(tree), state=state) as retention:
        runs = retention.store.runs
        plan = make_plan(runs, policy, now=runs.now())
        found = {}
        for key in runs.index.order:
            judged = judge(runs.find(str(key)), plan.rules)
            names = [reason.name for reason in judged.reasons]
            found[str(key)] = ["expired"] if judged.verdict is Verdict.EXPIRED else names
    return found


def compare(
    other: dict[str, str], mine: dict[str, list[str]], intentions: Mapping[tuple[str, str], str]
) -> int:
    """Print where verdicts agree and differ; return how many differ without intent."""
    equal: Counter[str] = Counter()
    intended: Counter[tuple[str, str]] = Counter()
    strange: list[str] = []
    for name, verdict in sorted(other.items()):
        reasons = mine.get(name, ["a member of another unit"])
        # a result that needs its run or another record is judged beside it, so theirs may be several words
        words = verdict.split("+")
        agreed = [word for word in words if word in reasons or SAME.get(word) in reasons]
        if agreed:
            equal[agreed[0]] += 1
            continue
        pairs = [(word, reason) for word in words for reason in reasons]
        known = next((pair for pair in pairs if pair in intentions), None)
        if known is None and (verdict, "expired") in intentions and reasons != ["expired"]:
            equal["kept by both, there for a reason that is none here"] += 1  # it names its first reason only
            continue
        if known is None:
            strange.append(f"{name}: the package says {verdict}, afterrun {', '.join(reasons)}")
        else:
            intended[known] += 1
    say("| the package says | equal |")
    say("|---|---|")
    for verdict, count in sorted(equal.items()):
        say(f"| {verdict} | {count} |")
    say()
    for (verdict, reason), count in sorted(intended.items()):
        say(f"- {count}: {verdict} there, {reason} here: {intentions[verdict, reason]}")
    for line in strange:
        say(f"- UNINTENDED {line}")
    return len(strange)


def main() -> None:
    """Fetch, make, judge twice, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--package", default="pi-subagents@0.67.0")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--results", type=int, default=300)
    words = parser.parse_args()
    if not all(map(shutil.which, ("node", "npm", "npx"))):
        say("skipped: this needs Node and npm")
        return
    with tempfile.TemporaryDirectory() as folder:
        tree, package = Path(folder) / "tree", Path(folder) / "package"
        package.mkdir()
        module = fetch(words.package, package)
        state = Path(folder) / "state"
        make_tree(tree, words.runs, words.seed)
        say(f"## {words.package} and afterrun on {words.runs} runs, seed {words.seed}")
        say()
        strange = compare(theirs(module, DRIVER, tree, package), ours(tree, state), INTENDED)
        shutil.rmtree(tree)
        make_tree(tree, 0, words.seed)
        _pi_results.make_results(tree, words.results, int(time.time() * 1_000), words.seed)
        say()
        say(f"## The same on {words.results} results, seed {words.seed}")
        say()
        verdicts = theirs(module, _pi_results.DRIVER, tree, package)
        strange += compare(verdicts, _pi_results.ours(tree, state), _pi_results.INTENDED)
    assert strange == 0, "verdicts differ without intent"
    assert ROOT.is_dir()
    sys.exit(0)


if __name__ == "__main__":
    main()
