from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from afterrun import Refused, UsageError
from afterrun.server.errors import StoreHeld
from afterrun.server.places import Address, ServerFolder, backup_folder, read_token
from afterrun.server.serving import listening

HOLD = """
import sys
from pathlib import Path
from afterrun.server.places import Address, ServerFolder

folder = ServerFolder(sys.argv[1], state=Path(sys.argv[2]))
with folder.held():
    folder.publish(Address(url="http://127.0.0.1:1", token_file=str(folder.token_file)))
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> ServerFolder:
    """Name the folder of a store's server."""
    return ServerFolder(str(tmp_path / "runs.sqlite"), state=tmp_path / "state")


def address_in(folder: ServerFolder) -> Address:
    """Return some address."""
    return Address(url="http://127.0.0.1:4711", token_file=str(folder.token_file))


def mode(path: Path) -> int:
    """Return the rights of a path."""
    return path.stat().st_mode & 0o777


def test_a_server_is_found_while_it_holds_its_store(folder: ServerFolder, tmp_path: Path) -> None:
    """Before and after nothing is found, and in between by any name of the store."""
    assert folder.find() is None
    with folder.held():
        folder.publish(address_in(folder))
        assert folder.find() == address_in(folder)
        again = ServerFolder(f"sqlite:///{tmp_path}/./runs.sqlite", state=tmp_path / "state")
        assert again.find() == address_in(folder)
    assert folder.find() is None


def test_what_a_server_keeps_is_closed_to_others(folder: ServerFolder, tmp_path: Path) -> None:
    """Folders, token and address are its user's alone, whatever the umask."""
    before = os.umask(0)
    try:
        with folder.held():
            folder.publish(address_in(folder))
            folder.token()
            assert mode(folder.path) == mode(folder.path.parent) == mode(tmp_path / "state") == 0o700
            assert {mode(path) for path in folder.path.iterdir()} == {0o600}
    finally:
        os.umask(before)


def test_a_second_server_is_refused(folder: ServerFolder, tmp_path: Path) -> None:
    """The lock is the kernel's: it goes with the process, however that ended."""
    arguments = [sys.executable, "-c", HOLD, str(tmp_path / "runs.sqlite"), str(tmp_path / "state")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert folder.find() == Address(url="http://127.0.0.1:1", token_file=str(folder.token_file))
        with pytest.raises(StoreHeld, match="another server"), folder.held():
            pass
        other.kill()
        other.wait()
    assert folder.find() is None
    assert (folder.path / "address.json").exists()
    with folder.held():
        assert not (folder.path / "address.json").exists()


def test_a_server_that_starts_is_waited_for(folder: ServerFolder) -> None:
    """A lock without an address is said in a sentence."""
    with folder.held(), pytest.raises(StoreHeld, match="starts or ends"):
        folder.find()


def test_a_damaged_address_is_said(folder: ServerFolder) -> None:
    """What cannot be an address leads nowhere."""
    with folder.held():
        for text in ("{", "{}", '{"url": "http://user:password@evil.example", "token_file": "x"}'):
            (folder.path / "address.json").write_text(text)
            with pytest.raises(Refused, match="damaged"):
                folder.find()


def test_a_folder_that_others_may_enter_is_refused(folder: ServerFolder) -> None:
    """So is a link in its place."""
    folder.path.mkdir(parents=True)
    folder.path.chmod(0o755)
    with pytest.raises(Refused, match="open to others"), folder.held():
        pass
    folder.path.rmdir()
    folder.path.symlink_to(folder.path.parent)
    with pytest.raises(Refused, match="no folder of its own"), folder.held():
        pass


def test_a_token_is_made_once(folder: ServerFolder) -> None:
    """It is long, random, and the same at the next start."""
    folder.path.mkdir(parents=True, mode=0o700)
    token = folder.token()
    assert len(token) >= 43
    assert folder.token() == token == read_token(folder.token_file)


@pytest.mark.parametrize("text", ["", "short", "a b" * 20, "ä" * 40, "x" * 600, "x" * 40 + "\n" + "y" * 40])
def test_a_token_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    """An empty or guessable token guards nothing."""
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match="holds no token") as refused:
        read_token(path)
    assert "short" not in str(refused.value)


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """So is a link, a folder and nothing."""
    path = tmp_path / "token"
    path.write_text("x" * 40)
    path.chmod(0o640)
    with pytest.raises(Refused, match="open to others"):
        read_token(path)
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(Refused, match="no regular file"):
        read_token(link)
    for other in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(Refused, match="cannot be read"):
            read_token(other)


@pytest.mark.parametrize(
    "where",
    [
        "0.0.0.0:0",
        "[::]:0",
        "192.168.1.1:80",
        "example.com:80",
        ":80",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:70000",
    ],
)
def test_a_server_listens_on_loopback_alone(tmp_path: Path, where: str) -> None:
    """Whoever wants more puts something before it."""
    with pytest.raises(UsageError, match="loopback"), listening(where, unix=tmp_path / "sock"):
        pass


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """The sentence names the address."""
    with listening("127.0.0.1:0", unix=tmp_path / "sock") as first:
        where = first.url.removeprefix("http://")
        with pytest.raises(Refused, match=where), listening(where, unix=tmp_path / "sock"):
            pass


def test_a_socket_is_its_users_alone(tmp_path: Path) -> None:
    """It has no port, and a path that is too long for a socket is said."""
    path = tmp_path / "http.sock"
    with listening("unix", unix=path) as where:
        assert (where.path, mode(path)) == (path, 0o600)
    with pytest.raises(UsageError, match="too long"), listening("unix", unix=tmp_path / ("x" * 200)):
        pass


def test_a_folder_for_backups_is_there(tmp_path: Path) -> None:
    """A server that could make no backup says so at its start."""
    assert backup_folder(tmp_path) == tmp_path.resolve()
    with pytest.raises(UsageError, match=r"server\.backups"):
        backup_folder(tmp_path / "nothing")
