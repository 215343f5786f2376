"""The pages on the server say what it does: every address, every key, and a how-to that is followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from afterrun.server.client import Client
from afterrun.server.http.app import application
from afterrun.server.http.problems import KINDS
from api.api_kit import QueueingHost
from api.serve_kit import PATIENCE, Serving
from api.waiting import eventually

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "server.md").read_text("utf-8")
GUIDE: Final = (DOCS / "howto" / "workflow.md").read_text("utf-8")


def test_every_address_is_on_the_page_and_no_other(host: QueueingHost) -> None:
    """The table is that of the OpenAPI document."""
    document = application(host).openapi()
    wanted = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert set(re.findall(r"^\| `((?:GET|POST) [^`]+)` \|", PAGE, re.MULTILINE)) == wanted


def test_every_status_of_an_error_is_on_the_page(host: QueueingHost) -> None:
    """What a client may meet is told."""
    told = {
        int(code) for row in re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE) for code in row.split(",")
    }
    responses = application(host).openapi()["paths"].values()
    met = {int(code) for methods in responses for each in methods.values() for code in each["responses"]} - {
        200,
        201,
        204,
    }
    assert told == met
    assert {status for _, status, _ in KINDS} <= told


def test_every_call_of_the_client_is_on_the_page() -> None:
    """A method that is added has its word."""
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    calls = {name for name in vars(Client) if not name.startswith("_") and name != "close"}
    assert calls - words == set()


def test_the_how_to_is_followed(tmp_path: Path) -> None:
    """Its files, commands and words come to what it says, a killed server included."""
    [flow] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    [settings] = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "flows.py").write_text(flow)
    (tmp_path / "afterrun.toml").write_text(settings.replace("[server]", '[server]\nlease = "1s"'))
    (tmp_path / "backups").mkdir()
    commands = [line.split("#")[0].strip() for line in re.findall(r"^afterrun (.*)$", GUIDE, re.MULTILINE)]
    assert commands[:2] == ["key new runs.key", "serve runs.sqlite --config afterrun.toml"]
    serving = Serving(tmp_path, ("--config", "afterrun.toml"), app=None)
    with serving:
        assert commands[2] == """run start draft --input '"retention"' --key first --json"""
        start = ("run", "start", "draft", "--input", '"retention"', "--key", "first")
        run = serving.json(*start)["run"]["id"]
        assert serving.json(*start)["run"]["id"] == run
        eventually(lambda: serving.json("run", "show", run)["questions"])
        serving.kill()
    assert commands[4] == "run decide RUN yes --by somebody"
    serving.run("run", "decide", run, "yes", "--by", "somebody")
    with serving:
        [promise] = re.findall(r'prints `("yes[^`]+)`', GUIDE)
        assert serving.run("run", "result", run, "--wait", str(PATIENCE)) == f"{promise}\n"
        assert commands[-2:] == [
            "plan --keep-for 30d",
            'prune --keep-for 30d --apply --yes --backup "$PWD/backups/before.sqlite"',
        ]
        backup = str(tmp_path / "backups" / "before.sqlite")
        serving.run("plan", "--keep-for", "30d")
        serving.run("prune", "--keep-for", "30d", "--apply", "--yes", "--backup", backup)
    assert (tmp_path / "published.txt").read_text() == "All about retention.\n"


def test_the_example_of_the_client_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader who copies it gets the greeting."""
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with Serving(tmp_path) as serving:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("AFTERRUN_STATE_DIR", str(serving.state))
        exec(compile(example, "server.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "HELLO, YOU\n"
