"""The guide to `afterrun watch`, followed word by word."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from afterrun.core.errors import Exit
from cli.kit import COMMAND, count, make_store
from watch.watch_kit import DEADLINE, ends

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "watch.md").read_text(encoding="utf-8")
SETTINGS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
UNIT = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the stores, the settings and an `afterrun` that is this source."""
    make_store(tmp_path / "orders.sqlite")
    make_store(tmp_path / "mail.sqlite")
    (tmp_path / "metrics").mkdir()
    (tmp_path / "afterrun.toml").write_text(SETTINGS[0], encoding="utf-8")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "afterrun"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def surroundings(folder: Path) -> dict[str, str]:
    """Return the environment of a person's shell."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AFTERRUN_")}
    return environ | {"PATH": f"{folder / 'bin'}:{environ['PATH']}"}


def lines(folder: Path) -> Iterator[tuple[str, subprocess.CompletedProcess[str]]]:
    """Run the lines of the page in order, but the last one; what was exported stays so."""
    exported: list[str] = []
    shown: dict[str, str] = {}
    for line in COMMANDS[:-1]:
        if line.startswith("export "):
            exported.append(line)
            continue
        filled = line
        for name, fingerprint in shown.items():
            filled = filled.replace(f"{name}=FINGERPRINT", f"{name}={fingerprint}")
        done = subprocess.run(
            ["sh", "-c", "; ".join([*exported, filled])],
            cwd=folder,
            env=surroundings(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )
        shown |= dict(re.findall(r"^(\w+) +asks: .* fingerprint ([0-9a-f]{16})", done.stdout, re.MULTILINE))
        yield line, done


def test_the_guide_goes_as_it_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check, ask, look, approve, remove; then the process runs until it is told to stop, and ends with 0."""
    ran = list(lines(folder))
    assert [(line.split(" --approve")[0], done.returncode) for line, done in ran] == [
        ("afterrun config check", Exit.DONE),
        ("afterrun watch --once", Exit.REFUSED),
        ("afterrun plan orders.sqlite --policy afterrun.toml", Exit.DONE),
        ("afterrun watch --once", Exit.DONE),
        ("afterrun history orders.sqlite", Exit.DONE),
    ], [done.stderr for _, done in ran]
    asked = re.findall(r"^(\w+) +asks: (\d+) units", ran[1][1].stdout, re.MULTILINE)
    assert asked == re.findall(r"^(\w+) +asks: (\d+) units", PAGE, re.MULTILINE)
    assert [count(folder / name) for name in ("orders.sqlite", "mail.sqlite")] == [30, 20]
    assert sorted(file.name for file in (folder / "metrics").iterdir()) == ["afterrun.prom", "orders.prom"]
    environ = surroundings(folder) | {
        "MAIL_STORE": "mail.sqlite",
        "AFTERRUN_STATE_DIR": str(folder / "state"),
    }
    with subprocess.Popen(
        shlex.split(COMMANDS[-1]), cwd=folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "watch-began stores=2" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
    assert process.returncode == Exit.DONE
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(folder / "state"))
    for name in ("orders.sqlite", "mail.sqlite"):
        assert ends(folder / name) == ["guard", "completed"]


def test_the_service_of_the_page_is_well_formed(folder: Path) -> None:
    """Its command is one of ours, and it gives a sweep the time to settle."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT[0])
    service = parser["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[:2] == ["/usr/local/bin/afterrun", "watch"]
    words[words.index("--config") + 1] = "afterrun.toml"
    environ = surroundings(folder) | {
        "MAIL_STORE": "mail.sqlite",
        "AFTERRUN_STATE_DIR": str(folder / "state"),
    }
    done = subprocess.run(
        ["afterrun", *words[1:], "--once"], cwd=folder, env=environ, check=False, timeout=DEADLINE
    )
    assert done.returncode == Exit.REFUSED
    assert int(service["TimeoutStopSec"]) > 2
    if shutil.which("systemd-analyze"):
        unit = folder / "afterrun.service"
        unit.write_text(UNIT[0].replace("/usr/local/bin/afterrun", str(folder / "bin" / "afterrun")))
        answer = subprocess.run(
            ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
        )
        assert (answer.returncode, answer.stderr) == (0, "")
