"""Options: what they mean together, how they are spelt, and what an unknown word is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from afterrun.cli.app import app
from afterrun.core.errors import Exit

from .kit import make_store, run_cli


def commands(
    group: click.Group = app, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with the words that lead to it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


OPTIONS = [
    (path, option)
    for path, command in commands()
    for parameter in command.params
    for option in parameter.opts
    if option.startswith("--")
]


def policy_of(store: Path, *words: str | Path) -> dict[str, object]:
    """Return the canonical policy that these options come to."""
    answer = run_cli("plan", store, *words, "--json")
    assert answer.code == Exit.DONE, answer.err
    policy = answer.json["policy"]
    assert isinstance(policy, dict)
    return policy


@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=str)
def test_no_option_can_be_abbreviated(path: tuple[str, ...], option: str) -> None:
    """A beginning of an option is no option, so that a new one never changes what an old line means."""
    known = {other for place, other in OPTIONS if place == path}
    for end in range(3, len(option)):
        word = option[:end]
        if word not in known and word != "--help":
            answer = run_cli(*path, f"{word}=1")
            assert answer.code == Exit.USAGE
            assert f"there is no option '{word}'" in answer.err


@pytest.mark.parametrize("word", ["pl", "pla", "sweeps", "Plan", "PRUNE", "profil"])
def test_no_command_can_be_abbreviated(word: str) -> None:
    """A command has one spelling; another one is answered with the nearest."""
    answer = run_cli(word)
    assert answer.code == Exit.USAGE
    assert f"there is no command '{word}'" in answer.err
    assert ", ".join(app.commands) in answer.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("plan", "x", "--keep-fro", "3d"), "--keep-for"),
        (("plan", "x", "--keeplast", "3"), "--keep-last"),
        (("sweep", "x", "--aprove", "f"), "--approve"),
        (("prune", "x", "--aply"), "--apply"),
        (("verify", "x", "--jsno"), "--json"),
        (("--versoin",), "--version"),
        (("pln",), "plan"),
        (("profile", "chekc"), "check"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(words: tuple[str, ...], meant: str) -> None:
    """An unknown option or command says what may have been meant."""
    answer = run_cli(*words)
    assert answer.code == Exit.USAGE
    assert f"did you mean '{meant}'?" in answer.err


@pytest.mark.parametrize("words", [(), ("profile",), ("plan",), ("explain", "store")])
def test_missing_words_are_a_mistake_of_use(words: tuple[str, ...]) -> None:
    """A command line that lacks a word ends with 2 and points at the help."""
    answer = run_cli(*words)
    assert answer.code == Exit.USAGE
    assert "--help" in answer.err
    assert answer.out == ""


@pytest.mark.parametrize("path", [(), *(path for path, _ in commands())], ids=str)
def test_help_is_printed_for_every_command(path: tuple[str, ...]) -> None:
    """--help and -h print a usage line and end with 0."""
    for word in ("--help", "-h"):
        answer = run_cli(*path, word)
        assert answer.code == Exit.DONE
        assert answer.out.startswith(f"Usage: {' '.join(('afterrun', *path))} ")


def test_the_version_is_printed() -> None:
    """--version prints the name and a number."""
    answer = run_cli("--version")
    assert answer.code == Exit.DONE
    assert answer.out.startswith("afterrun 0.")


def test_the_store_may_stand_in_the_environment(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AFTERRUN_STORE takes the place of STORE; the command line comes first."""
    monkeypatch.setenv("AFTERRUN_STORE", f"sqlite:///{store}")
    assert run_cli("verify").code == Exit.DONE
    assert run_cli("plan", "--keep-for", "30d").code == Exit.DONE
    assert run_cli("verify", "elsewhere").code == Exit.ERROR
    explained = run_cli("explain", "run-3", "--keep-for", "30d", "--json")
    assert explained.json["unit"] == "run-3"
    both = run_cli("explain", store, "run-3", "--keep-for", "30d", "--json")
    assert both.json["unit"] == "run-3"
    assert run_cli("explain", "--keep-for", "30d").code == Exit.USAGE


def test_rules_of_the_command_line_take_the_place_of_those_of_the_file(store: Path, tmp_path: Path) -> None:
    """Each rule that is given replaces that of --policy FILE; pins add up, as they only keep more."""
    settings = tmp_path / "afterrun.toml"
    settings.write_text(
        '[policy]\nkeep_for = "30d"\nkeep_last = 5\ngroup_by = ["name"]\ngrace = "2h"\npins = ["run-1"]\n'
    )
    assert policy_of(store, "--policy", settings) == {
        "keep_for": "30d",
        "keep_last": 5,
        "keep_last_counts": "successful",
        "group_by": ["name"],
        "grace": "2h",
        "pins": 1,
    }
    words = ("--keep-for", "10d", "--keep-last", "1", "--keep-last-counts", "any", "--pin", "run-2")
    assert policy_of(store, "--policy", settings, *words) == {
        "keep_for": "10d",
        "keep_last": 1,
        "keep_last_counts": "any",
        "group_by": ["name"],
        "grace": "2h",
        "pins": 2,
    }


def test_repeated_options_add_up(store: Path) -> None:
    """--group-by and --pin may be repeated."""
    words = ("--keep-last", "1", "--group-by", "name", "--group-by", "application_name")
    policy = policy_of(store, *words, "--pin", "run-30", "--pin", "run-31", "--grace", "0s")
    assert policy["group_by"] == ["name", "application_name"]
    assert policy["pins"] == 2
    assert policy["grace"] == "0s"


def test_a_settings_file_with_a_fault_is_refused(store: Path, tmp_path: Path) -> None:
    """An unknown key of the policy file is an error with its place and the nearest word."""
    settings = tmp_path / "afterrun.toml"
    settings.write_text('[policy]\nkeep_fro = "30d"\n')
    answer = run_cli("plan", store, "--policy", settings)
    assert answer.code == Exit.USAGE
    assert "policy.keep_fro: unknown key (did you mean 'keep_for'?)" in answer.err


def test_a_first_sweep_asks_and_takes_its_fingerprint(store: Path, tmp_path: Path) -> None:
    """Promise 10: the first sweep removes nothing and ends with 4; its fingerprint admits it."""
    asked = run_cli("sweep", store, "--keep-for", "30d", "--json")
    assert (asked.code, asked.json["ended"]) == (Exit.REFUSED, "guard")
    assert asked.json["units"]["tree"]["removed"] == 0
    told = run_cli("sweep", store, "--keep-for", "30d")
    assert f"--approve {asked.json['fingerprint']}" in told.out
    wrong = run_cli("sweep", store, "--keep-for", "30d", "--approve", "0" * 16)
    assert wrong.code == Exit.REFUSED
    done = run_cli("sweep", store, "--keep-for", "30d", "--approve", asked.json["fingerprint"], "--json")
    assert (done.code, done.json["units"]["tree"]["removed"]) == (Exit.DONE, 11)


def test_a_settings_file_can_approve_every_sweep(store: Path, tmp_path: Path) -> None:
    """`approve = true` in the policy file admits the first sweep."""
    settings = tmp_path / "afterrun.toml"
    settings.write_text('approve = true\n[policy]\nkeep_for = "30d"\n')
    answer = run_cli("sweep", store, "--policy", settings, "--offline", "--secure-delete", "--json")
    assert (answer.code, answer.json["units"]["tree"]["removed"]) == (Exit.DONE, 11)


def test_profiles_are_listed_shown_and_checked(store: Path, tmp_path: Path) -> None:
    """A built-in profile is printed as it stands; printed, it can be read again and fits."""
    assert "dbos" in run_cli("profile", "list").out
    shown = run_cli("profile", "show", "dbos")
    assert shown.out.startswith("# DBOS Transact")
    own = tmp_path / "own.toml"
    own.write_text(shown.out, encoding="utf-8")
    assert run_cli("profile", "show", own).out == shown.out
    checked = run_cli("profile", "check", store, "--profile", own, "--json")
    assert (checked.code, checked.json["fits"], checked.json["problems"]) == (Exit.DONE, True, [])
    own.write_text(shown.out.replace('key = "workflow_uuid"', 'key = "workflow_id"', 1), encoding="utf-8")
    misfit = run_cli("profile", "check", store, "--profile", own, "--json")
    assert (misfit.code, misfit.json["fits"]) == (Exit.ERROR, False)
    assert any("no column workflow_id" in problem for problem in misfit.json["problems"])
    assert run_cli("profile", "check", store, "--profile", "dbso").code == Exit.USAGE


def test_the_digest_of_a_shape_makes_a_version_read(tmp_path: Path) -> None:
    """What `profile check` prints, put under detect.read, admits an unknown version of that shape."""
    path = make_store(tmp_path / "next.sqlite", version="999")
    check = run_cli("profile", "check", path, "--json").json
    assert check["schema"]["version"] == "999"
    assert check["digest"] in run_cli("profile", "check", path).out
    own = tmp_path / "own.toml"
    text = run_cli("profile", "show", "dbos").out
    own.write_text(text.replace("[detect.read]", f'[detect.read]\n"998" = "{check["digest"]}"'))
    answer = run_cli("profile", "check", path, "--profile", own, "--json").json
    assert answer["schema"] == {"version": "999", "read": True}
    assert answer["problems"] == []
