"""A backup is input: whatever stands in it, nothing is written outside the store or replaced within."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afterrun import BackupFailed, DirectoryRetention, Refused, StoreUnreadable
from afterrun.core.errors import AfterrunError
from afterrun.core.report import Report
from afterrun.core.store import Schema
from afterrun.stores.directory import archive, removal
from afterrun.stores.directory.archive import Writer
from afterrun.stores.directory.backup_records import End, head_of
from afterrun.stores.directory.laying import Laid
from directory.pi_tree import PiTree, opened

RUN = "async-subagent-runs/run"
UNIT = (
    '{"kind": "directory", "unit": "run", '
    '"members": [{"run": "run", "path": ["async-subagent-runs", "run"]}]}'
)
Write = Callable[[Writer], None]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own state out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))


def facts(mode: int, *, size: int = 0) -> os.stat_result:
    """Return what an entry is, as the system tells it."""
    return os.stat_result((mode, 1, 1, 1, 0, 0, size, 1, 1, 1), {"st_mtime_ns": 1_700_000_000_000_000_001})


FOLDER = facts(stat.S_IFDIR | 0o755)


def file(writer: Writer, name: str, content: bytes = b"x", *, mode: int = 0o644) -> None:
    """Write a regular file."""
    writer.header(name, facts(stat.S_IFREG | mode, size=len(content)))
    writer.raw(content)
    writer.pad(len(content))


def unit(writer: Writer, *, record: str = UNIT) -> None:
    """Write the record of a unit, and its folder."""
    writer.record("units/000000.json", record.encode())
    writer.header("store/" + RUN, FOLDER)


def made(tree: PiTree, place: Path, write: Write, *, folders: int = 1, files: int = 1) -> Path:
    """Write a backup with whatever content, whole by its own account."""
    with place.open("wb") as raw, opened(tree.root) as store:
        writer = Writer(raw)
        now = int(datetime.now(UTC).timestamp() * 1_000_000)
        report = Report(
            store=store.url,
            profile="pi-subagents",
            schema=Schema("0.67", read=True),
            dry_run=False,
            now=now,
            policy={},
            fingerprint="f",
            kind="directory",
        )
        writer.record("afterrun.json", head_of(store, report).model_dump_json().encode())
        write(writer)
        end = End(kinds={"directory": 1}, folders=folders, files=files, checksum=writer.checksum)
        writer.record("afterrun-end.json", end.model_dump_json().encode())
        writer.end()
    return place


def restore(tree: PiTree, place: Path, run: str | None = None) -> int:
    """Restore, and return how many units came back."""
    with DirectoryRetention(str(tree.root)) as retention:
        return retention.restore(place, run).units


def outside(tree: PiTree) -> set[str]:
    """Return what lies beside the store."""
    return {path.name for path in tree.root.parent.iterdir()}


def test_an_honest_one_comes_back(tree: PiTree, tmp_path: Path) -> None:
    """What the other tests spoil is right as such; no setuid bit comes with it."""

    def write(writer: Writer) -> None:
        unit(writer)
        file(writer, f"store/{RUN}/tool", mode=0o4755)

    assert restore(tree, made(tree, tmp_path / "b.tar", write)) == 1
    assert stat.S_IMODE((tree.runs / "run" / "tool").stat().st_mode) == 0o755
    assert (tree.runs / "run" / "tool").stat().st_mtime_ns == 1_700_000_000_000_000_001


@pytest.mark.parametrize(
    "name",
    [
        f"store/{RUN}/../../../evil",
        f"store/{RUN}/..",
        f"store/{RUN}/./x",
        f"store/{RUN}//x",
        f"store/{RUN}/{'n' * 256}",
        f"store/{RUN}/" + "d/" * 101 + "x",
        "store/async-subagent-runs/other/x",
        "store/evil",
        "store//etc/evil",
        "/etc/evil",
        "../evil",
        "evil",
    ],
)
def test_a_name_that_leads_elsewhere_spoils_it_all(name: str, tree: PiTree, tmp_path: Path) -> None:
    """Up, to the root, to another run or nowhere: nothing is written, and nothing comes back."""

    def write(writer: Writer) -> None:
        unit(writer)
        file(writer, name)

    place = made(tree, tmp_path / "b.tar", write)
    before = outside(tree)
    with pytest.raises(BackupFailed):
        restore(tree, place)
    assert tree.names() == set()
    assert tree.tombstones() == []
    assert outside(tree) | {"state"} == before | {"state"}


@pytest.mark.parametrize(
    "path",
    [
        '["..", "evil"]',
        '["async-subagent-runs", ".."]',
        '["async-subagent-runs", "a/b"]',
        '["", "etc", "evil"]',
        '[".afterrun", "lock"]',
        '["async-subagent-runs", ".afterrun-0123"]',
        '["async-subagent-runs", "a\\u0000b"]',
        "[]",
    ],
)
def test_a_unit_lies_in_the_store_by_a_plain_name(path: str, tree: PiTree, tmp_path: Path) -> None:
    """A record that names another place spoils it all."""
    record = f'{{"kind": "directory", "unit": "run", "members": [{{"run": "run", "path": {path}}}]}}'
    place = made(tree, tmp_path / "b.tar", lambda writer: unit(writer, record=record))
    with pytest.raises(BackupFailed):
        restore(tree, place)


def test_a_place_that_the_profile_does_not_know_stays_empty(tree: PiTree, tmp_path: Path) -> None:
    """A unit comes back only to where its engine keeps such units."""
    record = UNIT.replace('"async-subagent-runs", "run"', '"wait-subscriptions", "x"')

    def write(writer: Writer) -> None:
        writer.record("units/000000.json", record.encode())
        writer.header("store/wait-subscriptions/x", FOLDER)

    place = made(tree, tmp_path / "b.tar", write, files=0)
    assert restore(tree, place) == 0
    with pytest.raises(Refused):
        restore(tree, place, "run")
    assert list(tree.waits.iterdir()) == []


def test_a_link_in_it_leads_nothing_out(tree: PiTree, tmp_path: Path) -> None:
    """A file below a link cannot be written, and what was laid out before it is taken away."""
    (tmp_path / "target").mkdir()

    def write(writer: Writer) -> None:
        unit(writer)
        writer.header(f"store/{RUN}/out", facts(stat.S_IFLNK | 0o777), link=str(tmp_path / "target"))
        file(writer, f"store/{RUN}/out/evil")

    place = made(tree, tmp_path / "b.tar", write, files=2)
    with pytest.raises(AfterrunError):
        restore(tree, place)
    assert list((tmp_path / "target").iterdir()) == []
    assert tree.names() == set()
    assert tree.tombstones() == []


@pytest.mark.parametrize(
    "kind", [tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE]
)
def test_other_kinds_of_members_spoil_it_all(kind: bytes, tree: PiTree, tmp_path: Path) -> None:
    """Hard links, FIFOs, devices and sparse files are never written, so they are never read."""

    def write(writer: Writer) -> None:
        unit(writer)
        info = tarfile.TarInfo(f"store/{RUN}/x")
        info.type, info.linkname = kind, "/etc/passwd"
        writer.raw(info.tobuf(tarfile.PAX_FORMAT))

    with pytest.raises(BackupFailed):
        restore(tree, made(tree, tmp_path / "b.tar", write))


@pytest.mark.parametrize(
    "headers",
    [{"path": "/etc/evil"}, {"GNU.sparse.major": "1"}, {"comment": "c"}, {"path": "p" * archive.MAX_HEADER}],
)
def test_extended_headers_hold_what_is_written_here(
    headers: dict[str, str], tree: PiTree, tmp_path: Path
) -> None:
    """Another key, another place or a very long one spoils it all."""

    def write(writer: Writer) -> None:
        unit(writer)
        info = tarfile.TarInfo(f"store/{RUN}/x")
        info.pax_headers = headers
        writer.raw(info.tobuf(tarfile.PAX_FORMAT))

    with pytest.raises(BackupFailed):
        restore(tree, made(tree, tmp_path / "b.tar", write))


@pytest.mark.parametrize("twice", ["folder", "file"])
def test_an_entry_that_is_there_twice_spoils_it(twice: str, tree: PiTree, tmp_path: Path) -> None:
    """The second one would replace the first."""

    def write(writer: Writer) -> None:
        unit(writer)
        file(writer, f"store/{RUN}/x")
        if twice == "file":
            file(writer, f"store/{RUN}/x", b"other")
        else:
            writer.header("store/" + RUN, FOLDER)

    place = made(tree, tmp_path / "b.tar", write, files=2 if twice == "file" else 1)
    with pytest.raises(AfterrunError):
        restore(tree, place)
    assert (tree.names(), tree.tombstones()) == (set(), [])


def whole(tree: PiTree, tmp_path: Path) -> bytes:
    """Return an honest backup."""

    def write(writer: Writer) -> None:
        unit(writer)
        file(writer, f"store/{RUN}/x", b"content" * 200)

    return made(tree, tmp_path / "honest.tar", write).read_bytes()


def test_every_damage_is_noticed(tree: PiTree, tmp_path: Path) -> None:
    """Cut off anywhere, with a bit turned anywhere, or with something behind it: nothing comes back."""
    raw = whole(tree, tmp_path)
    place = tmp_path / "b.tar"
    damaged = [raw[:cut] for cut in range(0, len(raw), 509)]
    damaged += [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(0, len(raw), 97)]
    damaged += [raw + b"\0", raw + raw]
    for number, part in enumerate(damaged):
        place.write_bytes(part)
        try:
            back = restore(tree, place)
        except (BackupFailed, Refused):
            back = 0
        assert back == 0, number
        assert tree.names() == set(), number


@pytest.mark.parametrize("content", [b"", b"text" * 1_000, b"SQLite format 3\0" + bytes(4_096)])
def test_another_file_is_no_backup(content: bytes, tree: PiTree, tmp_path: Path) -> None:
    """Whatever it is, it says so, and nothing more happens."""
    (tmp_path / "b.tar").write_bytes(content)
    with pytest.raises((BackupFailed, Refused)):
        restore(tree, tmp_path / "b.tar")


def test_an_archive_of_somebody_else_is_no_backup(tree: PiTree, tmp_path: Path) -> None:
    """A tar that people made has no head of ours."""
    with tarfile.open(tmp_path / "b.tar", "w") as other:
        other.addfile(tarfile.TarInfo("x"), io.BytesIO())
    with pytest.raises(Refused):
        restore(tree, tmp_path / "b.tar")


def test_a_backup_that_is_no_file_is_told_of(tree: PiTree, tmp_path: Path) -> None:
    """Missing, a folder, a FIFO: none is waited for."""
    os.mkfifo(tmp_path / "fifo")
    for name in ("nothing", "store", "fifo"):
        with pytest.raises(StoreUnreadable):
            restore(tree, tmp_path / name)


def test_a_backup_of_another_engine_is_refused(tree: PiTree, tmp_path: Path) -> None:
    """Its runs would mean nothing here."""
    raw = whole(tree, tmp_path)
    other = tmp_path / "other" / "offline-run-1"
    other.mkdir(parents=True)
    (tmp_path / "b.tar").write_bytes(raw)
    with (
        DirectoryRetention(str(other.parent), profile="wandb") as retention,
        pytest.raises(Refused, match="profile"),
    ):
        retention.restore(tmp_path / "b.tar")


def test_a_store_that_was_moved_is_told_of(tree: PiTree, tmp_path: Path) -> None:
    """A backup of another place with the same profile comes back, with a word about it."""
    raw = whole(tree, tmp_path)
    (tmp_path / "b.tar").write_bytes(raw)
    moved = PiTree(tmp_path / "moved")
    with DirectoryRetention(str(moved.root)) as retention:
        back = retention.restore(tmp_path / "b.tar")
    assert back.units == 1
    assert "elsewhere" in back.notices[0]


class Killed(BaseException):
    """Stands for a process that is gone."""


def test_killed_while_it_is_laid_out_nothing_is_back(
    tree: PiTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was laid out is hidden, and the next sweep takes it away."""
    place = tmp_path / "b.tar"
    place.write_bytes(whole(tree, tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(Laid, "drop", lambda _: None)
        patched.setattr(Laid, "finish", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            restore(tree, place)
    assert tree.names() == set()
    assert len(tree.tombstones()) == 1
    with opened(tree.root) as store, store.sweep_lock():
        pass
    assert tree.tombstones() == []
    assert restore(tree, place) == 1


def test_killed_while_it_is_renamed_it_comes_back_whole(
    tree: PiTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tree of which one member is in its place, the next sweep puts back the others."""
    record = UNIT.replace("]}]", ']}, {"run": "child", "path": ["nested-subagent-runs", "run", "child"]}]')

    def write(writer: Writer) -> None:
        unit(writer, record=record)
        writer.header("store/nested-subagent-runs/run/child", FOLDER)
        file(writer, "store/nested-subagent-runs/run/child/x")

    place = made(tree, tmp_path / "b.tar", write, folders=2)
    put_back = removal.put_back

    def killed(root: int, entry: object) -> bool:
        if "child" in entry.path:  # type: ignore[attr-defined]
            raise Killed
        return put_back(root, entry)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Laid, "drop", lambda _: None)
        patched.setattr("afterrun.stores.directory.laying.put_back", killed)
        with pytest.raises(Killed):
            restore(tree, place)
    with opened(tree.root) as store, store.sweep_lock():
        pass
    assert tree.names() == {"run"}
    assert (tree.root / "nested-subagent-runs" / "run" / "child" / "x").exists()
    assert tree.tombstones() == []
