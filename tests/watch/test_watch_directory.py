"""`afterrun watch` looks after directories, too, and keeps what goes where the file says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import make_store, run_cli
from directory.pi_tree import PiTree

TEXT = """
approve = true
[policy]
keep_for = "30d"
[stores.agents]
store = "store"
{trash}
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("trash", ['trash = "24h"', ""])
def test_what_goes_is_kept_for_as_long_as_the_file_says(trash: str, tmp_path: Path) -> None:
    """With `trash` it can be put back; without, it is gone."""
    tree = PiTree(tmp_path / "store")
    tree.run("old")
    file = tmp_path / "afterrun.toml"
    file.write_text(TEXT.format(trash=trash))
    assert run_cli("watch", "--once", "--config", file).code == Exit.DONE
    assert tree.names() == set()
    assert len(tree.tombstones()) == (1 if trash else 0)
    back = run_cli("restore", tree.root, "trash", "--json")
    assert (back.code, back.json["units"]) == (Exit.DONE, 1 if trash else 0)


def test_trash_of_a_database_is_told_of_before_anything_goes(tmp_path: Path) -> None:
    """What only a directory has is refused of a file."""
    make_store(tmp_path / "store")
    before = (tmp_path / "store").read_bytes()
    file = tmp_path / "afterrun.toml"
    file.write_text(TEXT.format(trash='trash = "24h"'))
    answer = run_cli("watch", "--once", "--config", file)
    assert answer.code not in (Exit.DONE, Exit.DEFERRED)
    assert (tmp_path / "store").read_bytes() == before
