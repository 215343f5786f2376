"""The recipes can be followed: their files are well formed, and every command line of ours in them runs."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
import yaml

from afterrun.cli.app import app
from afterrun.core.errors import Exit
from cli.kit import COMMAND, count, make_store, run_cli

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "recipes"
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
CRONTAB = (RECIPES / "cron" / "afterrun.crontab").read_text(encoding="utf-8").splitlines()
COMPOSE = RECIPES / "compose" / "compose.yaml"
LOOP = RECIPES / "compose" / "sweep-loop.sh"
SERVICE = RECIPES / "systemd" / "afterrun-sweep.service"
TIMER = RECIPES / "systemd" / "afterrun-sweep.timer"
KEPT = 30
"""Of 40 runs that ended 1, 2, 3 ... days ago, those within 30 days, and the live one."""


def unit(path: Path) -> configparser.ConfigParser:
    """Read a unit of systemd; a key that comes twice in a section counts as its last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def environment_of(path: Path) -> Mapping[str, str]:
    """Return the variables that a unit sets."""
    lines = re.findall(r"^Environment=(\w+)=(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(lines)


def compose() -> dict[str, dict[str, dict[str, object]]]:
    """Read the Compose file."""
    found = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def cron_entry() -> tuple[Mapping[str, str], str]:
    """Return the variables of the crontab and the command of its one entry."""
    lines = [line for line in CRONTAB if line and not line.startswith("#")]
    variables = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    entries = [line for line in lines if not re.match(r"[A-Z_]+=", line)]
    assert len(entries) == 1
    return variables, entries[0].split(None, 5)[5]


def sweep_words() -> dict[str, list[str]]:
    """Return the words after `afterrun` of the sweep in each recipe."""
    cron = re.search(r"/afterrun (sweep [^|;&>]*?) 2>", cron_entry()[1])
    assert cron is not None
    loop = re.search(r"afterrun (sweep) \"\$@\"", LOOP.read_text(encoding="utf-8"))
    assert loop is not None
    options = compose()["services"]["afterrun"]["command"]
    assert isinstance(options, list)
    start = shlex.split(unit(SERVICE)["Service"]["ExecStart"])
    assert start[0].endswith("/afterrun")
    return {"cron": shlex.split(cron[1]), "systemd": start[1:], "compose": [loop[1], *options]}


def page_words() -> Iterator[list[str]]:
    """Yield the words after `afterrun` of each command line of the page."""
    for line in SHELL:
        found = re.search(r"(?:^|exec afterrun )afterrun (.*)$", line)
        if found:
            yield shlex.split(found[1])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the store and the surroundings of a recipe, without a word in the environment."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AFTERRUN_STORE", str(tmp_path / "app.sqlite"))
    monkeypatch.delenv("AFTERRUN_SCAN_PATH", raising=False)
    return make_store(tmp_path / "app.sqlite")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Make a folder with an `afterrun` that is this source."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "afterrun"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return folder


def in_place(words: list[str], store: Path, fingerprint: str) -> list[str]:
    """Put a real folder and fingerprint where a recipe has its own."""
    return [word.replace("/srv/app", str(store.parent)).replace("FINGERPRINT", fingerprint) for word in words]


def test_the_first_sweep_of_the_page_goes_as_it_says(store: Path) -> None:
    """Line by line: looking ends with 0, the first sweep asks, the approved one removes, and is on record."""
    codes, fingerprint = [], ""
    for words in page_words():
        answer = run_cli(*in_place(words, store, fingerprint))
        codes.append((words[0], int(answer.code)))
        found = re.search(r"fingerprint +([0-9a-f]{16})", answer.out)
        fingerprint = found[1] if found else fingerprint
    assert codes == [
        ("scan", 0),
        ("inspect", 0),
        ("plan", 0),
        ("sweep", 4),
        ("sweep", 0),
        ("history", 0),
        ("sweep", 0),  # as in the container, where the same approval was given
        ("history", 0),
    ]
    assert count(store) == KEPT


@pytest.mark.parametrize("recipe", ["cron", "systemd", "compose"])
def test_the_sweep_of_a_recipe_asks_first_and_then_removes(recipe: str, store: Path) -> None:
    """Each recipe's own words end with 4, then, approved, with 0, and from then on with 0 unasked."""
    words = sweep_words()[recipe]
    guarded = run_cli(*words, "--json")
    assert (guarded.code, count(store)) == (Exit.REFUSED, 41)
    assert run_cli(*words, "--approve", guarded.json["fingerprint"]).code == Exit.DONE
    assert count(store) == KEPT
    assert run_cli(*words).code == Exit.DONE


def test_all_recipes_have_the_policy_that_the_page_approves(store: Path) -> None:
    """A fingerprint from the page's first sweep admits the sweep of each recipe."""
    asked = [words for words in page_words() if words[0] == "sweep" and "--approve" not in words]
    lines = [*asked, *sweep_words().values()]
    assert len({run_cli(*words, "--json").json["fingerprint"] for words in lines}) == 1


def test_every_word_of_ours_exists() -> None:
    """Commands and options that the recipes and their page use can be typed."""
    lines = [*page_words(), *sweep_words().values()]
    assert len(lines) >= 10
    for command, *words in lines:
        known = app.commands[command]
        options = {option for parameter in known.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options
    named = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert named <= {
        option
        for command in app.commands.values()
        if not isinstance(command, click.Group)
        for parameter in command.params
        for option in parameter.opts
    }


def test_the_recipes_share_one_store_and_one_state() -> None:
    """The page, cron and systemd name the same store and state directory, and the unit may write to both."""
    exported = dict(word.split("=", 1) for word in shlex.split(SHELL[0])[1:])
    variables = dict(cron_entry()[0])
    variables.pop("MAILTO")
    assert variables == exported == environment_of(SERVICE)
    service = unit(SERVICE)["Service"]
    assert Path(exported["AFTERRUN_STORE"]).parent == Path(service["ReadWritePaths"])
    assert Path(exported["AFTERRUN_STATE_DIR"]) == Path("/var/lib") / service["StateDirectory"]


def test_every_file_of_a_recipe_is_on_the_page() -> None:
    """No recipe is left unexplained, and the page links to no file that is not there."""
    files = {str(path.relative_to(ROOT)) for path in RECIPES.rglob("*") if path.is_file()}
    linked = set(re.findall(r"\]\(\.\./(recipes/[^)]+)\)", PAGE))
    assert linked == files
    assert all((ROOT / word).exists() for line in SHELL for word in line.split() if "recipes/" in word)


# ------------------------------------------------------------------------------------------ cron


def run_cron(store: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the crontab's entry as cron does: by /bin/sh, with its variables and hardly any others."""
    variables, command = cron_entry()
    assert "%" not in command  # which cron takes for the end of a line
    home = {"HOME": str(store.parent), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    own = {"AFTERRUN_STORE": str(store), "AFTERRUN_STATE_DIR": str(store.parent / "state")}
    assert own.keys() <= variables.keys()
    line = command.replace("/usr/local/bin/afterrun", str(programs / "afterrun"))
    return subprocess.run(
        ["/bin/sh", "-c", line], env=home | own, capture_output=True, text=True, check=False, timeout=60
    )


def test_cron_speaks_only_when_a_person_is_needed(store: Path, programs: Path) -> None:
    """The first sweep mails its fingerprint; an approved one, and one beside another, mail nothing."""
    first = run_cron(store, programs)
    assert first.returncode == Exit.REFUSED
    assert "afterrun ended with 4" in first.stdout
    fingerprint = re.findall(r"fingerprint +([0-9a-f]{16})", first.stdout)[0]
    assert run_cli(*sweep_words()["cron"], "--approve", fingerprint).code == Exit.DONE
    again = run_cron(store, programs)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    hold = f"exec flock --nonblock {shlex.quote(f'{store}.afterrun-lock')} cat"
    with subprocess.Popen(["/bin/sh", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write(b"held\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"held\n"
        beside = run_cron(store, programs)
        holder.stdin.close()
    assert (beside.returncode, beside.stdout, beside.stderr) == (0, "", "")


def test_cron_has_a_schedule() -> None:
    """The entry has five fields of time before its command."""
    entry = next(line for line in CRONTAB if re.match(r"[0-9*]", line))
    assert re.match(r"(?:[0-9*/,-]+ ){5}\S", entry)


# --------------------------------------------------------------------------------------- systemd


def test_units_are_accepted_by_systemd(tmp_path: Path, programs: Path) -> None:
    """Units have the sections they need, and systemd, where it is installed, finds no fault in them."""
    for path in (SERVICE, TIMER):
        text = path.read_text(encoding="utf-8").replace("/usr/local/bin", str(programs))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    assert unit(SERVICE).sections() == ["Unit", "Service"]
    assert unit(TIMER).sections() == ["Unit", "Timer", "Install"]
    assert TIMER.stem == SERVICE.stem  # the timer starts the service of its name
    if shutil.which("systemd-analyze"):
        command = ["systemd-analyze", "verify", *(str(tmp_path / path.name) for path in (SERVICE, TIMER))]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (answer.returncode, answer.stderr) == (0, "")


def test_systemd_takes_only_what_mends_itself_for_success() -> None:
    """Deferred units and a held store are no failure of the service; asking, refusing and failing are."""
    codes = set(map(int, unit(SERVICE)["Service"]["SuccessExitStatus"].split()))
    assert codes == {Exit.DEFERRED, Exit.LOCKED}


# --------------------------------------------------------------------------------------- compose


def test_two_containers_share_the_store_and_one_has_the_state() -> None:
    """Engine and afterrun run as one user on one volume; the state directory is on another."""
    found = compose()
    engine, ours = found["services"]["engine"], found["services"]["afterrun"]
    assert engine["user"] == ours["user"]
    assert engine["volumes"] == ["store:/data"]
    assert ours["volumes"] == ["store:/data", "state:/state"]
    assert set(found["volumes"]) == {"store", "state"}
    variables = ours["environment"]
    assert isinstance(variables, dict)
    assert Path(variables["AFTERRUN_STORE"]).parent == Path("/data")
    assert variables["AFTERRUN_STATE_DIR"] == "/state"
    assert all(isinstance(value, str) for value in variables.values())


def test_the_image_is_built_from_files_that_are_there() -> None:
    """What the Dockerfile copies exists in its context, and is enough for the package."""
    build = compose()["services"]["afterrun"]["build"]
    assert isinstance(build, dict)
    context = (COMPOSE.parent / build["context"]).resolve()
    text = (context / build["dockerfile"]).read_text(encoding="utf-8")
    assert context == ROOT
    copied = [
        word
        for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE)
        for word in shlex.split(line)[:-1]
        if not word.startswith("--")
    ]
    assert all((context / name).exists() for name in copied)
    assert {"pyproject.toml", "src", "LICENSE", str(LOOP.relative_to(ROOT))} <= set(copied)
    assert re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE) == ['["sweep-loop"]']


def start_loop(store: Path, programs: Path, *, every: str) -> subprocess.Popen[str]:
    """Start the container's loop as its entry point does."""
    surroundings = os.environ | {"SWEEP_EVERY": every, "PATH": f"{programs}:{os.environ['PATH']}"}
    options = sweep_words()["compose"][1:]
    return subprocess.Popen(
        ["/bin/sh", str(LOOP), *options],
        env=surroundings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends(loop: subprocess.Popen[str], times: int) -> list[str]:
    """Return how the next sweeps of the loop ended."""
    assert loop.stderr is not None
    found = (line for line in loop.stderr if line.startswith("sweep-loop:"))
    return [next(found).strip().rpartition(" ")[2] for _ in range(times)]


def test_the_loop_sweeps_again_and_again_and_stops_at_a_word(store: Path, programs: Path) -> None:
    """Guarded, it goes on asking; approved from beside, it removes; SIGTERM while it waits ends it with 0."""
    with start_loop(store, programs, every="0") as loop:
        assert ends(loop, 2) == ["4", "4"]
        words = sweep_words()["compose"]
        fingerprint = run_cli("plan", *words[1:3], "--json").json["fingerprint"]
        while run_cli(*words, "--approve", fingerprint).code == Exit.LOCKED:  # the loop sweeps just now
            pass
        while ends(loop, 1) != ["0"]:  # one that had begun before the approval
            pass
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=60)
    assert count(store) == KEPT
    assert loop.returncode == 0
    with start_loop(store, programs, every="86400") as loop:
        assert ends(loop, 1) == ["0"]
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=60)
    assert loop.returncode == 0


def test_the_loop_stops_whenever_the_word_comes(store: Path, programs: Path) -> None:
    """Just as a pause begins, too: a process that is not yet `sleep` must not outlive the loop."""
    (programs / "afterrun").write_text("#!/bin/sh\n", encoding="utf-8")
    for _ in range(60):
        with start_loop(store, programs, every="86400") as loop:
            assert ends(loop, 1) == ["0"]
            loop.send_signal(signal.SIGTERM)
            loop.communicate(timeout=60)  # which waits for all who hold the pipe
        assert loop.returncode == 0
