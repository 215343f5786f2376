"""One pass in a mount namespace of its own, in which something is mounted: prints what it came to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from afterrun.core.errors import AfterrunError
from afterrun.stores.directory import folders, removal
from directory.pi_tree import Pass, PiTree


def bind(source: Path, target: Path) -> None:
    """Bind-mount a path."""
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)


def below(root: Path) -> None:
    """Mount a folder within a run."""
    target = root / "async-subagent-runs" / "r" / "mnt"
    target.mkdir()
    PiTree.age(_old(root), target.parent)
    bind(root.parent / "outside", target)


def file(root: Path) -> None:
    """Mount a file over a file of a run."""
    bind(root.parent / "outside" / "precious", root / "async-subagent-runs" / "r" / "output-0.log")


def run(root: Path) -> None:
    """Mount a copy of a run over it."""
    copy = root.parent / "copy"
    subprocess.run(["cp", "-a", str(root / "async-subagent-runs" / "r"), str(copy)], check=True)
    bind(copy, root / "async-subagent-runs" / "r")


def device(root: Path) -> None:
    """Mount another file system within a run."""
    target = root / "async-subagent-runs" / "r" / "mnt"
    target.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(target)], check=True)
    (target / "inside").write_text("x")
    PiTree.age(_old(root), target.parent)


def between(root: Path) -> None:
    """Mount within the run after it was judged and renamed, before it is read again."""
    target = root / "async-subagent-runs" / "r" / "mnt"
    target.mkdir()
    PiTree.age(_old(root), target.parent)
    rename = folders.rename_new

    def and_mount(old: str, new: str, *, at: int, to: int | None = None) -> None:
        rename(old, new, at=at, to=to)
        if old == "r":
            bind(root.parent / "outside", root / "async-subagent-runs" / new / "mnt")

    removal.rename_new = and_mount  # type: ignore[attr-defined]


def _old(root: Path) -> PiTree:
    tree = PiTree.__new__(PiTree)
    tree.root, tree.runs = root, root / "async-subagent-runs"
    tree.old = (tree.runs / "free").stat().st_mtime
    return tree


MODES: dict[str, Callable[[Path], None]] = {
    "bind-below": below,
    "bind-file": file,
    "bind-run": run,
    "other-device": device,
    "bind-between": between,
}


def full(root: Path) -> dict[str, object]:
    """Sweep a store on a file system without a free byte."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(root)], check=True)
    tree = PiTree(root / "store")
    for number in range(3):
        tree.run(f"r-{number}")
    filler = root / "filler"
    with filler.open("wb", buffering=0) as sink:
        try:
            while True:
                sink.write(b"x" * 512)
        except OSError:
            pass
    messages: list[str] = []
    ended: list[str] = []
    try:
        reports = Pass(tree.root).run()
        ended = [report.ended for report in reports]
        messages = [report.message for report in reports]
    except AfterrunError as error:
        ended, messages = ["refused"], [str(error)]
    return {
        "ended": ended,
        "messages": messages,
        "names": sorted(tree.names()),
        "tombstones": len([path for path in tree.tombstones() if path.parent == tree.runs]),
    }


def main() -> None:
    """Mount, sweep, print."""
    mode, root = sys.argv[1], Path(sys.argv[2])
    if mode == "full":
        answer = full(root)
    else:
        MODES[mode](root)
        reports = Pass(root).run()
        answer = {
            "removed": {report.kind: report.units.removed for report in reports},
            "blocked": dict(reports[0].units.blocked),
            "precious": (root.parent / "outside" / "precious").read_text() == "precious",
        }
    print(json.dumps(answer))  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()
