"""An app that cannot be loaded: the server says why and where, and ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "\nfrom afterrun.server import Nothing\n",
            r"cannot import name 'Nothing' .*\(flows\.py, line 2\)",
        ),
        ("import no_such_package_anywhere\n", r"No module named .* \(flows\.py, line 1\)"),
        ("raise ValueError('the password is hunter2')\n", r"ValueError \(flows\.py, line 1\)"),
    ],
)
def test_why_and_where_are_said_and_no_value(code: str, said: str, tmp_path: Path) -> None:
    """Messages of an app may hold anything; that of an import names modules."""
    (tmp_path / "flows.py").write_text(code)
    words = ["serve", str(tmp_path / "runs.sqlite"), "--app", f"{tmp_path / 'flows.py'}:app"]
    done = subprocess.run(
        [sys.executable, "-m", "afterrun", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode
    assert re.search(said, done.stderr.splitlines()[-1]), done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
