"""Real engines for tests: their environments, and the stores they make.

Everything is kept under `.engines` at the root of the repository and made once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Unpack

from .clones import Clone, CloneOptions, clone_from

sys.path.append(str(Path(__file__).resolve().parents[2] / "demo"))  # scripts, not a package

from environments import CACHE, DEMO, answer_of, engine_command, engine_python, is_fresh, locked, run_engine

__all__ = [
    "ALL_ENGINES",
    "ENGINES",
    "Clone",
    "CloneOptions",
    "age_runs",
    "clone_store",
    "engine_command",
    "engine_python",
    "make_store",
    "run_engine",
    "template",
]

ENGINES = ("3.4.0", "2.31.1")
"""Versions the tests run on: the newest, and the last of the previous line."""
ALL_ENGINES = (*ENGINES, "3.2.0")

SCRIPTS = ("dbos_app.py", "dbos_situations.py", "dbos_workflows.py")


def make_store(version: str, path: Path) -> dict[str, Any]:
    """Copy a store with every situation to `path` and return what `populate` said of it."""
    store = template(version)
    shutil.copyfile(store, path)
    return dict(json.loads(store.with_suffix(".json").read_text(encoding="utf-8")))


def demo_digest() -> str:
    """Return what names the state of the demo that a kept store was made by."""
    digest = hashlib.sha256()
    for name in SCRIPTS:
        digest.update((DEMO / name).read_bytes())
    return digest.hexdigest()[:12]


def template(version: str) -> Path:
    """Return a populated store that nobody may change, made once for each state of the demo."""
    store = CACHE / "templates" / f"{version}-{demo_digest()}.sqlite"
    facts = store.with_suffix(".json")
    if is_fresh(facts):
        return store
    engine_python(version)
    with locked(store.stem):
        if not is_fresh(facts):
            _populate(version, store, facts)
    return store


def clone_store(
    source: Path | None, path: Path, *, runs: int, version: str, **options: Unpack[CloneOptions]
) -> Clone:
    """Make a big store of copies of one real run; see `CloneOptions`.

    Without `source` the copies are taken from the template of this version.
    """
    return clone_from(template(version) if source is None else source, path, runs=runs, **options)


def age_runs(path: Path, days: float, ids: Collection[str] = (), *, but: Collection[str] = ()) -> int:
    """Move runs into the past (default: all finished ones except `but`); return their number."""
    command = [sys.executable, str(DEMO / "ageing.py"), str(path), str(days), *ids]
    if but:
        command += ["--except", *but]
    return int(answer_of(command, 60.0)["aged"])


def _populate(version: str, store: Path, facts: Path) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    draft = store.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    answer = run_engine(version, "populate", draft)
    draft.rename(store)
    facts.write_text(json.dumps(answer, indent=1), encoding="utf-8")


def main() -> None:
    """Make the environments and templates of all versions ahead of their first use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["install"])
    parser.add_argument("versions", nargs="*", default=list(ALL_ENGINES))
    for version in parser.parse_args().versions:
        engine_python(version)
        sys.stdout.write(json.dumps({"version": version, "template": template(version).name}))
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
