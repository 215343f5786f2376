"""Profiles come from outside: everything about them is checked, and every fault is told at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from afterrun.core.errors import Exit, ProfileError
from afterrun.profiles import built_in_names, load_built_in, load_file, load_profile
from afterrun.profiles.loader import MAX_PROFILE_BYTES, built_in_text

SMALL = """
name = "small"
engine = "Small"
[detect]
tables = ["runs"]
version = { table = "version", column = "number" }
[units.tree]
table = "runs"
key = "id"
status = "status"
terminal = ["done", "failed"]
live = [["running"]]
end = [{ column = "ended", format = "epoch_ms" }]
edges = [{ column = "parent", via = { table = "steps", key = "id", owner = "run" } }]
lookup.cur = { table = "current", on = { run = "id" } }
protect = [
  { reason = "queued", table = "queue", column = "run", where = { state = { in = ["waiting"] } } },
  { reason = "held", where = { hold = { equals = 1 } } },
]
owned = [{ table = "steps", column = "run" }]
"""


def problems(text: str) -> tuple[str, ...]:
    """Load a profile that is wrong and return what is told of it."""
    with pytest.raises(ProfileError) as caught:
        load_profile(text, source="mine.toml")
    assert str(caught.value).startswith("the profile mine.toml is not valid")
    assert caught.value.exit_code is Exit.USAGE
    return caught.value.problems


def changed(old: str, new: str) -> str:
    """Return the small profile with one part changed."""
    assert old in SMALL
    return SMALL.replace(old, new, 1)


def test_the_small_profile_is_valid() -> None:
    """What the other tests damage is sound."""
    assert load_profile(SMALL, source="mine.toml").units.tree.key == "id"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("engine =", 'engin = "x"\nengine =', "engin: unknown key (did you mean 'engine'?)"),
        ("[units.tree]", "[unit]\n[units.tree]", "unit: unknown key (did you mean 'units'?)"),
        ("tables = [", "tabels = []\ntables = [", "detect.tabels: unknown key (did you mean 'tables'?)"),
        (
            "tables = [",
            'schemas = "x"\ntables = [',
            "detect.schemas: unknown key (did you mean 'schema'?)",
        ),
        (
            'column = "number"',
            'column = "number", colunm = "x"',
            "detect.version.colunm: unknown key (did you mean 'column'?)",
        ),
        ("[units.tree]", "[units.tre]\n[units.tree]", "units.tre: unknown key (did you mean 'tree'?)"),
        ("key =", 'keys = ["id"]\nkey =', "units.tree.keys: unknown key (did you mean 'key'?)"),
        (
            'format = "epoch_ms"',
            'formt = "x", format = "epoch_ms"',
            "units.tree.end.0.formt: unknown key (did you mean 'format'?)",
        ),
        (
            'key = "id", owner',
            'key = "id", onwer = "run", owner',
            "units.tree.edges.0.via.onwer: unknown key (did you mean 'owner'?)",
        ),
        (
            "lookup.cur = { ",
            'lookup.cur = { tabel = "x", ',
            "units.tree.lookup.cur.tabel: unknown key (did you mean 'table'?)",
        ),
        (
            'reason = "queued"',
            'reason = "queued", by_life = "x"',
            "units.tree.protect.0.by_life: unknown key (did you mean 'by_live'?)",
        ),
        (
            'in = ["waiting"]',
            'in = ["waiting"], not_inn = []',
            "units.tree.protect.0.where.state.not_inn: unknown key (did you mean 'not_in'?)",
        ),
        (
            'table = "steps", column = "run"',
            'table = "steps", column = "run", optinal = true',
            "units.tree.owned.0.optinal: unknown key (did you mean 'optional'?)",
        ),
        (
            'format = "epoch_ms" }]',
            'format = "epoch_ms", rows = { table = "steps", tabel = "x", on = { run = "id" } } }]',
            "units.tree.end.0.rows.tabel: unknown key (did you mean 'table'?)",
        ),
    ],
)
def test_an_unknown_key_is_told_with_its_place(old: str, new: str, told: str) -> None:
    """At every level, a key that the model lacks is an error with its path and the nearest known one."""
    assert problems(changed(old, new)) == (told,)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            'format = "epoch_ms" }]',
            'format = "epoch_ms", rows = { table = "steps", on = { run = "id" }, where = { x = LATER } } }]',
            "units.tree.end.0.rows: the rows that tell a time cannot depend on the clock: x has future",
        ),
        (
            "owned = [",
            'unlinked = [{ table = "steps", column = "run" }]\nowned = [',
            "units.tree: steps goes with its runs, so no row of it stays unlinked",
        ),
        (
            "owned = [",
            'unlinked = [{ table = "runs", column = "base" }]\nowned = [',
            "units.tree: runs goes with its runs, so no row of it stays unlinked",
        ),
    ],
)
def test_rows_that_tell_a_time_and_rows_that_stay_make_sense(old: str, new: str, told: str) -> None:
    """A time does not change as the clock goes on, and what goes with a run loses no link to it."""
    assert problems(changed(old, new.replace("LATER", '{ future = "epoch_ms" }'))) == (told,)


@pytest.mark.parametrize("place", ['{ state = { in = ["waiting"] } }', "{ hold = { equals = 1 } }"])
def test_a_lease_has_a_zone(place: str) -> None:
    """A time in an unknown zone may be an end, never what a protection waits for."""
    told = problems(changed(place, '{ until = { future = "text_local" } }'))
    assert len(told) == 1
    assert told[0].startswith("units.tree.protect.")


def test_an_engine_may_keep_no_version() -> None:
    """Its store is told by its shape alone."""
    text = changed('version = { table = "version", column = "number" }\n', "")
    assert load_profile(text, source="mine.toml").detect.version is None


def test_all_faults_are_told_at_once() -> None:
    """A file with many faults names each of them."""
    text = (
        SMALL.replace('key = "id"\n', "")
        .replace("engine =", "motor =")
        .replace('"epoch_ms"', '"unix"')
        .replace('terminal = ["done", "failed"]', "terminal = []")
    )
    told = "\n".join(problems(text))
    places = ("engine", "motor", "units.tree.key", "units.tree.terminal", "units.tree.end.0.format")
    assert [place for place in places if f"{place}: " not in told] == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('name = "small"', "name = 5", "name"),
        ('name = "small"', 'name = "Small Name"', "name"),
        ('tables = ["runs"]', 'tables = "runs"', "detect.tables"),
        ('tables = ["runs"]', "tables = []", "detect.tables"),
        ('tables = ["runs"]', 'tables = ["runs", 3]', "detect.tables.1"),
        ('tables = ["runs"]', 'tables = ["runs"]\nread = ["1"]', "detect.read"),
        ('tables = ["runs"]', 'tables = ["runs"]\nread = { "1" = "short" }', "detect.read.1"),
        ('key = "id"\n', 'key = ""\n', "units.tree.key"),
        ('key = "id"\n', 'key = "a\\u0000b"\n', "units.tree.key"),
        ('key = "id"\n', 'key = "id"\nmax_depth = "5"\n', "units.tree.max_depth"),
        ('key = "id"\n', 'key = "id"\nmax_depth = 0\n', "units.tree.max_depth"),
        ('key = "id"\n', 'key = "id"\nmissing = "ignore"\n', "units.tree.missing"),
        ('format = "epoch_ms"', 'format = "epoch_ms", rare = "yes"', "units.tree.end.0.rare"),
        ('live = [["running"]]', 'live = ["running"]', "units.tree.live.0"),
        ("equals = 1", "equals = 1.5", "units.tree.protect.1.where.hold.equals"),
        ("equals = 1", 'null = "yes"', "units.tree.protect.1.where.hold.null"),
        ("equals = 1", "in = []", "units.tree.protect.1.where.hold.in"),
        ("equals = 1", 'future = "tomorrow"', "units.tree.protect.1.where.hold.future"),
        ('reason = "held"', 'reason = "Held!"', "units.tree.protect.1.reason"),
        ('owned = [{ table = "steps", column = "run" }]', 'owned = ["steps"]', "units.tree.owned.0"),
    ],
)
def test_a_value_of_a_wrong_kind_is_told_with_its_place(old: str, new: str, place: str) -> None:
    """Types are checked and not guessed."""
    told = problems(changed(old, new))
    assert told
    assert all(line.startswith(place) for line in told)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('live = [["running"]]', 'live = [["done"]]', "'done' is listed as live and as terminal"),
        ('live = [["running"]]', 'successful = ["ok"]', "'ok' is successful but not terminal"),
        (
            'status = "status"',
            'status = "curr.status"',
            "'curr.status' uses a lookup 'curr' that is not defined",
        ),
        ("where = { hold =", 'where = { "x.hold" =', "'x.hold' uses a lookup 'x' that is not defined"),
        (
            'end = [{ column = "ended"',
            'seen = [{ column = "curr.at", format = "epoch_ms" }]\nend = [{ column = "ended"',
            "'curr.at' uses a lookup 'curr' that is not defined",
        ),
        ('column = "run", where', 'column = "run", by_live = "owner", where', None),
        ('table = "queue", column = "run"', 'table = "queue"', "table and column go together"),
        ('table = "queue", column = "run"', 'table = "queue", all_runs = true', None),
        ('column = "run", where', 'column = "run", all_runs = true, where', "all_runs goes with a table"),
        ('reason = "held"', 'reason = "held", all_runs = true', "all_runs goes with a table"),
        ('reason = "held"', 'reason = "held", optional = true', "optional and overdue are of a table"),
        (", where = { hold = { equals = 1 } }", "", "without a table, a protection is a condition"),
        ("{ equals = 1 }", "{}", "an empty condition holds always"),
        ('owned = [{ table = "steps"', 'owned = [{ table = "runs"', "runs is the run table"),
        (
            'owned = [{ table = "steps", column = "run" }',
            'owned = [{ table = "steps", column = "run" }, { table = "steps", column = "by" }',
            "steps is listed twice",
        ),
        (
            'column = "run" }]\n',
            (
                'column = "run" }, { table = "logs", column = "step", '
                'via = { table = "steps", key = "id", owner = "run" } }]\n'
            ),
            "logs is found through steps, which goes before it",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(old: str, new: str, told: str | None) -> None:
    """Checks across fields find what no field alone can show; the one sound change among them passes."""
    if told is None:
        load_profile(changed(old, new), source="mine.toml")
        return
    (line,) = problems(changed(old, new))
    assert told in line


ASIDE = 'aside = { due = "due", again = "again" }\nprotect = ['
"""Two columns of the run's own row."""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("lookup.cur", "lookup.cur", "aside is for trees whose rows are all in the run table and owned"),
        ('column = "run", where', 'column = "run", by_live = "by", where', "aside does not go with queued"),
        ('table = "queue", column = "run"', 'table = "queue", all_runs = true', "does not go with queued"),
        ("{ equals = 1 }", '{ future = "epoch_ms" }', "held, which ends by itself and is of no table"),
        ("{ equals = 1 }", "{ equals = 1 }", None),
        ('{ in = ["waiting"] }', '{ future = "epoch_ms" }', None),
    ],
)
def test_nothing_is_set_aside_that_a_change_elsewhere_may_let_go(
    old: str, new: str, told: str | None
) -> None:
    """Whoever changes that would not bring the tree back."""
    text = changed(old, new).replace("protect = [", ASIDE)
    if old != "lookup.cur":
        text = re.sub(r"lookup.cur.*\n", "", text)
    if told is None:
        assert load_profile(text, source="mine.toml").units.tree.aside is not None
        return
    (line,) = problems(text)
    assert told in line


def test_superseded_generations_that_a_sweep_reads_have_one_end_and_have_ended() -> None:
    """They are read in the order of that end."""
    text = built_in_text("native")
    live = text.replace('superseded = "continued"', 'superseded = "running"')
    assert problems(live) == ("units.generation: 'running' is superseded but not terminal",)
    end = '{ column = "ended_at", format = "epoch_us" }'
    both = text.replace(f'"continued"\nend = [{end}]', f'"continued"\nend = [{end}, {end}]')
    (line,) = problems(both)
    assert "that is one column" in line


BLOBS = """
[[blobs]]
table = "payloads"
key = "digest"
created = { column = "stored", format = "epoch_ms" }
pins = { table = "pins", column = "digest", until = "lease", format = "epoch_ms" }
references = [{ table = "steps", column = "output" }]
"""


def test_a_profile_may_have_blobs() -> None:
    """They are an array of tables, each whole."""
    (blobs,) = load_profile(SMALL + BLOBS, source="mine.toml").blobs
    assert (blobs.table, blobs.key, blobs.size) == ("payloads", "digest", None)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            'key = "digest"\n',
            'key = "digest"\nsise = "x"\n',
            "blobs.0.sise: unknown key (did you mean 'size'?)",
        ),
        ("lease", "\\u0007", "blobs.0.pins.until: String should match pattern"),
        ("until", "til", "blobs.0.pins.til: unknown key (did you mean 'until'?)"),
        ("epoch_ms", "epoch", "blobs.0.created.format: Input should be"),
        (
            '[{ table = "steps", column = "output" }]',
            "[]",
            "blobs.0.references: Tuple should have at least 1",
        ),
        (
            '"output" }',
            '"output" }, { table = "steps", column = "output" }',
            "references lists a column twice",
        ),
        ('table = "pins"', 'table = "payloads"', "blobs.0: pins are rows of a table of their own"),
        ('table = "pins"', 'table = "steps"', "profile: steps goes with its runs, so it holds no pins"),
        ('"steps", column = "output"', '"pins", column = "digest"', "a column of pins is no reference"),
        ('table = "payloads"', 'table = "runs"', "profile: runs goes with its runs, so it holds no blobs"),
        ('"payloads"', '"steps"', "profile: steps goes with its runs, so it holds no blobs"),
    ],
)
def test_faults_of_blobs_are_told_with_their_place(old: str, new: str, told: str) -> None:
    """Unknown keys, wrong values, and parts that contradict each other."""
    assert old in BLOBS
    assert any(told in problem for problem in problems(SMALL + BLOBS.replace(old, new, 1)))


def test_a_table_of_blobs_is_listed_once() -> None:
    """Two entries could say different things of it."""
    assert problems(SMALL + BLOBS + BLOBS) == ("profile: payloads is listed twice under blobs",)


def test_a_reference_by_live_runs_needs_the_live_states() -> None:
    """Without a list of live states, by_live would protect nothing."""
    text = changed('live = [["running"]]\n', "").replace(
        'column = "run", where', 'column = "run", by_live = "r", where'
    )
    (line,) = problems(text)
    assert "by_live needs the list of live states" in line


@pytest.mark.parametrize(
    "line",
    [
        'sql = "DELETE FROM runs"',
        'decode = "os:system"',
        'keep_set = "package.module:function"',
        'where = "1 = 1"',
        'before_sweep = "lock"',
    ],
)
def test_a_profile_can_name_neither_code_nor_sql(line: str) -> None:
    """Profiles are data: there is no key for SQL or for an import path."""
    (told,) = problems(changed('key = "id"\n', f'key = "id"\n{line}\n'))
    assert "unknown key" in told


def test_sql_in_the_place_of_a_name_is_a_name() -> None:
    """Text that looks like SQL is only ever taken for a column, which then does not exist."""
    profile = load_profile(changed('key = "id"\n', "key = '\"; DROP TABLE runs; --'\n"), source="mine.toml")
    assert profile.units.tree.key == '"; DROP TABLE runs; --'


def test_text_that_is_no_toml_is_refused() -> None:
    """The parser's own words say where."""
    with pytest.raises(ProfileError, match=r"mine\.toml is not valid TOML: .*line 2"):
        load_profile("name = 'x'\nengine = =", source="mine.toml")


def test_deeply_nested_text_is_refused() -> None:
    """A file that would exhaust the parser's stack is an error like any other."""
    with pytest.raises(ProfileError, match="not valid"):
        load_profile(f"name = {'[' * 100_000}", source="mine.toml")


# Files


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Name a profile's file."""
    return tmp_path / "mine.toml"


def refused(file: Path) -> str:
    """Load a file that is no profile and return what is told."""
    with pytest.raises(ProfileError) as caught:
        load_file(file)
    assert str(file) in str(caught.value)
    return str(caught.value)


def test_a_file_is_read_like_a_built_in_profile(file: Path) -> None:
    """A user's own profile takes the same path as one of the package."""
    file.write_text(built_in_text("dbos"), encoding="utf-8")
    assert load_file(file) == load_built_in("dbos")


def test_a_missing_file_is_told(file: Path) -> None:
    """A wrong path is an error of the request."""
    assert "cannot be read: No such file" in refused(file)


def test_a_directory_is_no_profile(file: Path) -> None:
    """A folder is refused by what it is."""
    file.mkdir()
    assert "not a regular file" in refused(file)


@pytest.mark.timeout(10)
def test_a_fifo_is_refused_without_waiting_for_a_writer(file: Path) -> None:
    """A FIFO nobody writes to does not hang the command."""
    os.mkfifo(file)
    assert "not a regular file" in refused(file)


def test_a_device_is_no_profile() -> None:
    """An endless file is not read."""
    assert "not a regular file" in refused(Path("/dev/zero"))


def test_bytes_that_are_no_utf8_are_refused(file: Path) -> None:
    """TOML is UTF-8, and nothing is guessed."""
    file.write_bytes(b'name = "\xff\xfe"')
    assert "not UTF-8" in refused(file)


@pytest.mark.parametrize(("extra", "fits"), [(0, True), (1, False)])
def test_a_file_that_is_too_large_is_refused(file: Path, extra: int, fits: bool) -> None:
    """The limit is exact, and no more than it is read."""
    text = SMALL.encode()
    file.write_bytes(text + b"#" * (MAX_PROFILE_BYTES - len(text) + extra))
    if fits:
        assert load_file(file).name == "small"
    else:
        assert "larger than" in refused(file)


# Built-in profiles


def test_an_unknown_name_suggests_the_nearest() -> None:
    """A typing error in a profile's name is answered with the right one."""
    with pytest.raises(ProfileError, match=r"there is no profile 'dbso' \(did you mean 'dbos'\?\)"):
        load_built_in("dbso")


@pytest.mark.parametrize("name", ["../dbos", "dbos.toml", "", "model"])
def test_a_name_is_never_a_path(name: str) -> None:
    """A built-in name names no other file of the package."""
    with pytest.raises(ProfileError, match="there is no profile"):
        load_built_in(name)


def test_there_are_built_in_profiles() -> None:
    """The tests below test something."""
    assert "dbos" in built_in_names()


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_profile_begins_with_the_versions_it_was_read_from(name: str) -> None:
    """The first line names the engine and each version that was read; the list of schemas agrees."""
    profile = load_built_in(name)
    first = built_in_text(name).splitlines()[0]
    assert profile.name == name
    assert re.match(rf"# {profile.engine}\b.* Read from ", first)
    for version in profile.detect.read:
        assert re.search(rf"\d+\.\d+\.\d+ \((schema )?{re.escape(version)}\)", first), version


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_profile_lists_a_shape_for_each_version(name: str) -> None:
    """No version of a built-in profile is known by its number alone."""
    assert all(load_built_in(name).detect.read.values())


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_profile_holds_no_sql(name: str) -> None:
    """Nothing in the file reads like a statement."""
    code = "\n".join(line.partition("#")[0] for line in built_in_text(name).splitlines())
    assert not re.search(r"\b(SELECT|DELETE|INSERT|UPDATE|FROM|WHERE)\b", code)


ROWS = """
[units.rows.logs]
table = "log"
key = ["id"]
end = { column = "at", format = "epoch_ms" }
"""


def test_row_tables_are_read() -> None:
    """A profile names its row tables, and all tables that they speak of are mentioned."""
    rows = load_profile(SMALL + ROWS, source="mine.toml").units.rows["logs"]
    assert rows.tables == ("log",)
    assert rows.mentioned == {"log"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('status = "state"', "units.rows.logs: status and terminal go together"),
        ('terminal = ["x"]', "units.rows.logs: status and terminal go together"),
        ('owned = [{ table = "log", column = "id" }]', "units.rows.logs: owned lists the row's own table"),
        ('owned = [{ table = "runs", column = "log" }]', "units: rows.logs takes rows of runs"),
        ('parition = ["x"]', "units.rows.logs.parition: unknown key (did you mean 'partition'?)"),
        (
            'protect = [{ table = "queue", colum = "x" }]',
            "units.rows.logs.protect.0.colum: unknown key (did you mean 'column'?)",
        ),
    ],
)
def test_a_row_table_that_makes_no_sense_is_refused(more: str, told: str) -> None:
    """What a row table says must fit together."""
    assert any(problem.startswith(told) for problem in problems(SMALL + ROWS + more + "\n"))


def test_rows_that_refer_to_blobs_are_no_row_table() -> None:
    """Only what goes with runs tells which blobs it referred to."""
    blobs = """
[[blobs]]
table = "payloads"
key = "digest"
references = [{ table = "log", column = "body" }]
"""
    assert problems(SMALL + ROWS + blobs) == (
        "profile: log refers to blobs of payloads, so it goes with runs and is no row table",
    )


def test_several_key_columns_are_held_by_none() -> None:
    """A row with a key of several columns is referred to by a column that the profile names."""
    text = (SMALL + ROWS).replace(
        'key = ["id"]\nend = { column = "at"', 'key = ["a", "b"]\nend = { column = "at"'
    )
    assert load_profile(text, source="mine.toml").units.rows["logs"].key == ("a", "b")
    held = 'protect = [{ table = "queue", column = "log" }]\n'
    assert "a key of several columns" in problems(text + held)[0]
    own = 'protect = [{ table = "queue", column = "log", own = "a" }]\n'
    assert load_profile(text + own, source="mine.toml")
