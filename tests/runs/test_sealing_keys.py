from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from afterrun.core.errors import UsageError
from afterrun.runs import Key, Keys
from afterrun.runs.keys import FILE_VARIABLE, MAX_FILE, VARIABLE

ONE = bytes(range(32))
TWO = bytes(range(1, 33))


def _base64(secret: bytes) -> str:
    return base64.b64encode(secret).decode()


SPELLINGS = {
    "base64": _base64(ONE),
    "base64 for URLs, unpadded": base64.urlsafe_b64encode(ONE).decode().rstrip("="),
    "hex": ONE.hex(),
    "HEX": ONE.hex().upper(),
    "named": f"2026-01:{_base64(ONE)}",
    "named hex": f"main:{ONE.hex()}",
    "with space around": f"  {_base64(ONE)}\n",
}


@pytest.mark.parametrize("how", SPELLINGS)
def test_a_key_can_be_written_in_several_ways(how: str) -> None:
    """All of them are the same key, by its id, too."""
    assert Keys.parse(SPELLINGS[how]).current == Key.of(ONE)


def test_the_first_key_is_the_current_one() -> None:
    """Older ones follow on further lines; empty lines and comments are passed by."""
    keys = Keys.parse(f"# since March\nnew:{_base64(TWO)}\n\n# before\n{ONE.hex()}\n")
    assert (keys.current, keys.older) == (Key.of(TWO), (Key.of(ONE),))
    assert Keys.parse(keys.text()) == keys
    newer = keys.rotated()
    assert newer.older == (Key.of(TWO), Key.of(ONE))


@pytest.mark.parametrize(
    "text",
    ["", "# nothing", "short", "x" * 43 + "!", ONE.hex()[:-2], f"{ONE.hex()}00", _base64(b"x" * 31), "a:b:c"],
)
def test_what_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    """The sentence says what a key is."""
    with pytest.raises(UsageError) as refused:
        Keys.parse(text)
    assert not text or text not in str(refused.value)


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    """Neither in a representation nor by its id."""
    keys = Keys.parse(_base64(ONE))
    for secret in (_base64(ONE), ONE.hex(), repr(ONE)[2:20]):
        assert secret not in repr(keys)
        assert secret not in keys.current.id


def test_keys_come_from_the_environment(tmp_path: Path) -> None:
    """From a variable or from the file that one names; two sources are one too many."""
    path = tmp_path / "key"
    Keys(Key.of(TWO)).write(path)
    assert Keys.from_environment({}) is None
    assert Keys.from_environment({VARIABLE: "", FILE_VARIABLE: ""}) is None
    assert Keys.from_environment({VARIABLE: ONE.hex()}) == Keys(Key.of(ONE))
    assert Keys.from_environment({FILE_VARIABLE: str(path)}) == Keys(Key.of(TWO))
    with pytest.raises(UsageError, match="both set"):
        Keys.from_environment({VARIABLE: ONE.hex(), FILE_VARIABLE: str(path)})


def test_a_written_key_is_its_owners_alone(tmp_path: Path) -> None:
    """The file is new, readable by nobody else, and is read back; a second one is refused."""
    path = tmp_path / "key"
    keys = Keys.generate()
    keys.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Keys.from_file(path) == keys
    with pytest.raises(UsageError, match="a file already"):
        Keys.generate().write(path)
    assert Keys.from_file(path) == keys


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    """The sentence says what to do."""
    path = tmp_path / "key"
    Keys.generate().write(path)
    path.chmod(mode)
    with pytest.raises(UsageError, match="chmod 600"):
        Keys.from_file(path)


def test_a_file_that_is_no_plain_file_of_text_is_refused(tmp_path: Path) -> None:
    """Links, folders, large files, bytes and missing ones: each has a sentence."""
    path = tmp_path / "key"
    Keys.generate().write(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    large, raw = tmp_path / "large", tmp_path / "raw"
    large.write_bytes(b"#" * (MAX_FILE + 1))
    raw.write_bytes(b"\xff" * 32)
    for made in (large, raw):
        made.chmod(0o600)
    told = {link: "symbolic link", folder: "no regular file", large: "larger than", raw: "not text"}
    told[tmp_path / "missing"] = "No such file"
    for wrong, sentence in told.items():
        with pytest.raises(UsageError, match=sentence):
            Keys.from_file(wrong)
