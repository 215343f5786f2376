"""Names, patterns, mount tables, times: the pure parts, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterrun.core.facts import UNREADABLE
from afterrun.profiles.directory import StatusFile
from afterrun.profiles.registry import NameCode, TimeFormat
from afterrun.stores.directory.mounts import is_mounted, mount_points
from afterrun.stores.directory.names import Proposal, Source, filled, matches, spelled, unsafe, validate
from afterrun.stores.directory.records import instant_of, parse, status_of, values
from afterrun.stores.directory.usage import held_inodes, is_open

RUNS = (Source.of("runs/*", folders=True), Source.of("nested/*/*", folders=True))
FILES = (Source.of("results/*.json", folders=False),)


def test_a_proposal_is_admitted_only_as_what_its_source_names() -> None:
    """A plain folder for runs, a plain file for results."""
    assert validate(Proposal(0, ("runs", "a"), folder=True), RUNS) is None
    assert validate(Proposal(1, ("nested", "a", "b"), folder=True), RUNS) is None
    fault = validate(Proposal(0, ("runs", "a"), folder=False), RUNS)
    assert fault is not None
    assert fault.name == "unsafe-path"
    assert validate(Proposal(0, ("results", "a.json"), folder=False), FILES) is None


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("runs",),
        ("runs", ".."),
        ("runs", "."),
        ("runs", ""),
        ("runs", "a/b"),
        ("runs", "a", "b"),
        ("other", "a"),
        ("..", "a"),
        ("runs", ".hidden"),
    ],
)
def test_a_path_that_its_source_cannot_mean_is_a_fault_of_discovery(path: tuple[str, ...]) -> None:
    """It is never looked at: the root is not left, and no other source's entry is taken."""
    with pytest.raises(ValueError, match="discovery"):
        validate(Proposal(0, path, folder=True), RUNS)


@given(st.text(max_size=300))
def test_a_name_is_plain_or_has_a_reason(name: str) -> None:
    """Whatever the text: a plain one has no way out, no control character and at most 255 bytes."""
    why = unsafe(name)
    if not why:
        assert name
        assert "/" not in name
        assert name not in (".", "..")
        assert name.isprintable()
        assert len(name.encode()) <= 255


def test_hidden_names_match_only_patterns_that_mean_them() -> None:
    """Tombstones, indexes and locks begin with a dot, and are never taken for runs."""
    assert not matches(".afterrun-0", "*")
    assert not matches(".active-runs", "*")
    assert matches(".hydra", ".h*")
    assert matches("a", "*")


@pytest.mark.parametrize(
    ("run", "code", "names"),
    [
        ("plain-1", "plain", ("plain-1",)),
        ("a b", "uri", ("a%20b",)),
        ("plain-1", "pi-segment", ("plain-1",)),
        ("x.jsonl", "pi-segment", ("~sha256-", "x.jsonl")),
        ("a\\b", "pi-segment", ("~sha256-", "a%5Cb")),
        ("con", "pi-segment", ("~sha256-", "con")),
        ("../x", "plain", ()),
        ("..", "uri", ()),
        ("bad\n", "uri", ()),
    ],
)
def test_ids_are_spelled_as_the_engine_spells_them(run: str, code: NameCode, names: tuple[str, ...]) -> None:
    """Old and new spelling are both looked for; an id that is no name has none."""
    found = spelled(run, code)
    assert len(found) == len(names)
    assert all(there.startswith(name) for there, name in zip(found, names, strict=True))


def test_a_template_never_leads_out() -> None:
    """Only whole, plain ids are put into templates."""
    assert filled("index/{id}.json", "a", "plain") == (("index", "a.json"),)
    assert filled("index/{id}", "..", "plain") == ()
    assert filled("index/{id}", "a/b", "plain") == ()


def test_mount_points_are_found_below_a_root_only() -> None:
    """The table escapes blanks, tabs, newlines and backslashes."""
    table = (
        b"36 35 98:0 / / rw - ext4 /dev/sda1 rw\n"
        b"37 36 98:0 /x /s/runs/a\\040b/m rw - ext4 /dev/sda1 rw\n"
        b"38 36 98:0 /x /s/runs/new\\012line rw - ext4 /dev/sda1 rw\n"
        b"39 36 98:0 /x /st/other rw - ext4 /dev/sda1 rw\n"
        b"short\n"
    )
    found = mount_points(table, below="/s")
    assert found == {"runs/a b/m", "runs/new\nline"}
    assert is_mounted(("runs", "a b"), found)
    assert is_mounted(("runs", "a b", "m"), found)
    assert not is_mounted(("runs", "a"), found)
    assert not is_mounted(("runs", "a b", "m", "n"), found)


def test_the_kernels_table_of_locks_names_inodes() -> None:
    """Both kinds of locks; who waits for one is listed by an arrow."""
    table = (
        b"1: FLOCK  ADVISORY  WRITE 2313 08:02:4063239 0 EOF\n"
        b"1: -> FLOCK  ADVISORY  WRITE 2314 08:02:4063239 0 EOF\n"
        b"2: POSIX  ADVISORY  READ  1 00:1b:77 0 10\n"
        b"junk a:b:c\n"
    )
    assert held_inodes(table) == {(8, 2, 4063239), (0, 27, 77)}


def test_what_is_open_holds_the_folder_above_it() -> None:
    """Whole parts of paths are compared."""
    assert is_open(("runs", "a"), {"runs/a/x"})
    assert not is_open(("runs", "a"), {"runs/ab/x"})


@pytest.mark.parametrize(
    ("raw", "spelling", "good"),
    [
        (1_790_000_000_000, "epoch_ms", True),
        (1_790_000_000_000.5, "epoch_ms", True),
        (1_790_000_000, "epoch_ms", False),
        (1_790_000_000, "epoch_s", True),
        (True, "epoch_ms", False),
        ("1790000000000", "epoch_ms", False),
        (float("inf"), "epoch_ms", False),
        (float("nan"), "epoch_s", False),
        (10**40, "epoch_ms", False),
        ("2026-11-29T12:00:00Z", "text_utc", True),
        ("2026-11-29 12:00:00.123456789+02:00", "text_utc", True),
        ("2026-11-29T12:00:00", "text_utc", True),
        ("2026-11-29", "text_utc", False),
        ("now", "text_utc", False),
        ("12:00", "text_utc", False),
        ("2026-13-29T12:00:00Z", "text_utc", False),
        (None, "text_utc", False),
    ],
)
def test_times_are_read_strictly(raw: object, spelling: TimeFormat, good: bool) -> None:
    """What is no time is unreadable, and never old."""
    assert (instant_of(raw, spelling) != UNREADABLE) is good


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["state", "id", "mode", "steps", "at"]), inner, max_size=4)
    ),
    max_leaves=10,
)
STATUS = StatusFile.model_validate(
    {
        "file": "status.json",
        "id": "id",
        "state": "state",
        "mode": {"field": "mode", "known": ["x"]},
        "start": {"field": "at", "format": "epoch_ms"},
        "end": [{"field": "steps.*.at", "format": "epoch_ms"}],
        "terminal": ["done"],
        "group": ["mode", "steps"],
        "parent": ["steps.*.id"],
        "children": ["steps.*.steps"],
    }
)


@given(st.dictionaries(st.sampled_from(["state", "id", "mode", "steps", "at"]), JSON, max_size=5))
def test_no_status_is_an_error(record: dict[str, object]) -> None:
    """Any JSON object is read, or has a fault in words."""
    status = status_of(record, STATUS)
    assert status.fault or status.state


@given(st.binary(max_size=60))
def test_no_content_is_an_error(raw: bytes) -> None:
    """Any bytes are a JSON object or nothing."""
    parsed = parse(raw)
    assert parsed is None or isinstance(parsed, dict)
    assert values(parsed, "a.*.b") == [] or parsed is not None
