"""The reference page and the command line have the same words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from afterrun.cli.explain import LISTED
from afterrun.cli.failure import KINDS
from afterrun.config import PolicyText
from afterrun.core.errors import Exit
from afterrun.core.judge import Verdict

from .kit import run_cli
from .test_cli_options import commands

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTIONS = {section.partition("\n")[0]: section.partition("\n")[2] for section in PAGE.split("\n## ")[1:]}
COMMANDS = {f"afterrun {' '.join(path)}": command for path, command in commands()}
SHARED = ("Options of the policy", "Options of a removal")


def options_of(name: str) -> set[str]:
    """Return the options of a command, by all their names."""
    return {
        option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("-")
    }


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    """A command that is added, renamed or removed changes the page."""
    assert {name for name in SECTIONS if name.startswith("afterrun ")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_has_the_options_of_its_command(name: str) -> None:
    """A section names every option of its command, and no other; what it refers to is a note."""
    rows = [line for line in SECTIONS[name].splitlines() if line.startswith("|")]
    first = {code.split()[0] for row in rows for code in re.findall(r"`(-[^`]+)`", row.split("|")[1])}
    groups = [row for row in rows if row.split("|")[1].strip() in {"policy", "removal"}]
    grouped = {code for row in groups for code in re.findall(r"`(-[^`]+)`", row)}
    assert first | grouped == options_of(name)


def test_shared_options_are_explained_once() -> None:
    """The shared tables explain what sections only name."""
    shared = [set(re.findall(r"^\| `(-[^` ]+)", SECTIONS[name], re.MULTILINE)) for name in SHARED]
    grouped = [
        set(re.findall(r"`(-[^`]+)`", row))
        for kind in ("policy", "removal")
        for row in re.findall(rf"^\| {kind} \|(.*)$", PAGE, re.MULTILINE)
    ]
    assert all(group in shared for group in grouped)
    assert all(group in grouped for group in shared)


def test_no_word_of_the_page_is_an_option_that_does_not_exist() -> None:
    """What the page calls an option can be typed."""
    known = set().union(*map(options_of, COMMANDS)) | {"--"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) <= known


def test_every_exit_code_is_in_the_table_and_no_other() -> None:
    """The table of exit codes is that of the code."""
    rows = re.findall(r"^\| (\d+) \| ([a-z]+) \|", SECTIONS["Exit codes"], re.MULTILINE)
    assert {(int(code), name) for code, name in rows} == {(code.value, code.name.lower()) for code in Exit}


def test_every_key_of_a_policy_file_is_named() -> None:
    """The page names what a [policy] table may hold."""
    assert all(name in SECTIONS["Options of the policy"] for name in PolicyText.model_fields)


def test_the_report_on_the_page_has_the_words_of_a_real_one(store: Path) -> None:
    """The example has exactly the keys that --json prints, at every level."""
    example = json.loads(re.findall(r"```json\n(.*?)```", SECTIONS["JSON of a report"], re.DOTALL)[0])
    real = run_cli("plan", store, "--keep-for", "30d", "--json").json
    assert list(example) == list(real)
    for name in ("schema", "bytes", "backlog", "seconds", "blobs"):
        assert list(example[name]) == list(real[name])
    assert list(example["units"]["tree"]) == list(real["units"]["tree"])


def test_the_explanation_on_the_page_has_the_words_of_a_real_one(store: Path) -> None:
    """The example has exactly the keys that --json prints, at every level."""
    page = SECTIONS["JSON of an explanation"]
    example = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    real = run_cli("explain", store, "run-3", "--keep-for", "30d", "--json").json
    assert list(example) == list(real)
    for name in ("reasons", "members", "rules"):
        assert list(example[name][0]) == list(real[name][0])
    assert all(f"`{verdict.value}`" in page for verdict in Verdict)
    assert f"{LISTED:,} members" in page


def test_every_kind_of_error_has_a_word() -> None:
    """Each class of error has its own line in the table of kinds, the base class last."""
    classes = [known for known, _ in KINDS]
    for place, known in enumerate(classes):
        assert not any(issubclass(known, earlier) for earlier in classes[:place])
