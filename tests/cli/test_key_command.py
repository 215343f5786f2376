from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from afterrun.cli import main
from afterrun.core.errors import Exit
from afterrun.runs import Keys


def test_a_key_is_written_to_a_new_private_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is read back as a key; what is printed tells its id and not the key."""
    path = tmp_path / "agent.key"
    assert main(["key", "new", str(path)]) == Exit.DONE
    keys = Keys.from_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = capsys.readouterr().out
    assert keys.current.id in said
    assert keys.text().strip() not in said


def test_no_file_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another key would make what the first one sealed unreadable."""
    path = tmp_path / "agent.key"
    path.write_text("mine", encoding="utf-8")
    assert main(["key", "new", str(path), "--json"]) == Exit.USAGE
    assert path.read_text(encoding="utf-8") == "mine"
    other = tmp_path / "other.key"
    capsys.readouterr()
    assert main(["key", "new", str(other), "--json"]) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"key_id": Keys.from_file(other).current.id}
