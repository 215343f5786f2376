"""The demo is a test: it stops with an error at the first surprise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .stores import engine_python

RUN = Path(__file__).resolve().parents[2] / "demo" / "run.py"
SHOWN = (
    "afterrun plan demo.sqlite --keep-for 30d",
    "afterrun explain demo.sqlite waiting-parent-child --keep-for 30d",
    "afterrun explain demo.sqlite tree-parent --keep-for 30d",
    "afterrun prune demo.sqlite --keep-for 30d --apply --no-backup --yes",
    "afterrun verify demo.sqlite",
)


@pytest.mark.engine
def test_demo_runs_to_its_end(tmp_path: Path) -> None:
    """Every command of the story is run for real, in its order, and nothing is left over."""
    engine_python("3.4.0")
    done = subprocess.run(
        [sys.executable, RUN],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    commands = [line.removeprefix("$ ") for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert tuple(commands) == SHOWN
    waited = [line.split() for line in done.stdout.splitlines() if line.startswith("   waiting-parent ")]
    assert [words[1] for words in waited] == ["SUCCESS"]
    assert list(tmp_path.iterdir()) == []
